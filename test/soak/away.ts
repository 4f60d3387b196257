/**
 * Are notifications kept while the database is away? `npm run soak -- away [SECONDS] [USERS] [EACH]`: for 300 seconds the service does not reach
 * PostgreSQL, while each of 1,000 users is told 20 things. It fails when one is lost, doubled or a dead letter, when a client misses or mixes up one, and
 * when the service's memory grows by more than 150 MB meanwhile.
 */
import { runAway } from '../support/notify/database-outage.ts';
import { tidily } from '../support/temp.ts';

const [seconds = 300, users = 1000, each = 20] = process.argv.slice(2).map(Number);
const report = await tidily((t) => runAway(t, { users, each, awayMs: seconds * 1000, settleMs: 300_000 }));
process.stdout.write(`${JSON.stringify(report)}\n`);
if (report.memoryMb.most - report.memoryMb.before > 150) process.exitCode = 1;
