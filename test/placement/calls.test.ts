import assert from 'node:assert/strict';
import { test } from 'node:test';
import { callCodec, outcomeCodec } from '../../actors/service/codecs.ts';
import {
  type CallMessage,
  handleCall,
  handler,
  handlers,
  type Outcome,
  refusalOf,
} from '../../actors/service/dispatch.ts';
import { computeEndpoints, createContainer } from '../../proto/compute/endpoints.ts';
import { execContainer } from '../../proto/compute/exec.ts';
import { logs } from '../../proto/compute/logs.ts';
import { deleteIngress } from '../../proto/compute/settings.ts';
import type { AnyEndpoint } from '../../proto/endpoint.ts';
import { Refusal } from '../../proto/errors.ts';
import { EngineError } from '../../proto/ports/engine.ts';
import { isFenced, PlacementError } from '../../proto/ports/placement.ts';
import { fenced } from '../../storage/fenced.ts';
import { leaseStore } from '../../storage/placement/leases.ts';
import { ActorError, spawn, start, stop, stopped } from '../../supervision/index.ts';
import { jsonCodec, type RefsIn, type RefsOut, RemoteError, toWire } from '../../supervision/placement/index.ts';
import { packAnswer, readAnswer } from '../../supervision/placement/wire.ts';
import { testDatabase } from '../support/database/database.ts';
import { callFrom, someone } from '../support/service/calls.ts';

const refsOut: RefsOut = { out: () => ({ $reply: true }) };
const codec = callCodec(computeEndpoints);

/** A system with an actor that keeps the outcomes it is told; ended by `close`. */
function asker() {
  const system = start();
  const outcomes: unknown[] = [];
  const ref = spawn<null, unknown>(system, (state, outcome) => {
    outcomes.push(outcome);
    return state;
  });
  const refsIn: RefsIn = { in: () => ref };
  const close = async () => {
    stop(system);
    await stopped(system);
  };
  return { ref, refsIn, outcomes, close };
}

const json = (value: unknown): unknown => JSON.parse(JSON.stringify(value));

test('a call arrives on another node as it left, whatever its schemas made of its path, query and body', async () => {
  const { ref, refsIn, close } = asker();
  const [ann, service] = [someone(), { ...someone('bob'), kind: 'api_token' as const }];
  const cases: [AnyEndpoint, Parameters<typeof callFrom>][] = [
    [createContainer, [createContainer, ann, { body: { name: 'box', ssh_key_ids: [1] } }]],
    [deleteIngress, [deleteIngress, ann, { params: { id: 'abcdefghijkl', port: '8080' } }]],
    [
      logs,
      [
        logs,
        { ...service, scopes: { a: ['read'] }, serviceAccount: null },
        { params: { id: 'abcdefghijkl' }, query: { tail: '7' } },
      ],
    ],
    [execContainer, [execContainer, ann, { params: { id: 'abcdefghijkl' }, query: { command: ['echo', 'a b', ''] } }]],
  ];
  for (const [endpoint, from] of cases) {
    const call = callFrom(...from);
    const wire = json(codec.encode({ type: 'call', endpoint, call, replyTo: ref }, refsOut));
    const arrived = codec.decode(wire, refsIn);
    assert.equal(arrived.endpoint, endpoint);
    assert.deepEqual(json(arrived.call), json(call), endpoint.name);
  }
  await close();
});

test('a call of a node of the version before gets the defaults it did not know; of a version to come, an unknown one is refused', async () => {
  const { ref, refsIn, close } = asker();
  const call = callFrom(createContainer, someone(), { body: { name: 'box', ssh_key_ids: [1] } });
  const wire = Object(json(codec.encode({ type: 'call', endpoint: createContainer, call, replyTo: ref }, refsOut)));
  const older = { ...wire, body: { name: 'box', ssh_key_ids: [1] }, added: 'by a later version' };
  assert.deepEqual(json(codec.decode(older, refsIn).call), json(call));
  for (const bad of [
    { ...wire, endpoint: 'noSuchThing' },
    { ...wire, caller: { userId: 'x' } },
    { ...wire, body: { name: 7 } },
    null,
  ])
    assert.throws(() => codec.decode(bad, refsIn));
  await close();
});

