import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import type { NeededScope, TokenDirectory, TokenGrant } from '../../proto/auth/tokens.ts';
import type { Caller } from '../../proto/endpoint.ts';
import { OpenStreams } from '../../transports/api/open-streams.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { silentLog } from '../support/log.ts';
import { FakeSocket } from '../support/service/fake-socket.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const grant: TokenGrant = {
  ...{ userId: 'u1', username: 'ann', scopes: { 'compute.u1': ['read', 'update'] } },
  ...{ serviceAccountId: 'a1', serviceAccount: 'robot', expiresAt: 0 },
};
const robot = (tokenId: string, account = 'a1'): Caller => ({
  ...{ kind: 'api_token', userId: 'u1', username: 'ann', isAdmin: false, tokenId, expiresAt: 0 },
  serviceAccount: { id: account, name: 'robot' },
});
const ann: Caller = { kind: 'session', userId: 'u1', username: 'ann', isAdmin: false, tokenId: 's1', expiresAt: 9e9 };
const READ: NeededScope = { key: 'compute.u1.containers.c1', action: 'read' };

const handlers = { open: () => {}, message: () => {}, drain: () => {}, close: () => {} };

/** Streams over a directory that the test holds in its hands. */
function open(t: TestContext) {
  const grants = new Map<string, TokenGrant>();
  const users = new Set(['u1']);
  const asked: string[] = [];
  const state: { failure: Error | undefined } = { failure: undefined };
  const ask = async <T>(id: string, answer: () => T): Promise<T> => {
    asked.push(id);
    if (state.failure) throw state.failure;
    return answer();
  };
  const directory: TokenDirectory = {
    grant: (id) => ask(id, () => grants.get(id)),
    knowsUser: (id) => ask(id, () => users.has(id)),
    onNews: () => ({ close: async () => {} }),
  };
  const streams = new OpenStreams(directory, silentLog);
  t.after(() => streams.close());
  const connect = (caller: Caller, scope?: NeededScope) => {
    const watch = streams.watchOf(caller, scope, streams.news);
    return { socket: FakeSocket.open(handlers, watch) };
  };
  return { grants, users, asked, state, streams, connect };
}

