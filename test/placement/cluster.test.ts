import assert from 'node:assert/strict';
import { test } from 'node:test';
import { z } from 'zod';
import { Refusal } from '../../proto/errors.ts';
import type { ShardLease } from '../../proto/ports/placement.ts';
import { fence } from '../../storage/fenced.ts';
import { ActorError, type Ref, spawn, stop } from '../../supervision/index.ts';
import { shardOf } from '../../supervision/placement/index.ts';
import {
  type AccountNodes,
  accountsOf,
  CALM_MS,
  type Member,
  openAccountNodes,
  SHARDS,
  TTL_MS,
} from '../support/placement/account-nodes.ts';
import { ACCOUNT, type AccountMessage, type News } from '../support/placement/account-service.ts';
import { fenced } from '../support/placement/lease-store-conformance.ts';
import { until } from '../support/until.ts';

const ASK_MS = 15_000;

function deposit(member: Member, id: string, op: string): Promise<number> {
  return member.accounts.ask(id, (replyTo: Ref<number>) => ({ type: 'deposit', op, amount: 1, replyTo }), ASK_MS);
}

function ask(member: Member, id: string, type: 'balance' | 'wait' | 'refuse', timeoutMs = ASK_MS): Promise<number> {
  return member.accounts.ask(id, (replyTo: Ref<number>): AccountMessage => ({ type, replyTo }), timeoutMs);
}

/** Operations that had an effect, each as often as it had it. */
async function effects({ db }: AccountNodes): Promise<string[]> {
  return (await db.many(z.object({ op: z.string() }), 'select op from deposits order by n')).map(({ op }) => op);
}

function first<T>(items: readonly T[]): T {
  const [item] = items;
  assert.ok(item !== undefined, 'none');
  return item;
}

test('an account is at one node, and answers asks and takes tells from all, in order', async (t) => {
  const place = await openAccountNodes(t, { ttlMs: CALM_MS });
  const a = await place.add('a');
  assert.equal(a.cluster.node.holding, SHARDS, 'alone it holds all');
  const b = await place.add('b');
  await place.settled(a, b);
  const [here, there] = [first(accountsOf(a)), first(accountsOf(b))];
  for (const id of [here, there]) {
    assert.equal(await deposit(a, id, `${id}-1`), 1);
    assert.equal(await deposit(b, id, `${id}-2`), 2);
  }
  assert.deepEqual([a.accounts.ids(), b.accounts.ids()], [[here], [there]]);
  for (let n = 0; n < 20; n++) a.accounts.tell(there, { type: 'note', op: `note-${n}` });
  await until(async () => (await ask(a, there, 'balance')) === 22);
  assert.deepEqual(
    (await effects(place)).filter((op) => op.startsWith('note')),
    Array.from({ length: 20 }, (_, n) => `note-${n}`),
  );
});

test('after one of five nodes died, its accounts answer at the others, with all that was acknowledged', async (t) => {
  const place = await openAccountNodes(t);
  const nodes: Member[] = [];
  for (const id of ['a', 'b', 'c', 'd', 'e']) nodes.push(await place.add(id));
  await place.settled(...nodes);
  const [asker, ...others] = nodes;
  const victim = first([...others].sort((x, y) => accountsOf(y).length - accountsOf(x).length));
  assert.ok(asker);
  const ids = accountsOf(victim);
  for (const id of ids) await deposit(asker, id, `before-${id}`);
  // It neither beats nor answers any more.
  victim.faults.offBus = true;
  await victim.cluster.halt();
  for (const id of ids) assert.equal(await ask(asker, id, 'balance'), 1);
  for (const id of ids) assert.equal(await deposit(asker, id, `after-${id}`), 2);
  await place.settled(...nodes.filter((node) => node !== victim));
});

