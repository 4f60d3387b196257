/** The key that signs registry tokens: what is taken, its name, and its certificate. */
import assert from 'node:assert/strict';
import { createPrivateKey, generateKeyPairSync, type KeyObject, X509Certificate } from 'node:crypto';
import { test } from 'node:test';
import {
  certificateBundle,
  keyId,
  parseRegistryKey,
  RegistryKeyError,
  registrySigner,
} from '../../actors/auth/registry/registry-key.ts';
import { testDatabase } from '../support/database/database.ts';
import { failOnLeaks } from '../support/leaks.ts';

failOnLeaks();

const ec = (namedCurve = 'P-256') => generateKeyPairSync('ec', { namedCurve }).privateKey;
const pem = (key: KeyObject, type: 'pkcs8' | 'sec1' = 'pkcs8') => key.export({ type, format: 'pem' }).toString();

async function database(t: { after(end: () => Promise<void>): void }) {
  const { db, close } = await testDatabase();
  t.after(close);
  return db;
}

test('an EC P-256 key is taken in both forms of PEM', () => {
  const key = ec();
  const parameters = '-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n';
  for (const text of [pem(key), pem(key, 'sec1'), parameters + pem(key, 'sec1'), `notes\n${pem(key)}\n\n`]) {
    const parsed = parseRegistryKey(text);
    assert.ok(parsed.privateKey.equals(key));
    assert.equal(parsed.kid, keyId(key));
    assert.deepEqual(parsed.chain, []);
  }
});

test('its id is the one of the token specification', () => {
  // The example key of CNCF Distribution's "Token Authentication Implementation".
  const key = {
    kty: 'EC',
    crv: 'P-256',
    d: 'R7OnbfMaD5J2jl7GeE8ESo7CnHSBm_1N2k9IXYFrKJA',
    x: 'm7zUpx3b-zmVE5cymSs64POG9QcyEpJaYCD82-549_Q',
    y: 'dU3biz8sZ_8GPB-odm8Wxz3lNDr1xcAQQPQaOcr1fmc',
  };
  assert.equal(
    keyId(createPrivateKey({ format: 'jwk', key })),
    'PYYO:TEWU:V7JH:26JV:AQTZ:LJC3:SXVJ:XGHA:34F2:2LAQ:ZRMK:Z7Q6',
  );
});

test('any other key is refused with what was expected, and never shown', () => {
  const locked = ec().export({ type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'x' }).toString();
  const lockedOld = ec().export({ type: 'sec1', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'x' }).toString();
  const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey;
  const publicOnly = generateKeyPairSync('ec', { namedCurve: 'P-256' }).publicKey;
  const cases: [text: string, expected: RegExp][] = [
    ['', /one PEM private key/],
    ['nonsense', /one PEM private key/],
    [publicOnly.export({ type: 'spki', format: 'pem' }).toString(), /one PEM private key/],
    [pem(ec()) + pem(ec()), /one PEM private key/],
    [lockedOld, /without a password/],
    [locked, /without a password/],
    ['-----BEGIN PRIVATE KEY-----\nMIGH\n-----END PRIVATE KEY-----', /must be a PEM private key/],
    [pem(ec('P-384')), /on the curve P-256/],
    [pem(ec('secp256k1')), /on the curve P-256/],
    [pem(rsa), /on the curve P-256/],
    [pem(generateKeyPairSync('ed25519').privateKey), /on the curve P-256/],
    [`${pem(ec())}-----BEGIN CERTIFICATE-----\nMIGH\n-----END CERTIFICATE-----`, /certificate that cannot be read/],
  ];
  for (const [text, expected] of cases) {
    assert.throws(
      () => parseRegistryKey(text),
      (error) => {
        assert.ok(error instanceof RegistryKeyError, String(error));
        assert.match(error.message, expected);
        assert.ok(!error.message.includes('\n'));
        return true;
      },
    );
  }
});

test('its certificate is made once, for all nodes and starts, and is good for its key', async (t) => {
  const db = await database(t);
  const key = parseRegistryKey(pem(ec()));
  const [first, ...others] = await Promise.all(Array.from({ length: 4 }, () => registrySigner(db, key)));
  assert.ok(first);
  for (const other of [...others, await registrySigner(db, parseRegistryKey(pem(key.privateKey, 'sec1')))])
    assert.deepEqual(other.chain, first.chain);
  assert.equal(first.chain.length, 1);
  const certificate = new X509Certificate(certificateBundle(first));
  assert.ok(certificate.checkPrivateKey(key.privateKey));
  assert.ok(certificate.verify(certificate.publicKey));
  assert.equal(certificate.subject, 'CN=Troupe registry tokens');
  assert.equal(certificate.ca, false);
  assert.equal(new Date(certificate.validTo).getUTCFullYear(), 9999);
  assert.ok(new Date(certificate.validFrom).getTime() < Date.now());
});

test('another key has a certificate of its own, and going back finds the first', async (t) => {
  const db = await database(t);
  const [one, two] = [parseRegistryKey(pem(ec())), parseRegistryKey(pem(ec()))];
  const first = await registrySigner(db, one);
  const second = await registrySigner(db, two);
  assert.notEqual(first.kid, second.kid);
  assert.ok(new X509Certificate(certificateBundle(second)).checkPrivateKey(two.privateKey));
  assert.deepEqual((await registrySigner(db, one)).chain, first.chain);
});

test('a chain that comes with the key is used, and must begin with the key’s certificate', async (t) => {
  const db = await database(t);
  const [key, issuer] = [parseRegistryKey(pem(ec())), parseRegistryKey(pem(ec()))];
  const own = certificateBundle(await registrySigner(db, key));
  const above = certificateBundle(await registrySigner(db, issuer));
  const given = parseRegistryKey(own + pem(key.privateKey) + above);
  assert.equal(given.chain.length, 2);
  const signer = await registrySigner(db, given);
  assert.deepEqual(signer.chain, given.chain);
  assert.equal(certificateBundle(signer), own + above);
  assert.throws(() => parseRegistryKey(pem(key.privateKey) + above + own), /first certificate that is not of the key/);
});
