/**
 * How many acknowledged publishes and consumed messages a second does the bus carry on NATS, beside NATS's own client?
 *
 * `npm run bench -- bus [ROUNDS]`: one nats-server of its own on loopback, file storage. Every message has 200 bytes and an id that the
 * server remembers. Rows, interleaved: `append` (ours, one promise a message) beside the client's `js.publish` and beside the barest there
 * is, `counted`: publishes with a reply subject whose answers are only counted. `consume` (ours: batches to a handler that acknowledges
 * every message, acknowledgements confirmed in batches) beside the client's `consume` with `ack()` on each. Processor time is this
 * process's own, an operation: it says more than the rate where the server takes the rest of the machine.
 */

import { cpus } from 'node:os';
import { jetstream } from '@nats-io/jetstream';
import { connect, headers } from '@nats-io/transport-node';
import type { StreamMessage } from '../proto/ports/bus.ts';
import { BUS_SECRET, startNats } from '../test/support/bus/nats-server.ts';
import { silentLog } from '../test/support/log.ts';
import { natsBus } from '../transports/bus/nats.ts';

const rounds = Math.min(Math.max(Number(process.argv[2] ?? 3) || 3, 1), 10);
const COUNT = 100_000;
/** What the client's own call does in the same time is far less. */
const PUBLISH_COUNT = 20_000;
/** Messages on their way at once, for all alike. */
const WINDOW = 4000;
const payload = new Uint8Array(200).fill(65);

const ends: (() => unknown)[] = [];
const server = await startNats({ after: (end) => void ends.unshift(end) });
const bus = natsBus({
  secret: BUS_SECRET,
  ...{ address: { servers: [server.server] }, name: 'bench', deadLetters: { add: async () => {} }, log: silentLog },
});
ends.unshift(() => bus.close());
const connection = await connect({ servers: server.server });
ends.unshift(() => connection.close());
const js = jetstream(connection);
await bus.connected(5000);
const limits = { maxMessages: 10_000_000, maxBytes: 2 ** 30, maxAgeMs: 3_600_000, duplicateWindowMs: 120_000 };
const config = { ackWaitMs: 30_000, maxDeliver: 5, maxAckPending: 1000 };
let serial = 0;

/** Runs `publish` for `count` messages, `WINDOW` at once. */
async function windowed(count: number, publish: (id: string) => Promise<unknown>): Promise<void> {
  let left = count;
  const one = async (): Promise<void> => {
    while (left > 0) {
      left -= 1;
      serial += 1;
      await publish(`id-${serial}`);
    }
  };
  await Promise.all(Array.from({ length: Math.min(WINDOW, count) }, one));
}

async function counted(): Promise<void> {
  let sent = 0;
  let got = 0;
  await new Promise<void>((resolve) => {
    const send = () => {
      while (sent < COUNT && sent - got < WINDOW) {
        sent += 1;
        serial += 1;
        const id = headers();
        id.set('Nats-Msg-Id', `id-${serial}`);
        connection.publish('bench.x', payload, { reply: `bench-inbox.${sent}`, headers: id });
      }
    };
    const subscription = connection.subscribe('bench-inbox.*', {
      callback: () => {
        got += 1;
        if (got % 100 === 0) send();
        if (got < COUNT) return;
        subscription.unsubscribe();
        resolve();
      },
    });
    send();
  });
}

async function consumeOurs(durable: string): Promise<void> {
  let got = 0;
  let done: () => void = () => undefined;
  const all = new Promise<void>((resolve) => {
    done = resolve;
  });
  const handler = async (batch: readonly StreamMessage[]) => {
    await Promise.all(batch.map((message) => message.ack()));
    got += batch.length;
    if (got >= COUNT) done();
  };
  const consuming = await bus.consume('BENCH', { ...config, durable }, handler);
  await all;
  await consuming.close();
}

async function consumeBare(durable: string): Promise<void> {
  await bus.consume('BENCH', { ...config, durable }, async () => {}).then((made) => made.close());
  const messages = await (await js.consumers.get('BENCH', durable)).consume({ max_messages: config.maxAckPending });
  let got = 0;
  for await (const message of messages) {
    message.ack();
    got += 1;
    if (got >= COUNT) break;
  }
  await connection.flush();
}

const rows = [
  { row: 'append', count: COUNT, run: () => windowed(COUNT, (id) => bus.append('bench.x', payload, { msgId: id })) },
  {
    row: 'js.publish',
    count: PUBLISH_COUNT,
    run: () => windowed(PUBLISH_COUNT, (id) => js.publish('bench.x', payload, { msgID: id })),
  },
  { row: 'counted', count: COUNT, run: counted },
  { row: 'consume', count: COUNT, run: () => consumeOurs(`ours-${serial++}`) },
  { row: 'client consume', count: COUNT, run: () => consumeBare(`bare-${serial++}`) },
];
const noSamples = (): { rates: number[]; micros: number[] } => ({ rates: [], micros: [] });
const seen = new Map(rows.map(({ row }) => [row, noSamples()]));
try {
  for (let round = 0; round <= rounds; round++) {
    await bus.ensureStream({ name: 'BENCH', subjects: ['bench.>'], ...limits });
    for (const { row, count, run } of rows) {
      const started = performance.now();
      const before = process.cpuUsage();
      await run();
      const { user, system } = process.cpuUsage(before);
      if (round === 0) continue; // Lets the compiler settle.
      seen.get(row)?.rates.push((count / (performance.now() - started)) * 1000);
      seen.get(row)?.micros.push((user + system) / count);
    }
    const manager = await js.jetstreamManager();
    await manager.streams.purge('BENCH');
  }
} finally {
  for (const end of ends) await end();
}

const median = (values: readonly number[] | undefined) =>
  values?.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
const rate = (row: string) => Math.round(median(seen.get(row)?.rates));
const micros = (row: string) => Number(median(seen.get(row)?.micros).toFixed(2));
const line = (...cells: readonly string[]) => {
  process.stdout.write(`${cells.map((cell, index) => (index === 0 ? cell.padEnd(18) : cell.padStart(16))).join('')}\n`);
};
const machine = `${cpus()[0]?.model ?? 'unknown'} x${cpus().length}, node ${process.version}`;
process.stdout.write(`${machine}, ${rounds} rounds of ${COUNT} messages, medians\n`);
line('', 'messages/s', 'processor us');
for (const { row } of rows) line(row, String(rate(row)), String(micros(row)));
const ratio = (ours: string, peer: string) => Number((rate(ours) / rate(peer)).toFixed(2));
line('append / js.publish', String(ratio('append', 'js.publish')));
line('append / counted', String(ratio('append', 'counted')));
line('consume / client', String(ratio('consume', 'client consume')));
const result = [
  {
    row: 'append',
    unit: 'msg/s',
    ours: rate('append'),
    peers: { 'js.publish': rate('js.publish'), counted: rate('counted') },
  },
  { row: 'consume', unit: 'msg/s', ours: rate('consume'), peers: { client: rate('client consume') } },
  { row: 'append processor time', unit: 'us/msg', ours: micros('append'), peers: { counted: micros('counted') } },
  {
    row: 'consume processor time',
    unit: 'us/msg',
    ours: micros('consume'),
    peers: { client: micros('client consume') },
  },
];
process.stdout.write(`${JSON.stringify({ bench: 'bus', machine, rows: result })}\n`);
