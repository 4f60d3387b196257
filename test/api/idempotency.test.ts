/** Requests with an Idempotency-Key, over HTTP, against the real authentication service. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { z } from 'zod';
import { addUser } from '../../actors/auth/users/users.ts';
import { createServiceAccount, createToken, listTokens } from '../../proto/auth/api-tokens.ts';
import { authEndpoints } from '../../proto/auth/endpoints.ts';
import type { SharedSecret } from '../../proto/auth/shared-secret.ts';
import { openapi, refusals } from '../../proto/openapi.ts';
import { StorageError } from '../../storage/errors.ts';
import { keptAnswers, purgeKeptAnswers } from '../../storage/idempotency.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { openAuth, PASSWORD } from '../support/service/auth.ts';
import { SECRET } from '../support/service/node.ts';
import { serve } from '../support/service/open-service.ts';
import type { Cleanup } from '../support/temp.ts';

failOnLeaks();

const ACCOUNTS = '/api/service-accounts';

async function setting(t: Cleanup) {
  const auth = await openAuth(t);
  await addUser(auth.outside, 'bob', PASSWORD);
  const { port } = await serve(auth, {});
  const tokens = { ann: (await auth.login('ann', PASSWORD)).token, bob: (await auth.login('bob', PASSWORD)).token };
  const ann = await auth.enter('ann');
  const post = async (path: string, body: unknown, key: string | undefined, who: keyof typeof tokens = 'ann') => {
    const response = await fetch(`http://127.0.0.1:${port}${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${tokens[who]}`, ...(key === undefined ? {} : { 'idempotency-key': key }) },
      body: JSON.stringify(body),
    });
    const { status, headers } = response;
    const json = z.looseObject({}).parse(await response.json());
    return { status, json, isReplayed: headers.get('idempotency-replayed') === 'true', headers };
  };
  const scopes = { [`compute.${ann.userId}.containers`]: ['read'] };
  const accounts = async () => {
    const row = z.object({ name: z.string() });
    const rows = await auth.outside.many(row, 'select name from service_accounts order by created_at');
    return rows.map(({ name }) => name);
  };
  return { auth, ann, post, scopes, accounts };
}

test('a request that is sent again gets the first answer, and makes nothing twice', async (t) => {
  const { post, scopes, accounts } = await setting(t);
  const key = randomUUID();
  const first = await post(ACCOUNTS, { name: 'robot', scopes }, key);
  assert.deepEqual([first.status, first.isReplayed], [200, false]);
  // The same, however it is written.
  const again = await post(ACCOUNTS, { scopes, name: 'robot' }, key);
  assert.deepEqual([again.status, again.isReplayed, again.json], [200, true, first.json]);
  assert.deepEqual(await accounts(), ['robot']);
  assert.notEqual(again.headers.get('x-request-id'), first.headers.get('x-request-id'));
  // Without a key each request is one of its own.
  assert.equal((await post(ACCOUNTS, { name: 'robot', scopes }, undefined)).status, 200);
  assert.equal((await accounts()).length, 2);
});

test('a key that comes with another request is refused, and says nothing of the first', async (t) => {
  const { post, scopes, accounts } = await setting(t);
  assert.equal((await post(ACCOUNTS, { name: 'robot', scopes }, 'k')).status, 200);
  const other = await post(ACCOUNTS, { name: 'another', scopes }, 'k');
  assert.deepEqual([other.status, other.json.code, other.isReplayed], [422, 'idempotency_key_reused', false]);
  assert.match(String(other.json.error), /each request needs a key of its own/);
  assert.deepEqual(await accounts(), ['robot']);
  // The key of another endpoint, and of another user, is another key.
  assert.equal((await post('/api/tokens', { name: 'ci', scopes }, 'k')).status, 200);
  const bobs = await post(ACCOUNTS, { name: 'robot', scopes: {} }, 'k', 'bob');
  assert.equal(bobs.isReplayed, false);
});

test('a key is 1 to 255 visible ASCII characters', async (t) => {
  const { post, scopes, accounts } = await setting(t);
  for (const key of ['a b', 'x'.repeat(256), 'ä', 'a\tb']) {
    const refused = await post(ACCOUNTS, { name: 'robot', scopes }, key);
    assert.deepEqual([refused.status, refused.json.code], [400, 'invalid_request'], key);
    assert.match(String(refused.json.error), /1 to 255 visible ASCII characters/);
  }
  assert.deepEqual(await accounts(), []);
  for (const key of ['!', '~'.repeat(255), '"8e03978e-40d5"'])
    assert.equal((await post(ACCOUNTS, { name: 'robot', scopes }, key)).status, 200, key);
});

test('of many at once one makes something; the others are told to ask again, or get its answer', async (t) => {
  const { post, scopes, accounts } = await setting(t);
  const replies = await Promise.all(
    Array.from({ length: 12 }, () => post(ACCOUNTS, { name: 'robot', scopes }, 'at-once')),
  );
  assert.deepEqual(await accounts(), ['robot']);
  assert.equal(replies.filter(({ status, isReplayed }) => status === 200 && !isReplayed).length, 1);
  for (const { status, json, isReplayed, headers } of replies) {
    if (status === 200) continue;
    assert.deepEqual([status, json.code, isReplayed], [409, 'idempotency_key_in_use', false]);
    assert.equal(headers.get('retry-after'), '2');
  }
});

test('refusals after the work began are kept; those before it, limits and faults are not', async (t) => {
  const { auth, ann, post, scopes } = await setting(t);
  const missing = { name: 'ci', expires_in: 'never' };
  const path = `${ACCOUNTS}/aaaaaaaaaaaa/tokens`;
  const first = await post(path, missing, 'gone');
  const again = await post(path, missing, 'gone');
  assert.deepEqual([first.status, first.isReplayed], [404, false]);
  assert.deepEqual([again.status, again.isReplayed, again.json], [404, true, first.json]);

  // 400: it never began.
  assert.equal((await post(ACCOUNTS, { name: '', scopes }, 'mended')).status, 400);
  assert.equal((await post(ACCOUNTS, { name: 'mended', scopes }, 'mended')).status, 200);

  // 403: there is room again.
  await auth.outside.run(
    `insert into service_accounts (id, user_id, name, scopes)
     select 'filler' || lpad(n::text, 6, '0'), $1, 'filler', '{}'::jsonb from generate_series(1, 99) n`,
    [ann.userId],
  );
  const full = await post(ACCOUNTS, { name: 'one more', scopes }, 'full');
  assert.deepEqual([full.status, full.json.code], [403, 'limit_reached']);
  await auth.outside.run(`delete from service_accounts where name = 'filler'`);
  const room = await post(ACCOUNTS, { name: 'one more', scopes }, 'full');
  assert.deepEqual([room.status, room.isReplayed], [200, false]);

  // 503: the database was away.
  auth.db.failure = new StorageError('unavailable', 'the connection was lost');
  const away = await post(ACCOUNTS, { name: 'later', scopes }, 'away');
  assert.deepEqual([away.status, away.json.code], [503, 'unavailable']);
  auth.db.failure = undefined;
  const back = await post(ACCOUNTS, { name: 'later', scopes }, 'away');
  assert.deepEqual([back.status, back.isReplayed], [200, false]);
});

test('an answer with a secret is given again, and lies in the database sealed', async (t) => {
  const { auth, ann, post, scopes } = await setting(t);
  const first = await post('/api/tokens', { name: 'ci', scopes }, 'secret');
  const again = await post('/api/tokens', { name: 'ci', scopes }, 'secret');
  assert.deepEqual([again.isReplayed, again.json], [true, first.json]);
  const secret = String(first.json.token);
  assert.match(secret, /^svc_/);
  assert.equal((await auth.call(listTokens, ann)).length, 1);
  const [row] = await auth.outside.many(
    z.object({ all: z.string(), bytes: z.string() }),
    `select t::text as all, encode(answer, 'escape') || encode(sealed_key, 'escape') as bytes from idempotency_keys t`,
  );
  for (const part of [secret, 'svc_', 'robot', 'ci'])
    assert.ok(row !== undefined && !row.all.includes(part) && !row.bytes.includes(part), part);
  const hex = Buffer.from(secret).toString('hex');
  assert.ok(row !== undefined && !row.all.includes(hex.slice(0, 40)));
});

test('a process that dies before it made anything is followed by the next, and makes nothing afterwards', async (t) => {
  const { auth, ann, post, scopes, accounts } = await setting(t);
  // What a request of the same content looks like to the database; `post` comes with the same.
  const content = JSON.stringify([{}, undefined, { name: 'robot', scopes }]);
  const request = { userId: ann.userId, endpoint: createServiceAccount.name, key: 'died', content };
  const state = await auth.kept.begin(request);
  assert.equal(state.kind, 'first');
  assert.equal((await post(ACCOUNTS, { name: 'robot', scopes }, 'died')).status, 409);
  await auth.outside.run("update idempotency_keys set running_until = now() - interval '1 second'");
  const next = await post(ACCOUNTS, { name: 'robot', scopes }, 'died');
  assert.deepEqual([next.status, next.isReplayed], [200, false]);
  assert.deepEqual(await accounts(), ['robot']);
  // The one that was taken for dead says that it is done: the answer stays.
  assert.ok(state.kind === 'first');
  await auth.kept.finish(state.place, { value: 'another' });
  await auth.kept.release(state.place);
  const last = await post(ACCOUNTS, { name: 'robot', scopes }, 'died');
  assert.deepEqual([last.isReplayed, last.json], [true, next.json]);
});

test('a day later the key is free, and what is old goes', async (t) => {
  const { auth, post, scopes, accounts } = await setting(t);
  await post(ACCOUNTS, { name: 'robot', scopes }, 'old');
  await post(ACCOUNTS, { name: 'other', scopes }, 'older');
  await auth.outside.run("update idempotency_keys set created_at = now() - interval '25 hours'");
  const anew = await post(ACCOUNTS, { name: 'robot', scopes }, 'old');
  assert.deepEqual([anew.status, anew.isReplayed], [200, false]);
  assert.deepEqual(await accounts(), ['robot', 'other', 'robot']);
  assert.equal(await purgeKeptAnswers(auth.outside), 1);
  assert.equal((await post(ACCOUNTS, { name: 'robot', scopes }, 'old')).isReplayed, true);
});

test('the answers of one user are bounded: the oldest go, and none of those that run', async (t) => {
  const { auth, ann, post, scopes } = await setting(t);
  await auth.outside.run(
    `insert into idempotency_keys (user_id, endpoint, key_hash, key_id, sealed_key, fingerprint, claim, created_at,
       running_until)
     select $1, 'createToken', int4send(n), 'k', ''::bytea, ''::bytea, 'c', now() - make_interval(secs => 2000 - n),
       case when n = 1 then now() + interval '1 hour' end
     from generate_series(1, 1000) n`,
    [ann.userId],
  );
  assert.equal((await post(ACCOUNTS, { name: 'robot', scopes }, 'newest')).status, 200);
  const [count] = await auth.outside.many(
    z.object({ all: z.number(), oldest: z.number() }),
    `select count(*) as all, count(*) filter (where key_hash in (int4send(1), int4send(2))) as oldest
     from idempotency_keys where user_id = $1`,
    [ann.userId],
  );
  // The very oldest runs.
  assert.deepEqual(count, { all: 1001, oldest: 2 });
  assert.equal((await post(ACCOUNTS, { name: 'another', scopes }, 'newer')).status, 200);
  const rows = await auth.outside.many(
    z.object({ first: z.number() }),
    `select get_byte(key_hash, 3) as first from idempotency_keys where length(key_hash) = 4 order by created_at limit 2`,
  );
  assert.deepEqual(rows, [{ first: 1 }, { first: 3 }]);
});

test('a secret that is being replaced opens what it sealed, and one that is gone is told', async (t) => {
  const { auth, ann } = await setting(t);
  const NEXT = 'the next secret of this test, of over 32 bytes';
  const request = { userId: ann.userId, endpoint: createToken.name, key: 'k', content: 'c' };
  const by = (secret: SharedSecret) => keptAnswers(auth.outside, secret);
  const state = await by(SECRET).begin(request);
  assert.ok(state.kind === 'first');
  await by(SECRET).finish(state.place, { value: 1 });
  const answered = { kind: 'answered', answer: { value: 1 } };
  const rotated: SharedSecret = typeof SECRET === 'string' ? [NEXT, SECRET] : [NEXT, ...SECRET];
  assert.deepEqual(await by(rotated).begin(request), answered);
  assert.deepEqual(await by(NEXT).begin(request), { kind: 'unreadable' });
});

test('documents name the header and the refusals of the endpoints that take a key', () => {
  const { paths } = openapi('Troupe', '1', authEndpoints);
  const text = JSON.stringify(z.looseObject({ [ACCOUNTS]: z.unknown() }).parse(paths)[ACCOUNTS]);
  assert.match(text, /"name":"Idempotency-Key","in":"header","required":false/);
  assert.match(text, /idempotency_key_reused: /);
  assert.ok(!refusals(listTokens).includes('idempotency_key_in_use'));
  assert.ok(!JSON.stringify(z.looseObject({}).parse(paths)['/api/login']).includes('Idempotency-Key'));
});
