import assert from 'node:assert/strict';
import { createSecretKey, generateKeyPairSync } from 'node:crypto';
import { describe, test } from 'node:test';
import { type JWTPayload, SignJWT, UnsecuredJWT } from 'jose';
import { apiTokens, challengeTokens, sessionTokens } from '../../actors/auth/tokens/issue-tokens.ts';
import type { TokenDirectory, TokenGrant } from '../../proto/auth/tokens.ts';
import { authenticator, basic, bearer } from '../../transports/api/authenticate.ts';

const SECRET = 'a secret that is long enough for HS256!';
const clock = { time: Date.parse('2030-01-01T00:00:00Z'), now: () => clock.time };
/** A directory in which everybody is known, and what it is asked. */
const directory: TokenDirectory = {
  grant: async () => undefined,
  knowsUser: async () => true,
  onNews: () => ({ close: async () => {} }),
};
const { authenticate } = authenticator({ secret: SECRET, clock, directory });
const user = { id: 'abcdefghijk1', username: 'ann', isAdmin: true };
const now = () => Math.floor(clock.now() / 1000);

const sign = (
  claims: JWTPayload,
  header: { alg: string; [name: string]: unknown } = { alg: 'HS256' },
  secret = SECRET,
) => new SignJWT(claims).setProtectedHeader(header).sign(createSecretKey(Buffer.from(secret)));
const good = () => ({
  type: 'session',
  user_id: user.id,
  username: 'ann',
  IsAdmin: false,
  jti: 'j1',
  iat: now(),
  exp: now() + 60,
});

test('a session token proves its user, the first time and from the cache', async () => {
  const { token } = await sessionTokens(SECRET, 3600, clock)(user);
  const first = await authenticate(token);
  assert.equal(first?.userId, user.id);
  assert.equal(first?.isAdmin, true);
  assert.equal(first?.kind, 'session');
  assert.equal(authenticate(token), first);
});

test('a token that expires while it is cached proves nobody any more', async () => {
  const { token } = await sessionTokens(SECRET, 60, clock)(user);
  assert.notEqual(await authenticate(token), undefined);
  clock.time += 61_000;
  assert.equal(await authenticate(token), undefined);
});

test('tokens of other kinds, makers and algorithms prove nobody', async () => {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const without = (name: string) => Object.fromEntries(Object.entries(good()).filter(([key]) => key !== name));
  const bad: Record<string, string> = {
    'another secret': await sign(good(), { alg: 'HS256' }, `${SECRET}?`),
    HS512: await sign(good(), { alg: 'HS512' }),
    RS256: await new SignJWT(good()).setProtectedHeader({ alg: 'RS256' }).sign(privateKey),
    'alg none': new UnsecuredJWT(good()).encode(),
    'a critical header we do not know': `${Buffer.from('{"alg":"HS256","crit":["x"],"x":1}').toString('base64url')}.${(await sign(good())).split('.').slice(1).join('.')}`,
    'a registry token': await sign(without('user_id')),
    'no kind': await sign(without('type')),
    'an API token without its prefix': await sign({ ...good(), type: 'api_token' }),
    'a session with the prefix of API tokens': `svc_${await sign(good())}`,
    'no expiry': await sign(without('exp')),
    expired: await sign({ ...good(), exp: now() - 1 }),
    'not yet valid': await sign({ ...good(), nbf: now() + 600 }),
    'an expiry that is no number': await sign({ ...good(), exp: 'soon' } as unknown as JWTPayload).catch(() => 'x'),
    'an id that is none': await sign({ ...good(), user_id: '../../x' }),
    'an admin flag that is no boolean': await sign({ ...good(), IsAdmin: 'true' }),
    'five parts': `${await sign(good())}.x.y`,
    nothing: '',
    noise: 'a.b.c',
    'too long': `${await sign({ ...good(), pad: 'x'.repeat(5000) })}`,
  };
  for (const [name, token] of Object.entries(bad)) assert.equal(await authenticate(token), undefined, name);
  assert.notEqual(await authenticate(await sign(good())), undefined);
});

test('the bearer token is read from the header as RFC 6750 writes it', () => {
  assert.equal(bearer('Bearer abc'), 'abc');
  assert.equal(bearer('bearer  abc '), 'abc');
  for (const header of [undefined, '', 'Bearer', 'Bearer ', 'Basic abc', 'Bearerabc', 'abc'])
    assert.equal(bearer(header), undefined);
});

