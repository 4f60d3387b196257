/** A process that runs the server of a data directory until it is killed. Argument: data directory. */

import { openDb } from '../../../storage/db.ts';
import { startEmbedded } from '../../../storage/embedded/server.ts';
import { silentLog } from '../log.ts';

const server = await startEmbedded({ dataDir: process.argv[2] ?? '', log: silentLog });
const db = openDb(server.connection, { log: silentLog, name: 'child' });
await db.ping();
process.stdout.write(`${JSON.stringify({ owner: server.owner })}\n`);
// Keeps the process until it is killed, or asked to stop.
process.stdin.resume();
process.stdin.on('end', async () => {
  await db.close();
  await server.stop();
  process.exit(0);
});
