/**
 * Do clients of notifications that all come back at once get what they missed? `npm run soak -- reconnect [CLIENTS] [ROUNDS]`: 10,000 clients, five to a
 * user; three times the service is killed, everybody is told something, and the service starts again. It fails when a client misses, doubles or
 * mixes up one, or is not back after two minutes.
 */
import { execFileSync } from 'node:child_process';
import { runReconnect } from '../support/notify/mass-reconnect.ts';
import { tidily } from '../support/temp.ts';

const [clients = 10_000, rounds = 3] = process.argv.slice(2).map(Number);
const files = execFileSync('sh', ['-c', 'ulimit -n'], { encoding: 'utf8' }).trim();
if (files !== 'unlimited' && Number(files) < clients + 1000) {
  process.stdout.write(`${files} open files are too few: raise it with ulimit -n ${clients + 1000}.\n`);
  process.exit(1);
}
const report = await tidily((t) => runReconnect(t, { users: clients / 5, perUser: 5, rounds, settleMs: 120_000 }));
process.stdout.write(`${JSON.stringify(report)}\n`);
