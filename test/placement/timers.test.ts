/** Timers of entities that outlive sleep, crash and node: the stores, and a cluster on each. */
import assert from 'node:assert/strict';
import { after, before, describe, type TestContext, test } from 'node:test';
import { z } from 'zod';
import { isFenced, type LeaseStore, type ShardLease } from '../../proto/ports/placement.ts';
import type { TimerStore } from '../../proto/ports/timers.ts';
import { leaseStore } from '../../storage/placement/leases.ts';
import { timerStore } from '../../storage/placement/timers.ts';
import { dispatch, type Entities, entities, type Ref, start, stop, stopped } from '../../supervision/index.ts';
import { Cluster, type FiredTimer, type PlacedKind } from '../../supervision/placement/index.ts';
import { MemoryBus, MemoryLeases, MemoryTimers } from '../../supervision/testing/index.ts';
import { type TestDatabase, testDatabase } from '../support/database/database.ts';
import { keptLog } from '../support/log.ts';
import { timerStoreSuite } from '../support/placement/timer-store-conformance.ts';
import { gate } from '../support/supervision/system.ts';
import { until } from '../support/until.ts';

const TIMINGS = { beatMs: 100, ttlMs: 1500, marginMs: 400, answerMs: 400, lookMs: 10 };

type AlarmMessage =
  | { readonly type: 'set'; readonly name: string; readonly inMs: number; readonly replyTo: Ref<string> }
  | { readonly type: 'cancel'; readonly name: string; readonly replyTo: Ref<string> }
  | { readonly type: 'sleep' }
  | { readonly type: 'rang'; readonly timer: FiredTimer; readonly done: Ref<'done'> };

const said = z.discriminatedUnion('type', [
  z.object({ type: z.literal('set'), name: z.string(), inMs: z.number(), replyTo: z.unknown() }),
  z.object({ type: z.literal('cancel'), name: z.string(), replyTo: z.unknown() }),
  z.object({ type: z.literal('sleep') }),
]);
const text = { encode: (message: string) => message, decode: (wire: unknown) => z.string().parse(wire) };

const ALARM: PlacedKind<AlarmMessage> = {
  kind: 'clock/alarm',
  service: 'clock',
  codec: {
    encode(message, refs) {
      if (message.type === 'rang') throw new TypeError('a timer rings where it is read');
      return 'replyTo' in message ? { ...message, replyTo: refs.out(message.replyTo, text) } : message;
    },
    decode(wire, refs) {
      const message = said.parse(wire);
      return 'replyTo' in message ? { ...message, replyTo: refs.in(message.replyTo, text) } : message;
    },
  },
  timer: (timer, done) => ({ type: 'rang', timer, done }),
};

/** What rang, where. */
interface Ring {
  readonly node: string;
  readonly id: string;
  readonly timer: FiredTimer;
}

interface Stores {
  readonly leases: LeaseStore;
  readonly timers: TimerStore;
}

