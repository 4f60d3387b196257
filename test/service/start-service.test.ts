/** A service from its definition, on the real runtime, with endpoints of the test's own. */

import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { z } from 'zod';
import { type CallMessage, handleCall, handler, handlers } from '../../actors/service/dispatch.ts';
import {
  ActorPart,
  type AnsweringKind,
  Connections,
  EntitiesPart,
  localEntities,
  pool,
} from '../../actors/service/parts.ts';
import { startService, streamHandler } from '../../actors/service/start-service.ts';
import { type AnyEndpoint, type Caller, endpoint, remainingMs } from '../../proto/endpoint.ts';
import { Refusal } from '../../proto/errors.ts';
import { entities, spawn, start, stop, stopped } from '../../supervision/index.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { silentLog } from '../support/log.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const common = { service: 'auth', method: 'GET', access: 'session', summary: '', reply: z.string() } as const;
const greet = endpoint('greet', 'GET /greet', { ...common, actor: { kind: 'test/greeter', key: 'caller' } });
const count = endpoint('count', 'GET /count', { ...common, actor: { kind: 'test/pool', key: 'none' } });
const watch = endpoint('watch', 'GET /watch', { ...common, socket: true, actor: greet.actor });

const db = { ping: async () => {} };
const clock = { now: () => 0 };

const table = handlers(handler(greet, (name: string) => `hello ${name}`));
const greeters: AnsweringKind<CallMessage, string> = {
  kind: 'test/greeter',
  answers: table,
  sleepAfterMs: 1000,
  activate: (id) => (id === 'nobody' ? undefined : id),
  handle: (name, message) => {
    void handleCall(table, name, message);
    return name;
  },
};

function callOf(userId: string) {
  const caller: Caller = { kind: 'session', userId, username: userId, isAdmin: false, tokenId: '', expiresAt: 0 };
  return { caller, params: undefined, query: undefined, body: undefined, address: '', requestId: '' };
}

function openSystem(t: TestContext) {
  const system = start({ log: silentLog });
  t.after(async () => {
    stop(system);
    await stopped(system);
  });
  return system;
}

const refused = (code: string) => (error: unknown) => error instanceof Refusal && error.code === code;

test('a call reaches the part whose kind its endpoint names', async (t) => {
  const numbers = pool('test/pool', handlers(handler(count, () => 'one')), {
    name: 'numbers',
    concurrency: 1,
    queue: 1,
  });
  const service = await startService(openSystem(t), {
    name: 'auth',
    endpoints: [greet, count],
    db,
    parts: { greeters: localEntities(greeters), numbers },
  });
  assert.equal(await service.call(greet, callOf('ann')), 'hello ann');
  assert.equal(await service.call(count, callOf('ann')), 'one');
  assert.deepEqual(await service.health(), { ok: true, problems: [] });
});

test('a service does not start with an endpoint that nobody answers', async (t) => {
  const system = openSystem(t);
  const parts = { greeters: localEntities(greeters) };
  const begin = (...endpoints: AnyEndpoint[]) => startService(system, { name: 'auth', endpoints, db, parts });
  await assert.rejects(begin(greet, count), /nobody answers count/);
  await assert.rejects(begin(greet, watch), /nobody answers watch/);
  // Its actor is there, and has no handler for it.
  const forgotten = endpoint('forgotten', 'GET /forgotten', { ...common, actor: greet.actor });
  await assert.rejects(begin(greet, forgotten), /nobody answers forgotten/);
});

test('a part that was not started yet is unavailable', async () => {
  const part = localEntities(greeters);
  await assert.rejects(part.call(greet, callOf('ann')), refused('unavailable'));
  assert.throws(() => new Connections('test', clock).ref, refused('unavailable'));
});

test('an entity that does not exist is refused as its part says', async (t) => {
  const system = openSystem(t);
  const plain = localEntities(greeters);
  plain.start(system);
  await assert.rejects(plain.call(greet, callOf('nobody')), refused('not_found'));
  const users = new EntitiesPart<CallMessage>(
    { kind: 'test/user', answers: table },
    (parent) => entities(parent, { ...greeters, kind: 'test/user' }),
    'unauthorized',
  );
  users.start(system);
  await assert.rejects(users.call(greet, callOf('nobody')), refused('unauthorized'));
});

test('a part stays the same when its actor is started again', async (t) => {
  const system = openSystem(t);
  let starts = 0;
  const part = new ActorPart<never>('test/part', (parent) => {
    starts += 1;
    return spawn<null, never>(parent, (state) => state, { initialState: null });
  });
  await startService(system, { name: 'auth', endpoints: [], db, parts: { part } });
  const before = part.ref;
  stop(before);
  await until(() => starts === 2);
  assert.notEqual(part.ref, before);
});

test('a socket is opened by the handler of its endpoint, as its caller', async (t) => {
  const connections = new Connections('test', clock);
  const seen: string[] = [];
  const service = await startService(openSystem(t), {
    name: 'auth',
    endpoints: [greet, watch],
    db,
    parts: { greeters: localEntities(greeters), connections },
    sockets: [
      streamHandler(watch, (_call, caller) => {
        seen.push(caller.userId);
        return connections.open('test/socket', caller, { open() {} });
      }),
    ],
  });
  await service.connect(watch, callOf('ann'));
  assert.deepEqual(seen, ['ann']);
  await assert.rejects(service.connect(greet, callOf('ann')), refused('not_found'));
  await assert.rejects(service.follow(greet, callOf('ann')), refused('not_found'));
});

test('a token that does not expire is good for ever, any other until its second', () => {
  const { caller } = callOf('ann');
  assert.equal(remainingMs(caller, 5000), Number.POSITIVE_INFINITY);
  assert.equal(remainingMs({ ...caller, expiresAt: 7 }, 5000), 2000);
});
