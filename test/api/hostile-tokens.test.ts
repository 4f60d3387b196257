/** Tokens as an attacker makes them (RFC 8725): none proves anybody, none costs much. */
import assert from 'node:assert/strict';
import { createHmac, generateKeyPairSync } from 'node:crypto';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { SignJWT } from 'jose';
import { apiTokens, sessionTokens } from '../../actors/auth/tokens/issue-tokens.ts';
import type { TokenDirectory } from '../../proto/auth/tokens.ts';
import { authenticator } from '../../transports/api/authenticate.ts';

const SECRET = 'a secret that is long enough for HS256!';
const user = { id: 'abcdefghijk1', username: 'ann', isAdmin: true };
const clock = { now: Date.now };
const now = Math.floor(Date.now() / 1000);

let asked = 0;
const living = new Set(['t1']);
const directory: TokenDirectory = {
  grant: async (id) => {
    asked++;
    if (!living.has(id)) return undefined;
    return { userId: user.id, username: 'ann', scopes: {}, serviceAccountId: null, serviceAccount: null, expiresAt: 0 };
  },
  knowsUser: async () => {
    asked++;
    return true;
  },
  onNews: () => ({ close: async () => {} }),
};
const open = (secret = SECRET) => authenticator({ secret, clock, directory });

const encode = (value: unknown) =>
  Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url');
/** A token of any header and payload, signed as HS256 would be. */
function forge(header: unknown, payload: unknown, secret: string | Buffer = SECRET): string {
  const body = `${encode(header)}.${encode(payload)}`;
  return `${body}.${createHmac('sha256', secret).update(body).digest('base64url')}`;
}
const HS256 = { alg: 'HS256', typ: 'JWT' };
const claims = {
  type: 'session',
  user_id: user.id,
  username: 'ann',
  IsAdmin: true,
  jti: 'j1',
  iat: now,
  exp: now + 3600,
};

async function refuses(name: string, token: string): Promise<void> {
  assert.equal(await open().authenticate(token), undefined, name);
}

test('what is forged here as the platform forges it is accepted', async () => {
  assert.equal((await open().authenticate(forge(HS256, claims)))?.userId, user.id);
});

describe('no token chooses how it is verified', () => {
  test('without a signature, in any spelling', async () => {
    for (const alg of [
      'none',
      'None',
      'nOnE',
      'NONE',
      'none ',
      '',
      'HS256none',
      null,
      0,
      ['HS256'],
      'hs256',
      'HS 256',
    ]) {
      await refuses(`${alg}, signed`, forge({ ...HS256, alg }, claims));
      await refuses(`${alg}, unsigned`, `${encode({ ...HS256, alg })}.${encode(claims)}.`);
    }
  });

  test('signed with a public key as if it were the secret', async () => {
    for (const { publicKey } of [
      generateKeyPairSync('ec', { namedCurve: 'P-256' }),
      generateKeyPairSync('rsa', { modulusLength: 2048 }),
      generateKeyPairSync('ed25519'),
    ]) {
      await refuses('PEM', forge(HS256, claims, publicKey.export({ type: 'spki', format: 'pem' })));
      await refuses('DER', forge(HS256, claims, publicKey.export({ type: 'spki', format: 'der' })));
    }
    await refuses('an empty secret', forge(HS256, claims, ''));
  });

  test('a key id names no key', async () => {
    for (const kid of [
      '../../dev/null',
      '/etc/passwd',
      "' or 1=1 --",
      'http://192.0.2.1/key',
      '',
      'x'.repeat(2000),
      7,
      null,
      {},
    ])
      await refuses(`kid ${kid}, other secret`, forge({ ...HS256, kid }, claims, ''));
    // Ours have none, and one that is there changes nothing.
    assert.ok(await open().authenticate(forge({ ...HS256, kid: '../../dev/null' }, claims)));
  });

  test('a key that comes with the token, and extensions we do not know', async () => {
    const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    const jwk = publicKey.export({ format: 'jwk' });
    for (const header of [
      { jwk },
      { jku: 'http://192.0.2.1/keys' },
      { x5u: 'http://192.0.2.1/cert' },
      { x5c: ['AAAA'] },
    ]) {
      await refuses(
        'ES256',
        await new SignJWT(claims).setProtectedHeader({ alg: 'ES256', ...header }).sign(privateKey),
      );
      await refuses('HS256 with the foreign key', forge({ ...HS256, ...header }, claims, JSON.stringify(jwk)));
    }
    await refuses('oct jwk', forge({ ...HS256, jwk: { kty: 'oct', k: encode('mine') } }, claims, 'mine'));
    for (const crit of [['exp'], ['b64'], ['x'], [], 'x', null])
      await refuses(`crit ${crit}`, forge({ ...HS256, crit, x: 1, b64: false }, claims));
    await refuses(
      'encrypted',
      [encode({ alg: 'dir', enc: 'A256GCM' }), '', encode('iv'), encode('text'), encode('tag')].join('.'),
    );
  });
});

