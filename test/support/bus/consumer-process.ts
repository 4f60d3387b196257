/** A process that consumes and tells what it did, to be killed. Arguments: database URL, stream, mode. */

import { streamStore } from '../../../storage/bus/store.ts';
import { openDb } from '../../../storage/db.ts';
import { embeddedBus } from '../../../transports/bus/embedded.ts';
import { silentLog } from '../log.ts';

const [url = '', stream = '', mode = ''] = process.argv.slice(2);
const db = openDb({ connectionString: url }, { log: silentLog, name: 'child' });
const bus = embeddedBus({ store: streamStore(db), log: silentLog });
const config = { durable: 'worker', ackWaitMs: 1000, maxDeliver: 50, maxAckPending: 20 };
await bus.consume(stream, config, async (batch) => {
  for (const message of batch) {
    // Two lines a message: handled, and acknowledged for sure.
    process.stdout.write(`handled ${message.seq}\n`);
    if (mode === 'never-ack') continue;
    await message.ack();
    process.stdout.write(`acked ${message.seq}\n`);
  }
});