/** A cluster of alarms. `onRing` is awaited before the alarm is done. */
function alarms(t: TestContext, { leases, timers }: Stores, onRing: (ring: Ring) => unknown = () => undefined) {
  const bus = new MemoryBus();
  const rings: Ring[] = [];
  const ends: (() => Promise<void>)[] = [];
  t.after(async () => {
    for (const end of ends) await end();
  });
  async function add(node: string) {
    const log = keptLog();
    const system = start({ name: node, log });
    const self = { id: node, roles: ['clock'], version: '1', address: node };
    const cluster = new Cluster({
      ...{ parent: system, self, store: leases, timers, timersEveryMs: 100, bus, log, shards: 16, timings: TIMINGS },
    });
    const local = entities<AlarmMessage, { readonly lease: ShardLease }>(system, {
      kind: ALARM.kind,
      sleepAfterMs: 60_000,
      backoff: { minMs: 1, maxMs: 5 },
      activate: (id) => ({ lease: cluster.lease(ALARM, id) }),
      async handle(state, message, ctx) {
        switch (message.type) {
          case 'set': {
            const wanted = { name: message.name, at: Date.now() + message.inMs, message: { for: ctx.id } };
            dispatch(message.replyTo, await cluster.timers.set(ALARM, ctx.id, wanted, state.lease));
            break;
          }
          case 'cancel':
            await cluster.timers.cancel(ALARM, ctx.id, message.name, state.lease);
            dispatch(message.replyTo, 'cancelled');
            break;
          case 'sleep':
            ctx.sleep();
            break;
          case 'rang': {
            const ring = { node, id: ctx.id, timer: message.timer };
            rings.push(ring);
            await onRing(ring);
            dispatch(message.done, 'done');
          }
        }
        return state;
      },
    });
    const placed = cluster.place(ALARM, local);
    await cluster.join();
    let ended: Promise<void> | undefined;
    const end = (how: () => Promise<void>) => {
      ended ??= how().then(async () => {
        stop(system);
        await stopped(system);
      });
      return ended;
    };
    ends.push(() => end(() => cluster.leave()));
    return { cluster, placed, log, kill: () => end(() => cluster.halt()) };
  }
  const set = (placed: Entities<AlarmMessage>, id: string, name: string, inMs: number): Promise<string> =>
    placed.ask(id, (replyTo: Ref<string>) => ({ type: 'set', name, inMs, replyTo }), 5000);
  return { add, rings, set };
}

const inMemory = async (): Promise<Stores> => {
  const leases = new MemoryLeases();
  return { leases, timers: new MemoryTimers(leases) };
};
const nothingLeft = ({ timers }: Stores) =>
  until(
    async () => {
      const all = Array.from({ length: 16 }, (_, shard) => shard);
      return (await timers.due([{ service: 'clock', shards: all, count: 16 }], 3_600_000, 10)).length === 0;
    },
    { what: 'no timer is left' },
  );

