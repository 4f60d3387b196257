import assert from 'node:assert/strict';
import { createSecretKey, generateKeyPairSync } from 'node:crypto';
import { test } from 'node:test';
import { type JWTPayload, SignJWT, UnsecuredJWT } from 'jose';
import { sessionTokens } from '../../actors/auth/issue-tokens.ts';
import type { TokenDirectory } from '../../proto/tokens.ts';
import { authenticator, bearer } from '../../transports/api/authenticate.ts';

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
