/**
 * A process that runs the server of a data directory until it is killed. Arguments: data directory; then `progress` to
 * print what is said on the way, or `old` for a database of the former version, which stays so.
 */

import { openDb } from '../../../storage/db.ts';
import { startEmbedded } from '../../../storage/embedded/server.ts';
import { silentLog } from '../log.ts';
import { OLD_MAJOR } from './old-database.ts';

const [, , dataDir = '', mode] = process.argv;
const server = await startEmbedded({
  dataDir,
  log: silentLog,
  ...(mode === 'old' ? { major: OLD_MAJOR } : {}),
  ...(mode === 'progress' ? { onProgress: (line) => process.stdout.write(`${line}\n`) } : {}),
});
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
