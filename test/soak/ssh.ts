/**
 * Does every transfer through the gateway's SSH server arrive whole? By shell, `scp` and pipes, both ways, three ciphers, some with an
 * exchange of keys in the middle.
 *
 * `npm run soak -- ssh [TRANSFERS]`: default 1,000. Needs root and OpenSSH.
 */

import { openSsh } from '../support/ssh/gateway.ts';
import { transfers } from '../support/ssh/transfers.ts';

const count = Number(process.argv[2] ?? 1000);
const ends: (() => Promise<void> | void)[] = [];
const setup = await openSsh({ after: (end) => void ends.unshift(end) });
const began = performance.now();
const problems: string[] = [];
try {
  for (let done = 0; done < count; done += 100) {
    problems.push(...(await transfers(setup, Math.min(100, count - done), 4)));
    const seconds = ((performance.now() - began) / 1000).toFixed(0);
    process.stdout.write(`${Math.min(count, done + 100)} transfers, ${problems.length} damaged, ${seconds} s\n`);
  }
} finally {
  for (const end of ends) await end();
}
for (const problem of problems) process.stdout.write(`${problem}\n`);
process.exitCode = problems.length === 0 ? 0 : 1;