test('outcomes cross: replies, nothing at all, and refusals with what their reader needs', () => {
  const cross = (outcome: Outcome) =>
    outcomeCodec.decode(json(outcomeCodec.encode(outcome, refsOut)), { in: () => assert.fail('there is no ref') });
  assert.deepEqual(cross({ ok: { list: [1, 'two', null] } }), { ok: { list: [1, 'two', null] } });
  assert.deepEqual(cross({ ok: undefined }), { ok: undefined });
  const fields = [{ path: 'name', message: 'is too long' }];
  const back = cross({ refused: new Refusal('invalid_request', { message: 'No.', fields, retryAfter: 3 }) });
  assert.ok('refused' in back && back.refused instanceof Refusal);
  const { code, message, fields: kept, retryAfter } = back.refused;
  assert.deepEqual(
    { code, message, kept, retryAfter },
    { code: 'invalid_request', message: 'No.', kept: fields, retryAfter: 3 },
  );
  assert.throws(() => outcomeCodec.decode({ refused: { code: 'toString', message: '' } }, { in: () => assert.fail() }));
});

test('a handler that was fenced gives no answer: the caller asks the owner', async () => {
  const { ref, outcomes, close } = asker();
  const error = new PlacementError('fenced', 'somebody else owns it');
  const call = callFrom(createContainer, someone(), { body: { name: 'box', ssh_key_ids: [1] } });
  const message: CallMessage = { type: 'call', endpoint: createContainer, call, replyTo: ref };
  const table = handlers(handler(createContainer, () => Promise.reject(error)));
  await assert.rejects(async () => handleCall(table, undefined, message), error);
  await close();
  assert.deepEqual(outcomes, []);
});

test('what failed on another node is told like what failed here: a part that is down, a lost shard, a fault', () => {
  const crossed = (cause: unknown) => {
    const answer = readAnswer(packAnswer({ type: 'error', error: new ActorError('crashed', 'it crashed', { cause }) }));
    assert.ok(answer.type === 'error');
    return answer.error;
  };
  const lost = crossed(new PlacementError('fenced', 'lost'));
  assert.ok(isFenced(lost));
  assert.equal(refusalOf(lost).code, 'unavailable');
  assert.equal(refusalOf(crossed(new EngineError('unavailable', 'gone'))).code, 'unavailable');
  assert.equal(refusalOf(crossed(new EngineError('refused', 'no'))).code, 'internal');
  assert.equal(refusalOf(crossed(new TypeError('a fault'))).code, 'internal');
  assert.equal(refusalOf(new RemoteError('StorageError', 'unavailable', 'away')).code, 'unavailable');
  assert.equal(refusalOf(new RemoteError('StorageError', 'internal', 'a fault')).code, 'internal');
  assert.equal(refusalOf(new ActorError('stopped', 'its owner is gone', { begun: true })).code, 'unavailable');
});

test('a fenced transaction of a former owner writes nothing', async (t) => {
  const { db, close } = await testDatabase();
  t.after(close);
  await db.script('create table kept (n int)');
  const store = leaseStore(db);
  const node = (id: string) => ({ id, roles: ['bank'], version: 'test', address: id, draining: false, weight: 1 });
  for (const id of ['one', 'two']) await store.beat(node(id), 60_000, { stamp: '', mark: '' });
  const [lease] = await store.take('one', [{ service: 'bank', shard: 3 }], 16);
  assert.ok(lease);
  const write = (n: number) => fenced(db, lease, async (tx) => tx.run('insert into kept values ($1)', [n]));
  assert.equal(await write(1), 1);
  await store.leave('one');
  await store.take('two', [{ service: 'bank', shard: 3 }], 16);
  await assert.rejects(write(2), isFenced);
  assert.equal(await db.run('select from kept'), 1);
});

test('what crosses is what JSON makes of a value, however it is made up', () => {
  const when = new Date(0);
  let deep: unknown = 'bottom';
  for (let n = 0; n < 200; n++) deep = { deep };
  for (const value of [
    ...[null, 0, -0, Number.NaN, Number.POSITIVE_INFINITY, '', 'text', false],
    ...[[], [undefined], new Array(2), [1, [Number.NaN]], { a: undefined, b: [when] }, when, new Map([['a', 1]])],
    ...[{ toJSON: () => 'other' }, Object.assign(Object.create(null), { a: 1 }), new Error('e'), deep],
    ...[Object.assign([1], { toJSON: () => 2 }), JSON.parse('{"__proto__": {"a": 1}}')],
  ]) {
    const sent = JSON.stringify({ v: toWire(value) });
    assert.equal(sent, JSON.stringify({ v: value }));
  }
  const plain = { list: [1, { deep: null }] };
  assert.equal(toWire(plain), plain, 'it is not made again');
});

test('a value that JSON cannot say does not cross', () => {
  const text = jsonCodec((value) => String(value));
  assert.equal(text.decode('a', { in: () => assert.fail() }), 'a');
  assert.throws(() => outcomeCodec.encode({ ok: 1n }, refsOut), TypeError);
  assert.throws(() => outcomeCodec.encode({ ok: () => 1 }, refsOut), TypeError);
});
