/**
 * Do `troupe logs -f`, `shell` and `notifications -f` go on by themselves? `npm run soak -- follows [SECONDS]`, as root, with an engine in
 * DOCKER_HOST: packets to and from the platform are dropped for 20 seconds, the platform is stopped and starts again, and is
 * killed and starts again. It fails when a line of the log, of the terminal or a notification is missing, or there twice.
 */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { followTrial } from '../support/client/follow-trial.ts';
import { pause } from '../support/pause.ts';

const run = promisify(execFile);
const TABLE = 'troupe_follows';
const seconds = Number(process.argv[2] ?? 20);

const report = await followTrial({
  events: ['cut', 'stop', 'cut', 'kill'],
  env: {},
  keepsShell: true,
  async cut(port) {
    const rules = ['sport', 'dport'].map((side) => `tcp ${side} ${port} drop;`).join(' ');
    await run('nft', [`table inet ${TABLE} {\n chain input {\n type filter hook input priority 0; ${rules}\n }\n}`]);
    try {
      await pause(seconds * 1000, 'fault');
    } finally {
      await run('nft', ['delete', 'table', 'inet', TABLE]);
    }
  },
});
process.stdout.write(`${JSON.stringify(report)}\n`);
if (report.faults.length > 0) process.exitCode = 1;
