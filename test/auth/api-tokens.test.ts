import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { noteUse, startLastUse } from '../../actors/auth/tokens/last-use.ts';
import { addUser } from '../../actors/auth/users/users.ts';
import {
  checkToken,
  createServiceAccount,
  createServiceAccountToken,
  createToken,
  deleteServiceAccount,
  deleteToken,
  getServiceAccount,
  listServiceAccounts,
  listServiceAccountTokens,
  listTokens,
  MAX_SERVICE_ACCOUNTS,
  MAX_TOKENS,
  setServiceAccountScopes,
} from '../../proto/auth/api-tokens.ts';
import type { TokenNews } from '../../proto/auth/tokens.ts';
import type { Caller } from '../../proto/endpoint.ts';
import { decodeNotification, NOTIFICATIONS_STREAM } from '../../proto/notify/notification.ts';
import { readAudit } from '../../storage/audit.ts';
import { recordUses } from '../../storage/auth/api-tokens.ts';
import { tokenDirectory } from '../../storage/auth/token-directory.ts';
import { stats, stop, stopped } from '../../supervision/index.ts';
import { authenticator } from '../../transports/api/authenticate.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { silentLog } from '../support/log.ts';
import { type AuthUnderTest, openAuth, PASSWORD } from '../support/service/auth.ts';
import { refused } from '../support/service/calls.ts';
import { SECRET } from '../support/service/node.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const seconds = () => Math.floor(Date.now() / 1000);

/** Ann with a service account and its token. */
async function withAccount(auth: AuthUnderTest) {
  const ann = await auth.enter('ann');
  const scope = `compute.${ann.userId}.containers`;
  const account = await auth.call(createServiceAccount, ann, {
    body: { name: 'robot', scopes: { [scope]: ['read'] } },
  });
  const params = { id: account.id };
  const token = await auth.call(createServiceAccountToken, ann, { params, body: { name: 'ci' } });
  return { ann, scope, account, params, token };
}