test('a node that was frozen and wakes serves nothing, writes nothing, and comes back with new epochs', async (t) => {
  const place = await openAccountNodes(t);
  const [a, b] = [await place.add('a'), await place.add('b')];
  await place.settled(a, b);
  const id = first(accountsOf(a));
  const shard = shardOf(ACCOUNT.kind, id, SHARDS);
  await deposit(a, id, 'before');
  const lease: ShardLease = a.cluster.lease(ACCOUNT, id);
  let wake = () => {};
  a.waits = () =>
    new Promise((resolve) => {
      wake = resolve;
    });
  const slow = ask(a, id, 'wait', 500).catch((error: unknown) => error);
  a.faults.frozen = true;
  await until(() => b.cluster.node.serves('bank', shard), { what: 'the other takes the shard' });
  assert.equal(a.cluster.node.serves('bank', shard), false);
  assert.equal(a.cluster.node.epochOf('bank', shard), undefined);
  assert.throws(() => a.cluster.lease(ACCOUNT, id), fenced);
  await assert.rejects(
    place.db.tx((tx) => fence(tx, lease)),
    fenced,
  );
  assert.equal(await deposit(b, id, 'meanwhile'), 2);
  wake();
  a.faults.thaw();
  await slow;
  assert.equal(await deposit(a, id, 'after'), 3);
  await place.settled(a, b);
  assert.ok(a.cluster.lease(ACCOUNT, id).epoch > lease.epoch);
  await assert.rejects(
    place.db.tx((tx) => fence(tx, lease)),
    fenced,
  );
  assert.deepEqual(await effects(place), ['before', 'meanwhile', 'after']);
});

test('draining under load loses no ask, and none is handled twice', async (t) => {
  const place = await openAccountNodes(t, { ttlMs: CALM_MS });
  // An answer that is only late is waited for.
  const resendMs = ASK_MS;
  const [a, b, c] = [
    await place.add('a', { resendMs }),
    await place.add('b', { resendMs }),
    await place.add('c', { resendMs }),
  ];
  await place.settled(a, b, c);
  const done: string[] = [];
  let going = true;
  const load = [a, b, c].flatMap((member) =>
    [0, 1, 2].map(async (lane) => {
      for (let n = 0; going; n++) {
        const op = `${member.id}-${lane}-${n}`;
        await deposit(member, `acc${((n * 7 + lane * 13) % 40) + 1}`, op);
        done.push(op);
      }
    }),
  );
  await until(() => done.length > 50);
  await a.cluster.drain();
  assert.equal(a.cluster.node.holding, 0);
  const drained = done.length;
  await until(() => done.length > drained + 50);
  going = false;
  await Promise.all(load);
  await a.leave();
  await place.settled(b, c);
  assert.deepEqual((await effects(place)).sort(), done.sort());
});

test('an ask whose answer is lost is sent again, and handled once', async (t) => {
  const place = await openAccountNodes(t, { ttlMs: CALM_MS });
  const [a, b] = [await place.add('a'), await place.add('b', { resendMs: 100 })];
  await place.settled(a, b);
  const id = first(accountsOf(a));
  a.faults.loses = (subject) => subject.startsWith('_INBOX');
  const asked = deposit(b, id, 'once');
  await until(async () => (await effects(place)).length === 1);
  a.faults.loses = () => false;
  assert.equal(await asked, 1);
  assert.deepEqual(await effects(place), ['once']);
});

test('an ask whose answer is lost with its owner fails and says that it may have been handled', async (t) => {
  const place = await openAccountNodes(t);
  const [a, b] = [await place.add('a'), await place.add('b', { resendMs: 100 })];
  await place.settled(a, b);
  const id = first(accountsOf(a));
  a.faults.loses = (subject) => subject.startsWith('_INBOX');
  const asked = deposit(b, id, 'once');
  const failure = asked.then(
    () => undefined,
    (error: unknown) => error,
  );
  await until(async () => (await effects(place)).length === 1);
  a.faults.offBus = true;
  await a.cluster.halt();
  const error = await failure;
  assert.ok(error instanceof ActorError && error.code === 'stopped' && error.begun, String(error));
  assert.deepEqual(await effects(place), ['once']);
  assert.equal(await ask(b, id, 'balance'), 1);
});

