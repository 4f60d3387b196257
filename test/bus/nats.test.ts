import { test } from 'node:test';
import { deadLetterSink } from '../../storage/bus/dead-letters.ts';
import { natsBus } from '../../transports/bus/nats.ts';
import { type BusBench, busContract } from '../support/bus/conformance.ts';
import { BUS_SECRET, skipWithoutNats, startNats } from '../support/bus/nats-server.ts';
import { testDatabase } from '../support/database/database.ts';
import { silentLog } from '../support/log.ts';

/** Buses that each have a connection of their own, as processes would. */
async function natsBench(): Promise<BusBench> {
  const ends: (() => Promise<void> | void)[] = [];
  const server = await startNats({ after: (end) => void ends.unshift(end) });
  const database = await testDatabase();
  return {
    async open() {
      const bus = natsBus({
        secret: BUS_SECRET,
        address: { servers: [server.server] },
        name: 'test',
        deadLetters: deadLetterSink(database.db),
        log: silentLog,
      });
      await bus.connected(5000);
      return bus;
    },
    async close() {
      await database.close();
      for (const end of ends) await end();
    },
  };
}

const missing = skipWithoutNats();
if (missing === false) busContract('nats bus', natsBench);
else test('nats bus', { skip: missing }, () => undefined);