describe('open streams', () => {
  test('close when their token is deleted, and only those', async (t) => {
    const { grants, streams, connect } = open(t);
    grants.set('t1', grant).set('t2', grant);
    const [one, other, session] = [connect(robot('t1'), READ), connect(robot('t2'), READ), connect(ann, READ)];
    assert.equal(streams.size, 3);
    grants.delete('t1');
    streams.recheck({ kind: 'token', id: 't1' });
    await until(() => one.socket.closed !== undefined, { what: 'the stream is closed' });
    assert.deepEqual(one.socket.closed, { code: 1008, reason: 'token revoked' });
    assert.deepEqual([other.socket.closed, session.socket.closed], [undefined, undefined]);
  });

  test('close when the service account may no longer what they show', async (t) => {
    const { grants, streams, connect } = open(t);
    grants.set('t1', grant).set('t2', grant);
    const write = { ...READ, action: 'update' };
    const [reads, writes, free] = [connect(robot('t1'), READ), connect(robot('t2'), write), connect(robot('t1'))];
    const elsewhere = connect(robot('t3', 'a2'), READ);
    for (const id of grants.keys()) grants.set(id, { ...grant, scopes: { 'compute.u1': ['update'] } });
    streams.recheck({ kind: 'account', id: 'a1' });
    await until(() => reads.socket.closed !== undefined, { what: 'the reader is closed' });
    assert.deepEqual(reads.socket.closed, { code: 1008, reason: 'scope withdrawn' });
    assert.deepEqual(
      [writes.socket.closed, free.socket.closed, elsewhere.socket.closed],
      [undefined, undefined, undefined],
    );
  });

  test('close when their user is gone, and when nobody knows what was missed', async (t) => {
    const { users, asked, streams, connect } = open(t);
    const session = connect(ann);
    streams.recheck({ kind: 'all' });
    await until(() => asked.length === 1, { what: 'the directory is asked' });
    assert.equal(session.socket.closed, undefined);
    users.clear();
    streams.recheck({ kind: 'user', id: 'u1' });
    await until(() => session.socket.closed !== undefined, { what: 'the session is closed' });
    const robots = connect(robot('t9'));
    streams.recheck({ kind: 'all' });
    await until(() => robots.socket.closed !== undefined, { what: 'the robot is closed' });
  });

  test('stay while the directory cannot answer, and are looked at again', async (t) => {
    const { state, asked, streams, connect } = open(t);
    const stream = connect(robot('t1'), READ);
    state.failure = new Error('away');
    streams.recheck({ kind: 'token', id: 't1' });
    await until(() => asked.length > 0, { what: 'the directory is asked' });
    assert.equal(stream.socket.closed, undefined);
    state.failure = undefined;
    await until(() => stream.socket.closed !== undefined, { what: 'the stream is closed' });
  });

  test('are watched for what lives on without a socket, until that is over', async (t) => {
    const { grants, streams } = open(t);
    grants.set('t1', grant);
    const ends: string[] = [];
    const [first, second] = ['first', 'second'].map((name) =>
      streams.watch(robot('t1'), READ, (reason) => ends.push(`${name}: ${reason}`)),
    );
    streams.recheck({ kind: 'token', id: 't1' });
    first?.();
    grants.delete('t1');
    streams.recheck({ kind: 'token', id: 't1' });
    await until(() => ends.length > 0, { what: 'the watch hears of it' });
    assert.deepEqual(ends, ['second: token revoked']);
    second?.();
    assert.equal(streams.size, 0);
  });

  test('are watched from the end of their socket on: what came between is not missed', async (t) => {
    const { grants, streams } = open(t);
    const ended: string[] = [];
    streams.watch(robot('gone'), READ, (reason) => ended.push(`gone: ${reason}`));
    grants.set('narrow', { ...grant, scopes: {} });
    streams.watch(robot('narrow'), READ, (reason) => ended.push(`narrow: ${reason}`));
    grants.set('good', grant);
    streams.watch(robot('good'), READ, (reason) => ended.push(`good: ${reason}`));
    await until(() => ended.length === 2, { what: 'both are told' });
    assert.deepEqual(ended.toSorted(), ['gone: token revoked', 'narrow: scope withdrawn']);
  });

  test('are all closed, also those that were let in before the first of them was open, whatever they needed', async (t) => {
    const { grants, streams } = open(t);
    grants.set('t1', grant);
    const watches = [READ, READ, undefined, READ].map((scope) => streams.watchOf(robot('t1'), scope, streams.news));
    const sockets = watches.map((watch) => FakeSocket.open(handlers, watch));
    assert.equal(streams.size, 4);
    sockets[3]?.leave();
    grants.delete('t1');
    streams.recheck({ kind: 'token', id: 't1' });
    await until(() => sockets.slice(0, 3).every(({ closed }) => closed?.code === 1008), { what: 'all are closed' });
    assert.equal(streams.size, 0);
  });

  test('are closed when their token was deleted while they were let in, and nobody knew of them yet', async (t) => {
    const { grants, asked, streams } = open(t);
    grants.set('t1', grant).set('t2', grant);
    const since = streams.news;
    const [watch, other] = [streams.watchOf(robot('t1'), READ, since), streams.watchOf(robot('t2'), READ, since)];
    grants.delete('t1');
    streams.recheck({ kind: 'token', id: 't1' });
    assert.deepEqual(asked, []);
    const [socket, stays] = [FakeSocket.open(handlers, watch), FakeSocket.open(handlers, other)];
    assert.deepEqual(await socket.end(), { code: 1008, reason: 'token revoked' });
    await until(() => asked.length === 2, { what: 'the other is looked at, too' });
    assert.equal(stays.closed, undefined);
    let isOver = false;
    const end = () => {
      isOver = true;
    };
    streams.guardEvents(robot('t1'), READ, { open: () => {}, drain: () => {}, closed: () => {}, end }, since);
    await until(() => isOver, { what: 'the events are over' });
  });

  test('are forgotten once closed', async (t) => {
    const { asked, streams, connect } = open(t);
    const [one, two] = [connect(ann), connect(ann)];
    one.socket.leave();
    assert.equal(streams.size, 1);
    two.socket.leave();
    assert.equal(streams.size, 0);
    streams.recheck({ kind: 'all' });
    assert.deepEqual(asked, []);
  });
});