test('an ask of an owner that stands still ends when another has its shard, not when the time for an answer is over', {
  timeout: 60_000,
}, async (t) => {
  const place = await openAccountNodes(t);
  const [a, b] = [await place.add('a', { resendMs: 600_000 }), await place.add('b')];
  await place.settled(a, b);
  const [account] = accountsOf(b);
  assert.ok(account);
  b.faults.offBus = true;
  b.faults.frozen = true;
  const asked = a.accounts.ask(account, (replyTo: Ref<number>) => ({ type: 'balance', replyTo }), 600_000);
  await assert.rejects(asked, (error) => error instanceof ActorError && error.code === 'stopped' && error.begun);
});

test('a safe ask is answered by the next owner when its own dies or stands still before it answered', {
  timeout: 60_000,
}, async (t) => {
  const place = await openAccountNodes(t);
  const members = [await place.add('a', { resendMs: 600_000 }), await place.add('b'), await place.add('c')];
  await place.settled(...members);
  const [asker, dies, stands] = members;
  assert.ok(asker && dies && stands);
  const read = (id: string) =>
    asker.accounts.ask(id, (replyTo: Ref<number>) => ({ type: 'balance', replyTo }), 600_000, { isSafe: true });
  const ids = [...accountsOf(dies), ...accountsOf(stands)];
  for (const id of ids) assert.equal(await deposit(asker, id, id), 1);
  for (const { faults } of [dies, stands]) faults.loses = (subject) => subject.startsWith('_INBOX');
  const reads = ids.map(read);
  for (const { faults } of [dies, stands]) faults.offBus = true;
  await dies.cluster.halt();
  stands.faults.frozen = true;
  assert.deepEqual(
    await Promise.all(reads),
    ids.map(() => 1),
  );
});

test('errors keep their codes and causes over nodes', async (t) => {
  const place = await openAccountNodes(t, { ttlMs: CALM_MS });
  const [a, b] = [await place.add('a'), await place.add('b')];
  await place.settled(a, b);
  const id = first(accountsOf(a));
  const nobody = first(
    Array.from({ length: 99 }, (_, n) => `none${n}`).filter((name) =>
      a.cluster.node.serves('bank', shardOf(ACCOUNT.kind, name, SHARDS)),
    ),
  );
  await assert.rejects(ask(b, nobody, 'balance'), { name: 'ActorError', code: 'not_found' });
  await assert.rejects(ask(b, id, 'refuse'), (error: unknown) => {
    assert.ok(error instanceof ActorError && error.code === 'crashed');
    assert.ok(error.cause instanceof Refusal);
    const { code, message, retryAfter } = error.cause;
    assert.deepEqual({ code, message, retryAfter }, { code: 'limit_reached', message: 'Enough.', retryAfter: 3 });
    return true;
  });
  let wake = () => {};
  a.waits = () =>
    new Promise((resolve) => {
      wake = resolve;
    });
  await assert.rejects(ask(b, id, 'wait', 100), { name: 'ActorError', code: 'timeout' });
  wake();
});

test('an answer too large to cross fails its ask at once, and nothing else', async (t) => {
  const place = await openAccountNodes(t);
  const [a, b] = [await place.add('a'), await place.add('b', { resendMs: 100 })];
  await place.settled(a, b);
  const id = first(accountsOf(a));
  a.waits = () => Promise.reject(new Error('x'.repeat(2 << 20)));
  await assert.rejects(ask(b, id, 'wait'), (error: unknown) => {
    assert.ok(error instanceof ActorError && error.code === 'crashed', String(error));
    assert.match(error.message, /too many to be sent/);
    return true;
  });
  // One that was sent again while it was being made, too.
  let fail: () => void = () => {};
  a.waits = () =>
    new Promise((_, reject) => {
      fail = () => reject(new Error('x'.repeat(2 << 20)));
    });
  let questions = 0;
  const counting = place.bus.subscribe('node.a.ask', () => void questions++);
  t.after(() => counting.close());
  const asked = assert.rejects(ask(b, id, 'wait'), { name: 'ActorError', code: 'crashed' });
  await until(() => questions >= 3, { what: 'it is asked again' });
  fail();
  await asked;
  assert.equal(await ask(b, id, 'balance'), 0);
});

