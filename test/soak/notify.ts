/**
 * Is every notification one row, and seen once and in order, whatever is killed meanwhile?
 *
 * `npm run soak -- notify [MESSAGES] [USERS] [KILLS] [SEED]`: MESSAGES (20,000) to USERS (200), each with a client, while the service's
 * process, PostgreSQL and NATS get SIGKILL, KILLS (10) in all. Without nats-server the bus is the embedded one.
 */

import { runNotifyChaos } from '../support/notify/chaos.ts';
import { findProgram } from '../support/require.ts';

const [messages = 20_000, users = 200, kills = 10, seed = Date.now() % 1000] = process.argv.slice(2).map(Number);
const nats = findProgram('nats-server') !== undefined;
process.stdout.write(`seed ${seed}, bus ${nats ? 'NATS' : 'embedded'}\n`);
const report = await runNotifyChaos({ seed, messages, users, kills, nats, settleMs: 300_000 });
process.stdout.write(`${JSON.stringify(report, undefined, 2)}\n`);
