/** How often a user may change something: what counts, who shares it, and what no limit holds up. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { z } from 'zod';
import { addUser } from '../../actors/auth/users/users.ts';
import { changePace } from '../../cmd/config/change-pace.ts';
import { readEnvironment } from '../../cmd/config/config.ts';
import { platformEndpoints } from '../../proto/auth/admin.ts';
import { createToken, listTokens } from '../../proto/auth/api-tokens.ts';
import { authEndpoints, login, updateProfile } from '../../proto/auth/endpoints.ts';
import { computeEndpoints, createContainer, createSshKey, getContainer } from '../../proto/compute/endpoints.ts';
import type { AnyEndpoint, Caller } from '../../proto/endpoint.ts';
import { type ErrorCode, Refusal } from '../../proto/errors.ts';
import type { ChangePace } from '../../proto/fair-buckets.ts';
import { networkEndpoints } from '../../proto/network/endpoints.ts';
import { markRead, notifyEndpoints } from '../../proto/notify/endpoints.ts';
import { refusals } from '../../proto/openapi.ts';
import { changeLimit } from '../../transports/api/change-limit.ts';
import { testDatabase } from '../support/database/database.ts';
import { fakeShells } from '../support/engine/fake-shells.ts';
import { memoryEngine } from '../support/engine/memory-engine.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { openAuth, openAuthNode, PASSWORD } from '../support/service/auth.ts';
import { openService, serve } from '../support/service/open-service.ts';
import { publicKey } from '../support/ssh/public-key.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const ENDPOINTS: readonly AnyEndpoint[] = [
  ...authEndpoints,
  ...platformEndpoints,
  ...computeEndpoints,
  ...networkEndpoints,
  ...notifyEndpoints,
];
/** Beginnings of names of what takes something away. */
const REMOVALS = /^(admin)?(stop|delete|remove|end|close|revoke|disable|disconnect|forget|drop|cancel)/i;

test('whatever takes something away says how the limit treats it, and none of it is refused', () => {
  const named = ENDPOINTS.filter(({ method, name }) => method === 'DELETE' || REMOVALS.test(name));
  assert.ok(named.length > 20);
  const silent = named.filter(({ rateLimit }) => rateLimit === undefined);
  assert.deepEqual(names(silent), []);
  const counted = named.filter(({ rateLimit }) => rateLimit === 'counted');
  // Nobody needs these at once.
  assert.deepEqual(names(counted), ['adminUndrainNode', 'forgetAnswers']);
  const isTold = (endpoint: AnyEndpoint) => refusals(endpoint).includes('too_many_changes');
  assert.ok(named.filter(({ rateLimit }) => rateLimit === 'removal').every((endpoint) => !isTold(endpoint)));
  assert.ok(isTold(updateProfile) && [listTokens, login, markRead].every((endpoint) => !isTold(endpoint)));
});

const names = (endpoints: readonly AnyEndpoint[]) => endpoints.map(({ name }) => name).sort();

test('the settings are a burst and a pace; the one of earlier versions counts without them', () => {
  const pace = (env: Record<string, string>) => changePace(readEnvironment(env));
  assert.deepEqual(pace({}), { burst: 600, perSecond: 10 });
  assert.deepEqual(pace({ CHANGES_BURST: '5', CHANGES_PER_SECOND: '2' }), { burst: 5, perSecond: 2 });
  assert.deepEqual(pace({ CHANGES_PER_MINUTE: '120' }), { burst: 120, perSecond: 2 });
  assert.deepEqual(pace({ CHANGES_PER_MINUTE: '120', CHANGES_BURST: '5' }), { burst: 5, perSecond: 2 });
  assert.throws(() => pace({ CHANGES_BURST: '0' }), /CHANGES_BURST: must be 1 to 999999/);
});

const callerOf = (tokenId: string, more: Partial<Caller> = {}): Caller => ({
  kind: 'session',
  userId: 'ann',
  username: 'ann',
  isAdmin: false,
  tokenId,
  expiresAt: 0,
  ...more,
});

function limited(burst: number) {
  const clock = { now: () => 1_000_000 };
  const limit = changeLimit({ burst, perSecond: 1 }, clock);
  const change = (caller: Caller) => limit.run(updateProfile, caller, async () => 'made');
  const fail = (caller: Caller, error: Error) => limit.run(updateProfile, caller, () => Promise.reject(error));
  const refused = (work: Promise<unknown>, code: ErrorCode = 'too_many_changes') => assert.rejects(work, { code });
  return { limit, change, fail, refused };
}