describe('timers', () => {
  let database: TestDatabase;
  before(async () => {
    database = await testDatabase();
  });
  after(() => database.close());

  const inDatabase = async (): Promise<Stores> => {
    await database.db.script('truncate placement_nodes, placement_shards, entity_timers');
    return { leases: leaseStore(database.db), timers: timerStore(database.db) };
  };
  timerStoreSuite('in the database', inDatabase);
  timerStoreSuite('in memory', inMemory);

  for (const [where, make] of [
    ['in the database', inDatabase],
    ['in memory', inMemory],
  ] as const) {
    test(`${where}: a timer wakes its entity at its time, once, and a look later at most`, async (t) => {
      const stores = await make();
      const { add, rings, set } = alarms(t, stores);
      const { placed } = await add('a');
      const keys = await Promise.all([set(placed, 'ann', 'tea', 300), set(placed, 'bob', 'tea', -1000)]);
      placed.tell('ann', { type: 'sleep' });
      await until(() => rings.length === 2, { what: 'both rang' });
      const early = rings.filter(({ timer }) => Date.now() < timer.at);
      assert.deepEqual([early, rings.map(({ id }) => id)], [[], ['bob', 'ann']]);
      assert.deepEqual(rings.map(({ timer }) => timer.key).sort(), keys.sort());
      assert.deepEqual(rings[1]?.timer.message, { for: 'ann' });
      await nothingLeft(stores);
      assert.equal(rings.length, 2);
    });

    test(`${where}: a timer of a node that died rings at the next owner, also one that was not done`, async (t) => {
      const stores = await make();
      const hung = gate();
      const { add, rings, set } = alarms(t, stores, ({ node, timer }) =>
        node === 'a' && timer.name === 'hangs' ? hung.opened : undefined,
      );
      const a = await add('a');
      const hanging = await set(a.placed, 'ann', 'hangs', 0);
      const later = await set(a.placed, 'bob', 'tea', 1500);
      await until(() => rings.length === 1, { what: 'it rang at the first' });
      const killed = a.kill();
      const { cluster } = await add('b');
      await until(() => rings.length === 3, { what: 'both rang at the second', timeoutMs: 60_000 });
      assert.deepEqual(rings.map(({ node, timer }) => `${node} ${timer.key}`).sort(), [
        ...[`a ${hanging}`, `b ${hanging}`, `b ${later}`].sort(),
      ]);
      await nothingLeft(stores);
      assert.equal(cluster.node.holding, 16);
      hung.open();
      await killed;
    });
  }

  test('a timer whose entity crashed comes again, with its key', async (t) => {
    const stores = await inMemory();
    let crashes = 0;
    const { add, rings, set } = alarms(t, stores, () => {
      crashes += 1;
      if (crashes === 1) throw new Error('the first time');
    });
    const { placed, log } = await add('a');
    const key = await set(placed, 'ann', 'tea', 0);
    await until(() => rings.length === 2, { what: 'it rang again' });
    assert.deepEqual(
      rings.map(({ timer }) => timer.key),
      [key, key],
    );
    assert.equal(log.lines.filter(({ message }) => message === 'a timer was not handled').length, 1);
    await nothingLeft(stores);
  });

  test('a timer that is set again while it rings rings again; one that is cancelled does not', async (t) => {
    const stores = await inMemory();
    const { add, rings, set } = alarms(t, stores);
    const { placed } = await add('a');
    await set(placed, 'ann', 'tea', 500);
    await set(placed, 'ann', 'toast', 300);
    const second = await set(placed, 'ann', 'tea', 200);
    await placed.ask('ann', (replyTo: Ref<string>) => ({ type: 'cancel', name: 'toast', replyTo }), 5000);
    await nothingLeft(stores);
    assert.deepEqual(
      rings.map(({ timer }) => timer.key),
      [second],
    );
  });

  test('a timer of an entity that is not there any more ends', async (t) => {
    const leases = new MemoryLeases();
    const timers = new MemoryTimers(leases);
    const { add } = alarms(t, { leases, timers });
    const { cluster } = await add('a');
    const gone: PlacedKind<AlarmMessage> = { ...ALARM, kind: 'clock/gone' };
    const parent = start({ name: 'gone' });
    const kind = { kind: gone.kind, sleepAfterMs: 1000, activate: () => undefined, handle: () => undefined };
    cluster.place(gone, entities<AlarmMessage, undefined>(parent, kind));
    await cluster.timers.set(gone, 'nobody', { name: 'tea', at: 0, message: null }, cluster.lease(gone, 'nobody'));
    assert.equal(timers.rows.size, 1);
    await until(() => timers.rows.size === 0, { what: 'its row is gone' });
    stop(parent);
    await stopped(parent);
  });

  test('who lost its lease sets no timer, and a cluster without a store says so', async (t) => {
    const stores = await inMemory();
    const { add } = alarms(t, stores);
    const { cluster } = await add('a');
    const lease = cluster.lease(ALARM, 'ann');
    const wanted = { name: 'tea', at: 0, message: null };
    await assert.rejects(cluster.timers.set(ALARM, 'ann', wanted, { ...lease, epoch: lease.epoch - 1 }), isFenced);
    await assert.rejects(
      cluster.timers.set({ kind: ALARM.kind, service: 'clock', codec: ALARM.codec }, 'ann', wanted, lease),
      TypeError,
    );
  });

  test('more timers than are told at once are worked off', async (t) => {
    const stores = await inMemory();
    const { add, rings, set } = alarms(t, stores);
    const { placed } = await add('a');
    const ids = Array.from({ length: 1000 }, (_, n) => `many${n}`);
    await Promise.all(ids.map((id) => set(placed, id, 'tea', 200)));
    await until(() => rings.length === 1000, { what: 'all rang' });
    await nothingLeft(stores);
    assert.equal(new Set(rings.map(({ timer }) => timer.key)).size, 1000);
  });
});
