/** Asks of entities on another node whose asker gives up. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { z } from 'zod';
import {
  ActorError,
  askSignal,
  dispatch,
  entities,
  type Ref,
  start,
  stats,
  stop,
  stopped,
} from '../../supervision/index.ts';
import { Cluster, type PlacedKind } from '../../supervision/placement/index.ts';
import { MemoryBus, MemoryLeases } from '../../supervision/testing/index.ts';
import { silentLog } from '../support/log.ts';
import { until } from '../support/until.ts';

const TIMINGS = { beatMs: 50, ttlMs: 1000, marginMs: 250, answerMs: 400, lookMs: 10 };
const LONG_MS = 60_000;

type Work = { readonly type: 'work'; readonly replyTo: Ref<string> };
const text = { encode: (message: string) => message, decode: (wire: unknown) => z.string().parse(wire) };
const WORKER: PlacedKind<Work> = {
  kind: 'shop/worker',
  service: 'shop',
  codec: {
    encode: ({ replyTo }, refs) => ({ replyTo: refs.out(replyTo, text) }),
    decode: (wire, refs) => ({
      type: 'work',
      replyTo: refs.in(z.object({ replyTo: z.unknown() }).parse(wire).replyTo, text),
    }),
  },
};

/** A node that works until its asker gives up, and one that asks. */
async function setting(t: TestContext) {
  const [leases, bus] = [new MemoryLeases(), new MemoryBus()];
  const heard: unknown[] = [];
  const node = async (id: string, roles: readonly string[]) => {
    const system = start({ name: id });
    const self = { id, roles, version: '1', address: id };
    const cluster = new Cluster({
      ...{ parent: system, self, store: leases, bus, log: silentLog, shards: 4, timings: TIMINGS, resendMs: 300 },
    });
    let ended: Promise<void> | undefined;
    const end = (how: 'leave' | 'halt') => {
      ended ??= cluster[how]().then(() => {
        stop(system);
        return stopped(system).then(() => undefined);
      });
      return ended;
    };
    t.after(() => end('leave'));
    return { system, cluster, end };
  };
  const owner = await node('owner', ['shop']);
  const local = entities<Work, null>(owner.system, {
    kind: WORKER.kind,
    sleepAfterMs: LONG_MS,
    activate: () => null,
    handle: (state, { replyTo }) =>
      new Promise((resolve) => {
        heard.push('begun');
        const signal = askSignal(replyTo);
        signal.addEventListener('abort', () => {
          heard.push('given up');
          dispatch(replyTo, 'too late');
          resolve(state);
        });
      }),
  });
  owner.cluster.place(WORKER, local);
  await owner.cluster.join();
  const asker = await node('asker', []);
  const workers = asker.cluster.place(WORKER);
  await asker.cluster.join();
  const numbers = () => stats(owner.system).kinds[WORKER.kind];
  const ask = (signal: AbortSignal) =>
    workers
      .ask('one', (replyTo: Ref<string>) => ({ type: 'work', replyTo }), LONG_MS, { signal })
      .catch((error: unknown) => (error instanceof ActorError ? error.code : error));
  return { ask, asker, heard, numbers };
}

test('a handler on another node hears that its asker gave up, and what waits behind it is left out', async (t) => {
  const { ask, heard, numbers } = await setting(t);
  const leaving = [new AbortController(), new AbortController()] as const;
  const first = ask(leaving[0].signal);
  await until(() => heard.length === 1, { what: 'it is handled' });
  const second = ask(leaving[1].signal);
  await until(() => numbers()?.depth === 1, { what: 'the second waits' });
  leaving[1].abort();
  assert.equal(await second, 'cancelled');
  leaving[0].abort();
  assert.equal(await first, 'cancelled');
  await until(() => numbers()?.cancelled === 1, { what: 'the second was left out' });
  assert.deepEqual(heard, ['begun', 'given up']);
});

test('a handler hears that the node of its asker is gone', async (t) => {
  const { ask, asker, heard } = await setting(t);
  void ask(new AbortController().signal);
  await until(() => heard.length === 1, { what: 'it is handled' });
  await asker.end('halt');
  await until(() => heard.length === 2, { what: 'it heard', timeoutMs: 60_000 });
});