test('an account tells a follower on another node, hears of its end, and of the end of its node', async (t) => {
  const place = await openAccountNodes(t, { ttlMs: 4 * TTL_MS });
  const [a, b] = [await place.add('a'), await place.add('b')];
  await place.settled(a, b);
  const id = first(accountsOf(a));
  const follower = () => {
    const news: number[] = [];
    const ref = spawn<null, News>(b.system, (state, { balance }) => {
      news.push(balance);
      return state;
    });
    const follow = () =>
      b.accounts.ask(
        id,
        (replyTo: Ref<number>): AccountMessage => ({ type: 'follow', follower: ref, replyTo }),
        ASK_MS,
      );
    return { news, ref, follow };
  };
  const [one, two] = [follower(), follower()];
  await one.follow();
  await one.follow();
  await two.follow();
  assert.equal(a.cluster.refs.imported, 2, 'a ref that arrives twice is the same');
  await deposit(a, id, 'x');
  await until(() => one.news.length === 1 && two.news.length === 1);
  stop(one.ref);
  await until(() => a.gone.length === 1);
  await until(() => b.cluster.refs.exported === 1 && a.cluster.refs.imported === 1);
  b.faults.offBus = true;
  await b.cluster.halt();
  await until(() => a.gone.length === 2);
  assert.deepEqual(
    a.gone.map(({ reason }) => reason),
    [
      { kind: 'stopped', detail: 'ended on its node' },
      { kind: 'stopped', detail: 'its node is gone' },
    ],
  );
  await until(() => a.cluster.refs.imported === 0);
});

test('an ask may be answered by another account, on a third node', async (t) => {
  const place = await openAccountNodes(t, { ttlMs: CALM_MS });
  const [a, b, c] = [await place.add('a'), await place.add('b'), await place.add('c')];
  await place.settled(a, b, c);
  const [from, to] = [first(accountsOf(a)), first(accountsOf(b))];
  await deposit(a, to, 'x');
  const forwarded = (member: Member) =>
    member.accounts.ask(from, (replyTo: Ref<number>): AccountMessage => ({ type: 'forward', to, replyTo }), ASK_MS);
  assert.equal(await forwarded(a), 1);
  assert.equal(await forwarded(c), 1);
});

test('a message of a format that is not known is refused, and one line says so', async (t) => {
  const place = await openAccountNodes(t);
  const a = await place.add('a');
  const bytes = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));
  for (const bad of [bytes({ v: 99 }), bytes({ v: 1 }), new Uint8Array([0xff])]) {
    const answer = await place.bus.request('node.a.ask', bad, 5000);
    assert.match(new TextDecoder().decode(answer), /"c":"stopped".*"n":"PlacementError","c":"unknown_format"/);
    place.bus.publish('node.a.tell', bad);
    place.bus.publish('node.a.ref', bad);
  }
  const unreadable = { v: 1, k: ACCOUNT.kind, i: 'acc1', f: 'b', n: 1, a: 0, t: 1000, m: { type: 'steal' } };
  const answer = await place.bus.request('node.a.ask', bytes(unreadable), 5000);
  assert.match(new TextDecoder().decode(answer), /cannot be read/);
  assert.equal(a.lines.filter((line) => line.includes('refused a message')).length, 3, 'one for each kind of message');
  assert.equal(await deposit(a, 'acc1', 'x'), 1);
});

