/** Asks between two processes: through placement, and bare over NATS's own client, on the same nats-server. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { connect, type NatsConnection } from '@nats-io/transport-node';
import { z } from 'zod';
import { newId } from '../../proto/ids.ts';
import { openDb } from '../../storage/db.ts';
import { leaseStore } from '../../storage/placement/leases.ts';
import { dispatch, type EntityKind, entities, type Ref, start, stop, stopped } from '../../supervision/index.ts';
import { Cluster, jsonCodec, type PlacedKind } from '../../supervision/placement/index.ts';
import { BUS_SECRET } from '../../test/support/bus/nats-server.ts';
import { silentLog } from '../../test/support/log.ts';
import { until } from '../../test/support/until.ts';
import { natsBus } from '../../transports/bus/nats.ts';

/** What both need. */
export interface Ground {
  readonly nats: string;
  readonly database: {
    readonly socketDir: string;
    readonly port: number;
    readonly user: string;
    readonly database: string;
  };
}

interface Echo {
  readonly text: string;
  readonly replyTo: Ref<string>;
}

const text = z.string();
const wire = z.object({ text, replyTo: z.unknown() });
const textCodec = jsonCodec((value) => text.parse(value));
const ECHO: PlacedKind<Echo> = {
  kind: 'bench/echo',
  service: 'bench',
  codec: {
    encode: (message, refs) => ({ text: message.text, replyTo: refs.out(message.replyTo, textCodec) }),
    decode: (value, refs) => {
      const read = wire.parse(value);
      return { text: read.text, replyTo: refs.in(read.replyTo, textCodec) };
    },
  },
};
const echoKind: EntityKind<Echo, null> = {
  kind: ECHO.kind,
  sleepAfterMs: 600_000,
  activate: () => null,
  handle: (state, message) => {
    dispatch(message.replyTo, message.text);
    return state;
  },
};
const BARE = 'bench.bare';
/** As long as a small request with its caller. */
const TEXT = 'x'.repeat(200);
const ENTITIES = 64;

async function open(
  { nats, database }: Ground,
  name: string,
): Promise<{ cluster: Cluster; connection: NatsConnection; close(): Promise<void> }> {
  const db = openDb(database, { log: silentLog, name: 'bench', max: 2 });
  const bus = natsBus({
    secret: BUS_SECRET,
    ...{ address: { servers: [nats] }, name, deadLetters: { add: async () => {} }, log: silentLog },
  });
  await bus.connected(10_000);
  const system = start({ name, log: silentLog });
  const cluster = new Cluster({
    ...{ parent: system, store: leaseStore(db), bus, log: silentLog, shards: 16 },
    self: { id: newId(), roles: name === 'owner' ? ['bench'] : [], version: 'bench', address: name },
  });
  const connection = await connect({ servers: nats });
  const close = async () => {
    await cluster.leave();
    stop(system);
    await stopped(system);
    await Promise.all([connection.close(), bus.close(), db.close()]);
  };
  return { cluster, connection, close };
}

/** The other process: owns all entities, and answers bare requests. Says when it is ready; runs until it is killed. */
export async function serveAsks(ground: Ground): Promise<void> {
  const { cluster, connection } = await open(ground, 'owner');
  const system = start({ name: 'entities', log: silentLog });
  cluster.place(ECHO, entities(system, echoKind));
  await cluster.join();
  connection.subscribe(BARE, { callback: (_error, message) => void message.respond(message.data) });
  await connection.flush();
  process.stdin.resume();
  process.stdin.once('end', () => process.exit(0));
  let before = process.cpuUsage();
  createInterface({ input: process.stdin }).on('line', () => {
    const { user, system: kernel } = process.cpuUsage(before);
    before = process.cpuUsage();
    process.stdout.write(`${user + kernel}\n`);
  });
  process.stdout.write('ready\n');
}

/** One way to ask: latencies one after the other, ms; asks a second with many at once; processor time of one, µs. */
export interface Way {
  readonly name: string;
  readonly latencies: number[];
  readonly rates: number[];
  /** At the asker and at the owner together. */
  readonly cpuUs: number[];
}

/** Asks both ways in turns. */
export async function measureAsks(ground: Ground, rounds: number): Promise<{ ours: Way; bare: Way }> {
  const main = fileURLToPath(new URL('../cluster.js', import.meta.url));
  const child = spawn(process.execPath, [...process.execArgv, main, 'serve', JSON.stringify(ground)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  await lines.next();
  const { cluster, connection, close } = await open(ground, 'asker');
  try {
    const echo = cluster.place(ECHO);
    await cluster.join();
    const ids = Array.from({ length: ENTITIES }, (_, n) => `e${n}`);
    let turn = 0;
    const ask = async () => {
      turn += 1;
      const id = ids[turn % ENTITIES] ?? 'e0';
      return (await echo.ask(id, (replyTo: Ref<string>) => ({ text: TEXT, replyTo }), 10_000)).length;
    };
    const payload = new TextEncoder().encode(JSON.stringify({ text: TEXT }));
    const request = async () => (await connection.request(BARE, payload, { timeout: 10_000 })).data.length;
    await until(async () => (await ask().catch(() => 0)) > 0, { what: 'the owner answers', timeoutMs: 20_000 });
    const ways = [
      { way: newWay('ask through placement'), call: ask },
      { way: newWay('bare NATS request'), call: request },
    ] as const;
    const ownerCpu = async () => {
      child.stdin.write('cpu\n');
      const line = await lines.next();
      return Number(line.value);
    };
    for (const { call } of ways) await many(call, 5000);
    for (let round = 0; round < rounds; round++) {
      for (const { way, call } of ways) {
        for (let n = 0; n < 1000; n++) {
          const began = performance.now();
          await call();
          way.latencies.push(performance.now() - began);
        }
        await ownerCpu();
        const own = process.cpuUsage();
        const COUNT = 10_000;
        const began = performance.now();
        await many(call, COUNT);
        way.rates.push((COUNT * 1000) / (performance.now() - began));
        const { user, system } = process.cpuUsage(own);
        way.cpuUs.push((user + system + (await ownerCpu())) / COUNT);
      }
    }
    return { ours: ways[0].way, bare: ways[1].way };
  } finally {
    await close();
    child.stdin.end();
    if (child.exitCode === null) await once(child, 'exit');
  }
}

function newWay(name: string): Way {
  return { name, latencies: [], rates: [], cpuUs: [] };
}

/** 64 at once. */
async function many(call: () => Promise<number>, count: number): Promise<void> {
  let left = count;
  await Promise.all(
    Array.from({ length: 64 }, async () => {
      while (left > 0) {
        left -= 1;
        if ((await call()) === 0) throw new Error('an empty answer');
      }
    }),
  );
}