describe('no token is more than it is', () => {
  test('of another kind, or without one', async () => {
    for (const type of ['refresh', 'registry', 'api_token', 'Session', 'session ', '', null, undefined, 1, ['session']])
      await refuses(`type ${type}`, forge(HS256, { ...claims, type }));
    const { user_id: _, ...nobody } = claims;
    await refuses('a registry token', forge(HS256, { ...nobody, iss: 'troupe', aud: 'registry', access: [] }));
    await refuses(
      'a WebAuthn state',
      forge({ ...HS256, typ: 'wa-state' }, { sub: user.id, purpose: 'login', jti: 'j', exp: now + 300 }),
    );
  });

  test('with times that are none, or not yet', async () => {
    for (const exp of [undefined, null, '', String(now + 60), 'soon', -1, 0, now - 1, {}, [now + 60], true])
      await refuses(`exp ${exp}`, forge(HS256, { ...claims, exp }));
    await refuses('exp 1e309', forge(HS256, JSON.stringify(claims).replace(/"exp":\d+/, '"exp":1e309')));
    for (const nbf of [now + 600, '0', null, {}]) await refuses(`nbf ${nbf}`, forge(HS256, { ...claims, nbf }));
    for (const iat of ['0', null, {}, undefined]) await refuses(`iat ${iat}`, forge(HS256, { ...claims, iat }));
  });

  test('a node whose clock is 90 seconds ahead makes tokens that hold here', async () => {
    const { token } = await sessionTokens(SECRET, 3600, { now: () => Date.now() + 90_000 })(user);
    assert.ok(await open().authenticate(token));
  });

  test('written in a way that two readers may read in two ways', async () => {
    const text = JSON.stringify(claims);
    const twice = text.replace('"IsAdmin":true', '"IsAdmin":false,"IsAdmin":"true"');
    await refuses('a claim twice, the last of the wrong type', forge(HS256, twice));
    await refuses('trailing bytes', forge(HS256, `${text}x`));
    await refuses('no object', forge(HS256, '[]'));
    await refuses(
      'a payload that is no UTF-8',
      `${forge(HS256, claims).split('.')[0]}.${Buffer.of(0xff, 0xfe).toString('base64url')}.x`,
    );
    const polluted = forge(HS256, text.replace('{', '{"__proto__":{"isAdmin":true,"scopes":{"compute":["read"]}},'));
    const caller = await open().authenticate(polluted);
    assert.ok(
      caller === undefined || (caller.scopes === undefined && Object.getPrototypeOf(caller) === Object.prototype),
    );
    assert.equal(Reflect.get({}, 'isAdmin'), undefined);
    const good = forge(HS256, claims);
    for (const bad of [
      `${good}.`,
      `${good}.x.y`,
      `.${good}`,
      `${good}=`,
      `${good} `,
      `${good}\n`,
      good.replace('.', '..'),
      good.replaceAll('.', ' '),
    ])
      await refuses(JSON.stringify(bad.slice(-8)), bad);
  });

  test('the spellings that base64url leaves open are one token, and end together', async () => {
    const token = await apiTokens(SECRET, clock)({ tokenId: 't1', userId: user.id, expiresAt: undefined });
    const last = token.at(-1) ?? '';
    const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
    // A signature of 32 bytes leaves two bits of its last character unused.
    const twins = [0, 1, 2, 3].map((bits) => token.slice(0, -1) + alphabet[(alphabet.indexOf(last) & ~3) | bits]);
    const { authenticate, forget } = open();
    const proven = await Promise.all(twins.map(async (twin) => (await authenticate(twin))?.tokenId));
    assert.ok(proven.includes('t1') && proven.every((id) => id === undefined || id === 't1'));
    living.delete('t1');
    forget({ kind: 'token', id: 't1' });
    for (const twin of twins) assert.equal(await authenticate(twin), undefined);
    living.add('t1');
  });

  test('very long, answered without a look', () => {
    const long = forge(HS256, { ...claims, pad: 'x'.repeat(5 * 1024 * 1024) });
    assert.equal(open().authenticate(long), undefined);
    assert.equal(open().authenticate('x'.repeat(4097)), undefined);
    assert.equal(open().authenticate(`svc_${'.'.repeat(4096)}`), undefined);
  });

  test('signed with a secret that was replaced', async () => {
    const { token } = await sessionTokens(SECRET, 3600, clock)(user);
    assert.equal(await open(`${SECRET} and another`).authenticate(token), undefined);
  });

  test('noise, and every change of one character, proves nobody and asks storage nothing', async () => {
    const { authenticate } = open();
    const before = asked;
    await fc.assert(
      fc.asyncProperty(fc.oneof(fc.string(), fc.string({ unit: 'binary' }), fc.base64String()), async (noise) => {
        for (const token of [
          noise,
          `svc_${noise}`,
          `${noise}.${noise}.${noise}`,
          `${forge(HS256, claims)}${noise || '!'}`,
        ])
          assert.equal(await authenticate(token), undefined);
      }),
    );
    const good = forge(HS256, claims);
    const head = good.lastIndexOf('.');
    for (let at = 0; at < head; at++) {
      const changed = good.slice(0, at) + (good[at] === 'A' ? 'B' : 'A') + good.slice(at + 1);
      assert.equal(await authenticate(changed), undefined, `at ${at}`);
    }
    assert.equal(asked, before);
  });
});