describe('API tokens', () => {
  const grant: TokenGrant = {
    ...{ userId: user.id, username: 'ann', scopes: { [`compute.${user.id}`]: ['read'] } },
    ...{ serviceAccountId: null, serviceAccount: null, expiresAt: 0 },
  };
  const issue = apiTokens(SECRET, clock);
  const made = (tokenId = 't1', expiresAt?: number) => issue({ tokenId, userId: user.id, expiresAt });

  /** A verifier over a directory that the test changes. */
  function open() {
    const known = new Map([['t1', grant]]);
    const uses: [string, number][] = [];
    const state: { asked: number; hold: Promise<void> | undefined } = { asked: 0, hold: undefined };
    const verifier = authenticator({
      ...{ secret: SECRET, clock, onUse: (id: string, at: number) => void uses.push([id, at]) },
      directory: {
        ...directory,
        grant: async (id) => {
          state.asked++;
          const answer = known.get(id);
          await state.hold;
          return answer;
        },
      },
    });
    return { ...verifier, known, uses, state };
  }

  test('prove what the directory says, asked once in five minutes', async () => {
    const { authenticate, known, state } = open();
    const token = await made();
    const first = await authenticate(token);
    assert.deepEqual([first?.kind, first?.scopes, first?.expiresAt], ['api_token', grant.scopes, 0]);
    assert.equal(authenticate(token), first);
    clock.time += 299_000;
    assert.equal(authenticate(token), first);
    known.set('t1', { ...grant, scopes: {} });
    clock.time += 1000;
    assert.deepEqual((await authenticate(token))?.scopes, {});
    assert.equal(state.asked, 2);
  });

  test('are looked up anew when the clock was set back, and their use is reported on', async () => {
    const { authenticate, known, uses, state } = open();
    const token = await made();
    await authenticate(token);
    known.set('t1', { ...grant, scopes: {} });
    clock.time -= 3_600_000;
    assert.deepEqual((await authenticate(token))?.scopes, {});
    assert.equal(state.asked, 2);
    // The same entry, a little later by a clock that steps once more: it is not silent for as long as the step.
    const before = uses.length;
    clock.time -= 60_000;
    await authenticate(token);
    assert.ok(uses.length > before);
    clock.time += 3_660_000;
  });

  test('are looked up anew after news of them, of their account, of their user, and of anything', async () => {
    const { authenticate, forget, known, state } = open();
    known.set('t1', { ...grant, serviceAccountId: 'a1', serviceAccount: 'robot' });
    const token = await made();
    await authenticate(token);
    for (const news of [
      { kind: 'token', id: 't1' },
      { kind: 'account', id: 'a1' },
      { kind: 'user', id: user.id },
      { kind: 'all' },
    ] as const) {
      const before = state.asked;
      forget(news);
      assert.equal((await authenticate(token))?.tokenId, 't1');
      assert.equal(state.asked, before + 1, news.kind);
    }
    for (const news of [
      { kind: 'token', id: 't2' },
      { kind: 'account', id: 't1' },
      { kind: 'user', id: 'a1' },
    ] as const) {
      const before = state.asked;
      forget(news);
      await authenticate(token);
      assert.equal(state.asked, before, news.kind);
    }
  });

  test('that are deleted while they are being looked up are not remembered', async () => {
    const { authenticate, forget, known, state } = open();
    const token = await made();
    let release = () => {};
    state.hold = new Promise<void>((resolve) => {
      release = resolve;
    });
    const proving = authenticate(token);
    while (state.asked === 0) await new Promise((resolve) => setImmediate(resolve));
    known.delete('t1');
    forget({ kind: 'token', id: 't1' });
    release();
    assert.equal(await proving, undefined);
    assert.equal(await authenticate(token), undefined);
  });

  test('of another user than they say, unknown, or expired prove nobody', async () => {
    const { authenticate, known } = open();
    known.set('t2', { ...grant, userId: 'abcdefghijk2' });
    known.set('t3', { ...grant, expiresAt: now() - 1 });
    known.set('t5', grant);
    for (const id of ['t2', 't3', 't4']) assert.equal(await authenticate(await made(id)), undefined, id);
    assert.equal(await authenticate(await made('t5', now() - 1)), undefined);
    assert.equal(await authenticate(`svc_${await made('t1')}`), undefined);
    assert.equal(await authenticate('svc_'), undefined);
  });

  test('report their use once in five seconds', async () => {
    const { authenticate, uses } = open();
    const token = await made();
    const start = now();
    for (let i = 0; i < 11; i++) {
      await authenticate(token);
      clock.time += 1000;
    }
    assert.deepEqual(
      uses,
      [0, 5, 10].map((after) => ['t1', start + after]),
    );
  });
});

test('a challenge proves who owes the second factor, and is not remembered', async () => {
  const token = await challengeTokens(SECRET, clock)(user);
  assert.equal((await authenticate(token))?.kind, 'challenge');
  assert.ok(authenticate(token) instanceof Promise);
  clock.time += 300_000;
  assert.equal(await authenticate(token), undefined);
});

test('a session of a user who is gone proves nobody, and one that cannot be checked is not refused', async () => {
  const { token } = await sessionTokens(SECRET, 3600, clock)(user);
  const gone = authenticator({ secret: SECRET, clock, directory: { ...directory, knowsUser: async () => false } });
  assert.equal(await gone.authenticate(token), undefined);
  const away = authenticator({
    ...{ secret: SECRET, clock },
    directory: { ...directory, knowsUser: () => Promise.reject(new Error('away')) },
  });
  await assert.rejects(async () => away.authenticate(token), { code: 'unavailable' });
});

test('basic credentials are read as RFC 7617 writes them', () => {
  const of = (text: string) => `Basic ${Buffer.from(text).toString('base64')}`;
  assert.deepEqual(basic(of('ann:se:cret')), { username: 'ann', password: 'se:cret' });
  assert.deepEqual(basic(of(':')), { username: '', password: '' });
  assert.deepEqual(basic(of('änn:pässword 🚀').replace('Basic', 'bAsIc ')), {
    username: 'änn',
    password: 'pässword 🚀',
  });
  assert.equal(basic(undefined), undefined);
  for (const header of [
    'Bearer x',
    'Basic',
    'Basic !',
    of('nocolon'),
    `Basic ${Buffer.of(0xff, 0x3a).toString('base64')}`,
  ])
    assert.throws(() => basic(header), { code: 'invalid_credentials' }, header);
});