describe('API tokens', () => {
  test('are shown once, listed, and prove their user with their scopes', async (t) => {
    const auth = await openAuth(t);
    const ann = await auth.enter('ann');
    const scopes = { [`compute.${ann.userId}.containers`]: ['read', 'start', 'read'] };
    const before = seconds();
    const { token, ...made } = await auth.call(createToken, ann, { body: { name: 'ci', scopes } });
    assert.match(token, /^svc_[\w-]+\.[\w-]+\.[\w-]+$/);
    assert.deepEqual(made.scopes, { [`compute.${ann.userId}.containers`]: ['read', 'start'] });
    assert.deepEqual([made.name, made.expires_at, made.last_used_at], ['ci', 0, 0]);
    assert.ok(made.created_at >= before && made.created_at <= seconds());

    const [listed, ...others] = await auth.call(listTokens, ann);
    assert.deepEqual(others, []);
    assert.deepEqual({ ...listed, created_at: made.created_at }, { ...made, service_account_id: null });

    const caller = await auth.prove(token);
    assert.deepEqual(caller, {
      ...{ kind: 'api_token', userId: ann.userId, username: 'ann', isAdmin: false, tokenId: made.id },
      ...{ expiresAt: 0, scopes: made.scopes, serviceAccount: null },
    });
    assert.deepEqual(await auth.call(checkToken, undefined, { params: { id: made.id } }), { status: 'valid' });
  });

  test('live as long as was asked', async (t) => {
    const auth = await openAuth(t);
    const ann = await auth.enter('ann');
    for (const [expires_in, days] of Object.entries({ '30d': 30, '90d': 90, '365d': 365, never: 0 })) {
      const made = await auth.call(createToken, ann, { body: { name: expires_in, scopes: readsOf(ann), expires_in } });
      const expected = days === 0 ? 0 : made.created_at + days * 86_400;
      assert.ok(Math.abs(made.expires_at - expected) <= 1, expires_in);
      const listed = (await auth.call(listTokens, ann)).find(({ id }) => id === made.id);
      assert.equal(listed?.expires_at, made.expires_at);
      assert.ok(await auth.prove(made.token));
      auth.clock.advance((days || 4000) * 86_400_000 - 5000);
      assert.ok(await auth.prove(made.token), `${expires_in}, almost over`);
      auth.clock.advance(10_000);
      assert.equal((await auth.prove(made.token)) === undefined, days !== 0, `${expires_in}, over`);
      auth.clock.advance(-(days || 4000) * 86_400_000 - 5000);
    }
    for (const expires_in of ['', '1d', '30D', 30, 'forever', null])
      await refused(
        'invalid_request',
        (async () => auth.call(createToken, ann, { body: { name: 'x', scopes: readsOf(ann), expires_in } }))(),
      );
  });

  test('must grant something, since what they grant never changes; a service account may be empty', async (t) => {
    const auth = await openAuth(t);
    const ann = await auth.enter('ann');
    for (const scopes of [{}, { [`compute.${ann.userId}`]: [] }]) {
      const refusal = await refused('invalid_request', auth.call(createToken, ann, { body: { name: 'x', scopes } }));
      assert.match(refusal.message, /^The request body is not valid: "scopes" must grant something/);
      assert.equal(refusal.fields?.[0]?.path, 'scopes');
    }
    assert.deepEqual(await auth.call(listTokens, ann), []);
    assert.deepEqual((await auth.call(createServiceAccount, ann, { body: { name: 'x', scopes: {} } })).scopes, {});
  });

  test('have names of 1 to 64 characters, counted as people count them', async (t) => {
    const auth = await openAuth(t);
    const ann = await auth.enter('ann');
    const make = async (name: unknown) => auth.call(createToken, ann, { body: { name, scopes: readsOf(ann) } });
    for (const name of ['a', 'a'.repeat(64), '🚀'.repeat(64), 'Ünï code', "'; drop table api_tokens; --"])
      assert.equal((await make(name)).name, name);
    for (const name of ['', ' ', 'a'.repeat(65), '🚀'.repeat(65), 'a\0', 'a\nb', 7, null, undefined])
      await refused('invalid_request', make(name));
  });

  test('take no scopes that are none of the caller', async (t) => {
    const auth = await openAuth(t);
    const ann = await auth.enter('ann');
    await addUser(auth.outside, 'bob', PASSWORD);
    const bob = await auth.enter('bob');
    for (const scopes of [
      { [`compute.${bob.userId}`]: ['read'] },
      { compute: ['read'] },
      { [`compute.${ann.userId}`]: ['fly'] },
      { [`compute.${ann.userId}`]: 'read' },
      [`compute.${ann.userId}`],
      null,
      'all',
    ]) {
      const refusal = await refused(
        'invalid_request',
        (async () => auth.call(createToken, ann, { body: { name: 'x', scopes } }))(),
      );
      assert.match(refusal.fields?.[0]?.path ?? '', /^scopes/);
    }
    assert.deepEqual(await auth.call(listTokens, ann), []);
  });

  test('prove nobody once deleted, at once on this node', async (t) => {
    const auth = await openAuth(t);
    const ann = await auth.enter('ann');
    const made = await auth.call(createToken, ann, { body: { name: 'ci', scopes: readsOf(ann) } });
    const params = { id: made.id };
    assert.ok(await auth.prove(made.token));
    assert.deepEqual(await auth.call(deleteToken, ann, { params }), { status: 'ok' });
    assert.equal(await auth.prove(made.token), undefined);
    assert.deepEqual(auth.news, [{ kind: 'token', id: made.id }]);
    await refused('not_found', auth.call(deleteToken, ann, { params }));
    await refused('not_found', auth.call(checkToken, undefined, { params }));
    assert.deepEqual(await auth.call(listTokens, ann), []);
  });

  test('that are deleted are heard of on every node, within a second', async (t) => {
    const auth = await openAuth(t);
    const { ann, params, token } = await withAccount(auth);
    const elsewhere = tokenDirectory(auth.outside);
    const there = authenticator({ secret: SECRET, clock: auth.clock, directory: elsewhere });
    const heard: TokenNews[] = [];
    const listening = elsewhere.onNews((news) => {
      heard.push(news);
      there.forget(news);
    });
    t.after(() => listening.close());
    // Listening begins with "news may have been missed".
    await until(() => heard.length === 1, { what: 'the other node listens' });
    const own = await auth.call(createToken, ann, { body: { name: 'own', scopes: readsOf(ann) } });
    assert.ok((await there.authenticate(own.token)) && (await there.authenticate(token.token)));
    await auth.call(deleteToken, ann, { params: { id: own.id } });
    await auth.call(setServiceAccountScopes, ann, { params, body: { scopes: {} } });
    await until(() => heard.length === 3, { what: 'the news comes', timeoutMs: 1000 });
    assert.deepEqual(heard, [{ kind: 'all' }, { kind: 'token', id: own.id }, { kind: 'account', id: params.id }]);
    assert.equal(await there.authenticate(own.token), undefined);
    assert.deepEqual((await there.authenticate(token.token))?.scopes, {});
  });

  test('of another user are not there', async (t) => {
    const auth = await openAuth(t);
    const { account, token, ann } = await withAccount(auth);
    await addUser(auth.outside, 'bob', PASSWORD);
    const bob = await auth.enter('bob');
    const params = { id: account.id };
    await refused('not_found', auth.call(deleteToken, bob, { params: { id: token.id } }));
    await refused('not_found', auth.call(getServiceAccount, bob, { params }));
    await refused('not_found', auth.call(deleteServiceAccount, bob, { params }));
    await refused('not_found', auth.call(listServiceAccountTokens, bob, { params }));
    await refused('not_found', auth.call(createServiceAccountToken, bob, { params, body: { name: 'x' } }));
    await refused('not_found', auth.call(setServiceAccountScopes, bob, { params, body: { scopes: {} } }));
    assert.deepEqual([await auth.call(listTokens, bob), await auth.call(listServiceAccounts, bob)], [[], []]);
    assert.ok(await auth.prove(token.token));
    assert.equal((await auth.call(getServiceAccount, ann, { params })).token_count, 1);
  });

  test('of a user who is gone prove nobody', async (t) => {
    const auth = await openAuth(t);
    const ann = await auth.enter('ann');
    const { token } = await auth.call(createToken, ann, { body: { name: 'ci', scopes: readsOf(ann) } });
    await auth.outside.run('delete from users');
    assert.equal(await auth.prove(token), undefined);
  });

  test('are at most a hundred, also of many requests at once; expired ones do not count', async (t) => {
    const auth = await openAuth(t);
    const ann = await auth.enter('ann');
    const make = () => auth.call(createToken, ann, { body: { name: 'x', scopes: readsOf(ann) } });
    await auth.outside.run(
      `insert into api_tokens (id, user_id, name, scopes, expires_at)
       select 't' || lpad(n::text, 11, '0'), $1, 'old', '{}', now() - interval '1 hour' * (n % 2)
       from generate_series(1, $2) n`,
      [ann.userId, 2 * (MAX_TOKENS - 3)],
    );
    await auth.outside.run(`update api_tokens set expires_at = null where expires_at > now() - interval '1 minute'`);
    const outcomes = await Promise.allSettled(Array.from({ length: 10 }, make));
    assert.equal(outcomes.filter(({ status }) => status === 'fulfilled').length, 3);
    await refused('limit_reached', make());
  });

  test('remember their last use, written down in one go', async (t) => {
    const auth = await openAuth(t);
    const ann = await auth.enter('ann');
    const make = () => auth.call(createToken, ann, { body: { name: 'ci', scopes: readsOf(ann) } });
    const [one, two] = [await make(), await make()];
    const actor = startLastUse(auth.system, { db: auth.db, log: silentLog });
    for (let at = 1000; at <= 1100; at++) noteUse(actor, one.id, at);
    noteUse(actor, two.id, 2000);
    noteUse(actor, 'z00000000000', 2000);
    await until(() => stats(auth.system).kinds['auth/last-use']?.handled === 103, { what: 'all uses are heard' });
    stop(actor);
    await stopped(actor);
    const uses = async () => (await auth.call(listTokens, ann)).map(({ last_used_at }) => last_used_at);
    assert.deepEqual(await uses(), [1100, 2000]);
    // A node that is late does not turn time back.
    await recordUses(auth.db, new Map([[two.id, 1500]]));
    assert.deepEqual(await uses(), [1100, 2000]);
  });
});