test('a node that the bus does not reach gives its shards away, and comes back', async (t) => {
  const place = await openAccountNodes(t);
  const [a, b] = [await place.add('a'), await place.add('b')];
  await place.settled(a, b);
  const id = first(accountsOf(a));
  a.faults.offBus = true;
  await until(() => a.cluster.node.holding === 0);
  await until(() => b.cluster.node.holding === SHARDS);
  assert.equal(await deposit(b, id, 'x'), 1);
  a.faults.offBus = false;
  await place.settled(a, b);
  assert.equal(await deposit(a, id, 'y'), 2);
});

test('a service that is down on a node gives its shards away at once, and takes them again; alone, asks wait for it', async (t) => {
  const place = await openAccountNodes(t, { ttlMs: CALM_MS });
  const a = await place.add('a', { roles: ['bank', 'shop'] });
  const other = a.cluster.place({ ...ACCOUNT, kind: 'shop/account', service: 'shop' }, a.accounts);
  const [id] = accountsOf(a);
  assert.ok(id);
  const holds = (service: string) => Array.from({ length: SHARDS }, (_, n) => a.cluster.node.serves(service, n));
  a.cluster.setUp('bank', false);
  assert.ok(!holds('bank').includes(true), 'nobody is served from the first moment on');
  const waiting = deposit(a, id, 'waited');
  const b = await place.add('b');
  await until(() => accountsOf(b).length === 40, { what: 'the other holds all' });
  assert.equal(await waiting, 1);
  assert.ok(!holds('shop').includes(false), 'another service stays');
  assert.equal(other.ref, a.accounts.ref);
  // Its actor is started again, and then it is up.
  stop(a.accounts.ref);
  await assert.doesNotReject(ask(a, id, 'balance'), 'its entities are elsewhere');
  a.cluster.setUp('bank', true);
  await until(() => accountsOf(a).length > 0 && accountsOf(a).length + accountsOf(b).length === 40);
});

test('a node without the role sends, and holds nothing', async (t) => {
  const place = await openAccountNodes(t, { ttlMs: CALM_MS });
  const outside = await place.add('x', { roles: ['shop'] });
  // There is no owner yet: the tell waits for one, and so does the ask.
  outside.accounts.tell('acc1', { type: 'note', op: 'early' });
  const asked = ask(outside, 'acc2', 'balance');
  await assert.rejects(ask(outside, 'acc3', 'balance', 50), { code: 'timeout', message: /no owner/ });
  const a = await place.add('a');
  assert.equal(await asked, 0);
  await until(async () => (await ask(outside, 'acc1', 'balance')) === 1);
  assert.deepEqual(accountsOf(outside), []);
  assert.equal(a.cluster.node.holding, SHARDS);
});

test('what must happen once is done by the node that holds its id; it hears when that is another', async (t) => {
  const { add, settled } = await openAccountNodes(t, { ttlMs: CALM_MS });
  const one = await add('one');
  await settled(one);
  const job = { service: 'bank', kind: 'bank/job' };
  const jobs = Array.from({ length: 40 }, (_, n) => `job-${n}`);
  assert.ok(jobs.every((id) => one.cluster.holds(job, id)));
  const two = await add('two');
  await settled(one, two);
  for (const id of jobs) assert.notEqual(one.cluster.holds(job, id), two.cluster.holds(job, id), id);
  let told = 0;
  let others = 0;
  const forget = one.cluster.onAcquired('bank', () => told++);
  one.cluster.onAcquired('mint', () => others++);
  await two.leave();
  await settled(one);
  assert.ok(jobs.every((id) => one.cluster.holds(job, id)));
  assert.ok(told > 0);
  assert.equal(others, 0);
  forget();
  const before = told;
  const three = await add('three');
  await settled(one, three);
  await three.leave();
  await settled(one);
  assert.equal(told, before);
});
