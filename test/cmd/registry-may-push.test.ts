/** Whom the front of the registry lets push: by what its token says, whoever shows it. */
import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { test } from 'node:test';
import { SignJWT } from 'jose';
import { pushTokens, tokenHolders } from '../../cmd/node/registry/may-push.ts';

const HOST = 'registry.test';
const ISSUER = 'troupe';

const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const keys = () => publicKey;
const mayPush = pushTokens(keys, HOST, ISSUER);

interface Told {
  readonly name?: string;
  readonly actions?: readonly string[];
  readonly host?: string;
  readonly issuer?: string;
  readonly expires?: string;
}

async function bearer({
  name = 'ann/app',
  actions = ['pull', 'push'],
  host = HOST,
  issuer = ISSUER,
  expires = '5m',
}: Told = {}): Promise<string> {
  const token = await new SignJWT({ access: [{ type: 'repository', name, actions }] })
    .setProtectedHeader({ alg: 'ES256' })
    .setSubject('ann')
    .setAudience(host)
    .setIssuer(issuer)
    .setExpirationTime(expires)
    .sign(privateKey);
  return `Bearer ${token}`;
}

test('a token lets push, or delete, in repositories of the user whose they are', async () => {
  assert.equal(await mayPush(await bearer(), 'ann'), true);
  assert.equal(await mayPush(await bearer({ actions: ['delete'] }), 'ann'), true);
  assert.equal(await mayPush(await bearer(), 'bob'), false);
  assert.equal(await mayPush(await bearer({ name: 'annabel/app' }), 'ann'), false, 'a name that begins alike');
  assert.equal(await mayPush(await bearer({ actions: ['pull'] }), 'ann'), false);
});

test('a token of another registry, of another issuer, or an old one lets nothing', async () => {
  for (const other of [{ host: 'other.test' }, { issuer: 'another' }, { expires: '-2m' }])
    assert.equal(await mayPush(await bearer(other), 'ann'), false, JSON.stringify(other));
  for (const nothing of [undefined, '', 'Bearer x', 'Basic eA==']) assert.equal(await mayPush(nothing, 'ann'), false);
  assert.equal(await mayPush(await bearer({ expires: '-30s' }), 'ann'), true, 'clocks differ by up to a minute');
});

test('who has a token to write with is told, and nobody for one to pull with', async () => {
  const holders = tokenHolders(keys, HOST, ISSUER);
  assert.equal((await holders(await bearer())).owner, 'ann');
  assert.equal((await holders(await bearer({ actions: ['pull'] }))).owner, undefined);
});
