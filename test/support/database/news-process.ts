/** A process that tells something, and is killed between the commit and the message. Argument: database URL. */
import { openDb } from '../../../storage/db.ts';
import { silentLog } from '../log.ts';

const [url = ''] = process.argv.slice(2);
const db = openDb({ connectionString: url }, { log: silentLog, name: 'child', news: { quietMs: 0 } });
db.tellOver({
  publish: () => process.kill(process.pid, 'SIGKILL'),
  subscribe: () => ({ close: async () => {} }),
});
// Once it listens, it knows that nobody needs NOTIFY.
await new Promise<void>((resolve) => db.listen('tokens', () => resolve()));
await db.tx((tx) => tx.notify('tokens', 'token:revoked'));
