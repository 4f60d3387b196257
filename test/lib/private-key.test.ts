import assert from 'node:assert/strict';
import { Certificate, generateKeyPairSync } from 'node:crypto';
import { test } from 'node:test';
import { readPrivateKey } from '../../lib/private-key.ts';

const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const pem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();

test('a private key is read, whatever call of OpenSSL failed before', () => {
  assert.equal(Certificate.verifySpkac(Buffer.from('none')), false);
  assert.ok(readPrivateKey(pem).equals(privateKey));
});

test('what is no private key, and one with a password, is refused', () => {
  const locked = privateKey.export({ type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'x' });
  for (const bad of ['', pem.slice(0, 60), String(locked)]) assert.throws(() => readPrivateKey(bad));
});
