import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { z } from 'zod';
import {
  dispatch,
  type Entities,
  entities,
  type Ref,
  start,
  stop,
  stopped,
  withTrace,
} from '../../supervision/index.ts';
import { Cluster, type Codec, jsonCodec, type PlacedKind } from '../../supervision/placement/index.ts';
import { MemoryLeases } from '../../supervision/testing/index.ts';
import { natsBus } from '../../transports/bus/nats.ts';
import { BUS_SECRET, skipWithoutNats, startNats } from '../support/bus/nats-server.ts';
import { silentLog } from '../support/log.ts';
import { KeepingTracer } from '../support/supervision/tracer.ts';
import { standsStill, until } from '../support/until.ts';

const SHARDS = 8;
const TRACE = '0123456789abcdef0123456789abcdef';
const REQUEST = `00-${TRACE}-0000000000000001-01`;

/** Answers with the contexts that it and those on its way saw. */
interface Visit {
  readonly type: 'visit';
  /** The entities to go on to, by an ask or a tell. */
  readonly way: readonly { readonly to: string; readonly by: 'ask' | 'tell' }[];
  readonly replyTo: Ref<string[]>;
}

const seen: Codec<string[]> = jsonCodec((value) => z.array(z.string()).parse(value));
const wire = z.object({
  way: z.array(z.object({ to: z.string(), by: z.enum(['ask', 'tell']) })),
  replyTo: z.unknown(),
});
const STOP: PlacedKind<Visit> = {
  kind: 'trip/stop',
  service: 'trip',
  codec: {
    encode: ({ type, way, replyTo }, refs) => ({ type, way, replyTo: refs.out(replyTo, seen) }),
    decode(value, refs) {
      const { way, replyTo } = wire.parse(value);
      return { type: 'visit', way, replyTo: refs.in(replyTo, seen) };
    },
  },
};

interface Member {
  readonly id: string;
  readonly cluster: Cluster;
  readonly stops: Entities<Visit>;
}

async function join(
  t: TestContext,
  id: string,
  server: string,
  store: MemoryLeases,
  tracer?: KeepingTracer,
): Promise<Member> {
  const log = silentLog;
  const deadLetters = { add: async () => {} };
  const bus = natsBus({ secret: BUS_SECRET, address: { servers: [server] }, name: id, deadLetters, log });
  const system = start({ name: id, ...(tracer === undefined ? {} : { tracer }) });
  const timings = { beatMs: 50, ttlMs: 10_000, marginMs: 1000, answerMs: 1000, lookMs: 10 };
  const self = { id, roles: ['trip'], version: 'test', address: id };
  const cluster = new Cluster({ parent: system, self, store, bus, log, shards: SHARDS, timings });
  const stops: Entities<Visit> = cluster.place(
    STOP,
    entities<Visit, null>(system, {
      kind: STOP.kind,
      sleepAfterMs: 10_000,
      activate: async () => null,
      handle: async (state, { way: [next, ...way], replyTo }, ctx) => {
        const here = `${id} ${ctx.trace ?? 'none'}`;
        if (next === undefined) dispatch(replyTo, [here]);
        else if (next.by === 'tell') stops.tell(next.to, { type: 'visit', way, replyTo });
        else {
          const rest = await stops.ask<string[]>(next.to, (back) => ({ type: 'visit', way, replyTo: back }), 5000);
          dispatch(replyTo, [here, ...rest]);
        }
        return state;
      },
    }),
  );
  t.after(async () => {
    await cluster.leave();
    stop(system);
    await stopped(system);
    await bus.close();
  });
  await cluster.join();
  return { id, cluster, stops };
}

/** An entity that this node holds. */
function heldBy({ cluster }: Member): string {
  const id = Array.from({ length: 100 }, (_, n) => `stop${n}`).find((each) => cluster.holds(STOP, each));
  assert.ok(id !== undefined);
  return id;
}

test('one request has one trace on all nodes of its way, by ask and by tell', {
  skip: skipWithoutNats(),
}, async (t) => {
  const [nats, store] = [await startNats(t), new MemoryLeases()];
  const tracers = { a: new KeepingTracer(), b: new KeepingTracer() };
  const a = await join(t, 'a', nats.server, store, tracers.a);
  const b = await join(t, 'b', nats.server, store, tracers.b);
  const plain = await join(t, 'plain', nats.server, store);
  const members = [a, b, plain];
  const holding = () => members.map(({ cluster }) => cluster.node.holding);
  await until(() => holding().every((n) => n > 0) && holding().reduce((sum, n) => sum + n) === SHARDS, {
    what: 'each holds something, and all is held',
  });
  // What moves meanwhile is another's a moment later.
  await standsStill(() => holding().reduce((all, n) => all * (SHARDS + 1) + n, 0), 300);
  const ask = (from: Member, ...way: Visit['way']): Promise<string[]> => {
    const [first, ...rest] = way;
    assert.ok(first !== undefined);
    return withTrace(REQUEST, () =>
      from.stops.ask<string[]>(first.to, (replyTo) => ({ type: 'visit', way: rest, replyTo }), 5000),
    );
  };
  const to = (member: Member, by: 'ask' | 'tell' = 'ask') => ({ to: heldBy(member), by });

  const visits = await ask(a, to(b), to(a));
  assert.deepEqual(
    visits.map((visit) => visit.replace(/-[0-9a-f]{16}-01$/, '')),
    [`b 00-${TRACE}`, `a 00-${TRACE}`],
  );
  const parents = tracers.b.spans.map(({ operation, kind, parent }) => [operation, kind, parent]);
  assert.deepEqual(parents, [
    ['ask', 'trip/stop', '0000000000000001'],
    ['handler', 'trip/stop', tracers.b.spans[0]?.id],
  ]);
  assert.equal(tracers.a.spans[0]?.parent, tracers.b.spans[1]?.id);

  const [told] = await ask(a, to(a), to(b, 'tell'));
  assert.ok(told?.startsWith(`b 00-${TRACE}`), told);

  // A node without a tracer takes no trace from its envelopes, and hands none on.
  assert.deepEqual(await ask(a, to(plain)), ['plain none']);
  const [, afterPlain] = await ask(a, to(plain), to(b));
  assert.equal(afterPlain, 'b none');
});