test('what is refused does not count, up to five times the burst; what failed on our side does', async () => {
  const { change, fail, refused } = limited(4);
  const ann = callerOf('a');
  for (let i = 0; i < 20; i++) await refused(fail(ann, new Refusal('not_found')), 'not_found');
  const tooMany = change(ann);
  await assert.rejects(tooMany, { code: 'too_many_changes', retryAfter: 1, message: /were refused: .* wait 1 s\.$/ });
  // Another session has room for its own.
  await change(callerOf('b'));
  const bob = callerOf('c', { userId: 'bob' });
  for (let i = 0; i < 3; i++) await assert.rejects(fail(bob, new Error('a fault')), /a fault/);
  await refused(fail(bob, new Refusal('unavailable')), 'unavailable');
  await assert.rejects(change(bob), {
    retryAfter: 1,
    message: 'You may make 4 changes at once, then 1 a second, shared with your other sessions: wait 1 s.',
  });
});

test('what is under way counts until it is answered', async () => {
  const { limit, change, refused } = limited(3);
  const ann = callerOf('a');
  const begun: ((error: Refusal) => void)[] = [];
  const asked = Array.from({ length: 1000 }, () => {
    const work = limit.run(updateProfile, ann, () => new Promise<never>((_, reject) => begun.push(reject)));
    return work.catch((error: unknown) => error);
  });
  assert.equal(begun.length, 3);
  await refused(change(ann));
  for (const reject of begun) reject(new Refusal('conflict'));
  await Promise.all(asked);
  for (let i = 0; i < 3; i++) await change(ann);
  await refused(change(ann));
});

test('sessions share one budget and tokens another; all tokens of a service account are one, as are SSH logins', async () => {
  const { change, refused } = limited(4);
  const token = (tokenId: string, account?: string) =>
    callerOf(tokenId, {
      kind: 'api_token',
      serviceAccount: account === undefined ? null : { id: account, name: account },
    });
  for (let i = 0; i < 4; i++) await change(token(`t${i}`, 'ci'));
  await refused(change(token('t9', 'ci')));
  await change(token('own'));
  for (let i = 0; i < 4; i++) await change(callerOf(`s${i}`, { via: 'ssh_key' }));
  await refused(change(callerOf('s9', { via: 'ssh_key' })));
  await change(callerOf('console'));
  await change(callerOf('b', { userId: 'bob' }));
});

/** Does it so often, eight at a time. */
async function repeat<T>(count: number, work: (index: number) => Promise<T>): Promise<T[]> {
  const done: T[] = [];
  let next = 0;
  const turns = Array.from({ length: 8 }, async () => {
    while (next < count) done.push(await work(next++));
  });
  await Promise.all(turns);
  return done;
}
const only = (answers: readonly { status: number }[]) => [...new Set(answers.map(({ status }) => status))];

test('300 changes within a minute are made; malformed and repeated ones do not count', async (t) => {
  const auth = await openAuth(t);
  const { token } = await auth.login('ann', PASSWORD);
  const listener = async (pace: ChangePace) => {
    const { port } = await serve(auth, { changes: changeLimit(pace, auth.clock) });
    const send = async (request: `${string} ${string}`, body: string, key?: string) => {
      const [method = '', path = ''] = request.split(' ');
      const headers = { authorization: `Bearer ${token}`, ...(key === undefined ? {} : { 'idempotency-key': key }) };
      const reply = await fetch(`http://127.0.0.1:${port}${path}`, { method, headers, body });
      const { code } = z.looseObject({ code: z.string().optional() }).parse(await reply.json());
      const [retryAfter, replayed] = ['retry-after', 'idempotency-replayed'].map((name) => reply.headers.get(name));
      return { status: reply.status, code, retryAfter, isReplayed: replayed === 'true' };
    };
    return {
      profile: (body: string) => send('PUT /api/settings/profile', body),
      /** Sent again and again with the same key. */
      make: (key = 'k') => send('POST /api/tokens', JSON.stringify({ name: 'ci', scopes }), key),
    };
  };
  const scopes = { [`compute.${(await auth.enter('ann')).userId}.containers`]: ['read'] };
  const { profile, make } = await listener(changePace(readEnvironment({})));
  assert.deepEqual(only(await repeat(300, (index) => profile(index % 2 === 0 ? '{"na' : '{}'))), [400]);
  const names = (index: number) => profile(JSON.stringify({ display_name: `Ann ${index}` }));
  assert.deepEqual(only(await repeat(300, names)), [200]);

  const narrow = await listener({ burst: 1, perSecond: 0.01 });
  assert.equal((await make()).isReplayed, false);
  for (let i = 0; i < 3; i++) assert.equal((await narrow.make()).isReplayed, true);
  assert.equal((await narrow.profile('{"display_name":"Ann"}')).status, 200);
  const late = await narrow.profile('{"display_name":"Ann"}');
  assert.deepEqual(late, { status: 429, code: 'too_many_changes', retryAfter: '100', isReplayed: false });
  // A key changes nothing about that, and leaves no trace.
  const begun = async () => {
    const row = z.object({ rows: z.number(), last: z.number().nullable() });
    const last = `pg_sequence_last_value(pg_get_serial_sequence('idempotency_keys', 'id'))`;
    return auth.outside.one(row, `select count(*) as rows, ${last} as last from idempotency_keys`);
  };
  const before = await begun();
  assert.deepEqual(only(await repeat(3, (index) => narrow.make(`new-${index}`))), [429]);
  assert.deepEqual(await begun(), before);
  assert.equal((await narrow.profile('{"display')).status, 400);
  assert.deepEqual(only(await repeat(2, () => narrow.make())), [200]);
});