describe('service accounts', () => {
  test('are made, listed, changed and deleted, with their tokens', async (t) => {
    const auth = await openAuth(t);
    const { ann, scope, account, params, token } = await withAccount(auth);
    assert.deepEqual(
      { ...account, created_at: 0 },
      { id: account.id, name: 'robot', scopes: { [scope]: ['read'] }, token_count: 0, created_at: 0 },
    );
    assert.deepEqual(Object.keys(token).sort(), ['created_at', 'expires_at', 'id', 'last_used_at', 'name', 'token']);
    assert.deepEqual(await auth.call(getServiceAccount, ann, { params }), { ...account, token_count: 1 });
    assert.deepEqual(await auth.call(listServiceAccounts, ann), [{ ...account, token_count: 1 }]);
    const { token: secret, ...shown } = token;
    assert.deepEqual(await auth.call(listServiceAccountTokens, ann, { params }), [shown]);
    const [inAll] = await auth.call(listTokens, ann);
    assert.deepEqual(inAll, { ...shown, scopes: account.scopes, service_account_id: account.id });
    assert.deepEqual((await auth.prove(secret))?.serviceAccount, { id: account.id, name: 'robot' });
    assert.deepEqual(await auth.call(checkToken, undefined, { params: { id: token.id } }), {
      status: 'valid',
      scopes: account.scopes,
    });

    const scopes = { [scope]: ['start'] };
    assert.deepEqual(await auth.call(setServiceAccountScopes, ann, { params, body: { scopes } }), { status: 'ok' });
    assert.deepEqual((await auth.prove(secret))?.scopes, scopes);
    assert.deepEqual((await auth.call(checkToken, undefined, { params: { id: token.id } })).scopes, scopes);

    assert.deepEqual(await auth.call(deleteServiceAccount, ann, { params }), { status: 'ok' });
    assert.equal(await auth.prove(secret), undefined);
    await refused('not_found', auth.call(checkToken, undefined, { params: { id: token.id } }));
    await refused('not_found', auth.call(deleteServiceAccount, ann, { params }));
    assert.deepEqual([await auth.call(listTokens, ann), await auth.call(listServiceAccounts, ann)], [[], []]);
  });

  test('hear of scopes that another node changed when five minutes are over, without any news', async (t) => {
    const auth = await openAuth(t);
    const { ann, scope, account, token } = await withAccount(auth);
    assert.deepEqual((await auth.prove(token.token))?.scopes, account.scopes);
    await auth.outside.run(`update service_accounts set scopes = '{}'`);
    auth.clock.advance(299_000);
    assert.deepEqual((await auth.prove(token.token))?.scopes, { [scope]: ['read'] });
    auth.clock.advance(1001);
    assert.deepEqual((await auth.prove(token.token))?.scopes, {});
    assert.equal(ann.username, 'ann');
  });

  test('take scopes of their user only, and no scopes for a token', async (t) => {
    const auth = await openAuth(t);
    const { ann, params } = await withAccount(auth);
    const other = { 'compute.zzzzzzzzzzz9': ['read'] };
    await refused('invalid_request', auth.call(createServiceAccount, ann, { body: { name: 'x', scopes: other } }));
    await refused('invalid_request', auth.call(setServiceAccountScopes, ann, { params, body: { scopes: other } }));
    for (const body of [{ name: 'x' }, { scopes: {} }, { name: 'a'.repeat(65), scopes: {} }, {}])
      await refused('invalid_request', (async () => auth.call(createServiceAccount, ann, { body }))());
    // What a request says beyond its fields changes nothing (mass assignment).
    const body = { name: 'x', scopes: { [`compute.${ann.userId}`]: ['delete'] }, user_id: 'zzzzzzzzzzz9', id: 'a' };
    const token = await auth.call(createServiceAccountToken, ann, { params, body });
    const caller = await auth.prove(token.token);
    assert.deepEqual(
      [caller?.userId, caller?.scopes],
      [ann.userId, { [`compute.${ann.userId}.containers`]: ['read'] }],
    );
  });

  test('are at most a hundred a user', async (t) => {
    const auth = await openAuth(t);
    const ann = await auth.enter('ann');
    await auth.outside.run(
      `insert into service_accounts (id, user_id, name, scopes) select 's' || lpad(n::text, 11, '0'), $1, 'x', '{}'
       from generate_series(1, $2) n`,
      [ann.userId, MAX_SERVICE_ACCOUNTS],
    );
    await refused('limit_reached', auth.call(createServiceAccount, ann, { body: { name: 'x', scopes: {} } }));
  });

  test('tell their user when they come and go', async (t) => {
    const auth = await openAuth(t);
    await auth.bus.ensureStream(NOTIFICATIONS_STREAM);
    const { ann, params } = await withAccount(auth);
    await auth.call(deleteServiceAccount, ann, { params });
    const told: { subject: string; text: string }[] = [];
    const consumer = { durable: 'test', ackWaitMs: 30_000, maxDeliver: 5, maxAckPending: 10 };
    const consuming = await auth.bus.consume(NOTIFICATIONS_STREAM.name, consumer, async (batch) => {
      for (const message of batch) {
        const { userId, title, message: text, category, scope, metadata } = decodeNotification(message.data);
        told.push({
          subject: message.subject,
          text: [userId, title, text, category, scope, metadata.source].join('|'),
        });
        await message.ack();
      }
    });
    await until(() => told.length === 2, { what: 'both are told' });
    await consuming.close();
    const subject = `notify.${ann.userId}`;
    assert.deepEqual(told, [
      { subject, text: `${ann.userId}|Service account created|The service account "robot" was created.|auth||auth` },
      {
        subject,
        text: `${ann.userId}|Service account deleted|The service account "robot" and its tokens are gone.|auth||auth`,
      },
    ]);
  });
});