test('an owner changes, stops, deletes and revokes at once while five of their tokens do their worst', async (t) => {
  const database = await testDatabase();
  t.after(() => database.close());
  const engine = memoryEngine();
  t.after(() => engine.close());
  const auth = await openAuthNode(t, { database, relays: true });
  const parts = { engine, shells: fakeShells(), defaultImage: engine.baseImage };
  const compute = await openService(t, 'compute', () => parts, { database });
  await addUser(auth.outside, 'ann', PASSWORD);
  const ann = await auth.enter('ann');
  const changes = changeLimit({ burst: 10, perSecond: 2 }, { now: Date.now });
  const ports = { auth: (await serve(auth, { changes })).port, compute: (await serve(compute, { changes })).port };
  const send = async (
    token: string,
    request: `${string} ${string}`,
    body?: string,
    more: Record<string, string> = {},
  ) => {
    const [method = '', path = ''] = request.split(' ');
    const port = path.startsWith('/compute') ? ports.compute : ports.auth;
    const headers = { authorization: `Bearer ${token}`, connection: 'close', ...more };
    const init = { method, headers, ...(body === undefined ? {} : { body }) };
    const reply = await fetch(`http://127.0.0.1:${port}${path}`, init);
    await reply.text();
    return reply.status;
  };
  const key = await compute.call(createSshKey, ann, { body: { name: 'laptop', public_key: publicKey() } });
  const body = { name: 'box', ssh_key_ids: [key.id] };
  const { id } = await compute.call(createContainer, ann, { body });
  await until(async () => (await compute.call(getContainer, ann, { params: { id } })).status === 'running', {
    what: 'the container runs',
  });
  const scopes = { [`compute.${ann.userId}.keys`]: ['create'], [`compute.${ann.userId}.containers`]: ['update'] };
  const tokens = await repeat(5, (index) => auth.call(createToken, ann, { body: { name: `t${index}`, scopes } }));

  const statuses = tokens.map(() => new Map<number, number>());
  const stop = new AbortController();
  const worst = tokens.flatMap(({ token }, index) =>
    Array.from({ length: 4 }, async (_, turn) => {
      const seen = statuses[index] ?? new Map<number, number>();
      for (let i = turn; !stop.signal.aborted && (seen.get(401) ?? 0) < 4; i++) {
        const name = JSON.stringify({ name: `box ${index} ${i}` });
        const status = await (i % 3 === 0
          ? send(token, 'POST /compute/ssh-keys', '{"na')
          : i % 3 === 1
            ? send(token, 'POST /compute/ssh-keys', JSON.stringify({ name: 'x', public_key: 'none' }))
            : send(token, `PATCH /compute/containers/${id}`, name));
        seen.set(status, (seen.get(status) ?? 0) + 1);
      }
    }),
  );
  t.after(() => stop.abort());
  await until(() => statuses.every((seen) => (seen.get(429) ?? 0) > 3), { what: 'each token meets its limit' });

  const { token } = await auth.login('ann', PASSWORD);
  for (let i = 0; i < 5; i++)
    assert.equal(await send(token, 'PUT /api/settings/profile', JSON.stringify({ display_name: `Ann ${i}` })), 200);
  const stops = (key: string) =>
    send(token, `POST /compute/containers/${id}/stop`, undefined, { 'idempotency-key': key });
  assert.equal(await stops('a'), 200);
  // No limit counts these, so none of them is kept.
  await until(async () => (await compute.call(getContainer, ann, { params: { id } })).status === 'stopped', {
    what: 'the container is stopped',
  });
  assert.deepEqual([await stops('b'), await stops('c'), await stops('a')], [409, 409, 200]);
  assert.equal(await auth.outside.run(`select from idempotency_keys where endpoint = 'stopContainer'`), 1);
  assert.equal(await send(token, `DELETE /compute/containers/${id}`), 200);
  for (const one of tokens) assert.equal(await send(token, `DELETE /api/tokens/${one.id}`), 200);
  await Promise.all(worst);
  assert.ok(statuses.every((seen) => [200, 400, 401].every((status) => seen.has(status))));
  // Each had a share of what tokens may change.
  const made = statuses.map((seen) => seen.get(200) ?? 0);
  assert.ok(Math.min(...made) >= 1, `${made}`);
});