test('what was done with tokens and accounts stands in the audit trail, without a secret', async (t) => {
  const auth = await openAuth(t);
  const { ann, account, params, token } = await withAccount(auth);
  await auth.call(setServiceAccountScopes, ann, { params, body: { scopes: {} } });
  await auth.call(deleteToken, ann, { params: { id: token.id }, address: '192.0.2.77' });
  await auth.call(deleteServiceAccount, ann, { params });
  const entries = (await readAudit(auth.db, { username: 'ann', limit: 100 })).filter(({ action }) =>
    /token|account/.test(action),
  );
  assert.deepEqual(
    entries.map(({ action, target }) => `${action} ${target}`),
    [
      `service_account.create ${account.id}`,
      `token.create ${token.id}`,
      `service_account.set_scopes ${account.id}`,
      `token.delete ${token.id}`,
      `service_account.delete ${account.id}`,
    ],
  );
  assert.deepEqual(
    [entries[3]?.address, entries[3]?.userId, entries[3]?.requestId],
    ['192.0.2.77', ann.userId, 'test'],
  );
  assert.ok(!JSON.stringify(entries).includes(token.token.slice(4)));
});

test('when the database is away, a token that is not known yet cannot be checked, and is not refused', async (t) => {
  const auth = await openAuth(t);
  const { token } = await withAccount(auth);
  await auth.prove(token.token);
  auth.db.failure = new Error('away');
  assert.ok(await auth.prove(token.token));
  auth.clock.advance(300_001);
  await refused('unavailable', auth.prove(token.token));
});

const readsOf = ({ userId }: Caller) => ({ [`compute.${userId}`]: ['read'] });
