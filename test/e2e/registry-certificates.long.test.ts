/** Which certificates a real registry takes tokens by: what docs/reference/registry.md says of chains and of changing the key. */
import assert from 'node:assert/strict';
import { generateKeyPairSync, type KeyObject, randomBytes } from 'node:crypto';
import { test } from 'node:test';
import 'reflect-metadata';
import { BasicConstraintsExtension, X509Certificate, X509CertificateGenerator } from '@peculiar/x509';
import {
  certificateBundle,
  parseRegistryKey,
  type RegistryKey,
  registrySigner,
} from '../../actors/auth/registry/registry-key.ts';
import { registryTokens } from '../../actors/auth/registry/registry-tokens.ts';
import { testDatabase } from '../support/database/database.ts';
import { type RunningRegistry, startRegistry } from '../support/engine/troupe-registry.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { skipWithout } from '../support/require.ts';
import { type Cleanup, freePort } from '../support/temp.ts';

failOnLeaks();

const SERVICE = 'registry.test';
const ISSUER = 'troupe';
const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const;
const skip = skipWithout('docker-registry');

const newKey = () => generateKeyPairSync('ec', { namedCurve: 'P-256' });
const pemOf = (key: KeyObject) => key.export({ type: 'pkcs8', format: 'pem' }).toString();

async function registryWith(t: Cleanup, bundle: string): Promise<RunningRegistry> {
  const realm = 'http://127.0.0.1:1/v2/token';
  return startRegistry(t, { port: await freePort(), realm, service: SERVICE, issuer: ISSUER, bundle });
}

/** What the registry answers to a token by this key. */
async function statusBy(registry: RunningRegistry, { privateKey, kid, chain }: RegistryKey): Promise<number> {
  const issue = registryTokens({
    ...{ clock: { now: Date.now }, issuer: ISSUER, jwtSecret: 'not used', signer: { privateKey, kid, chain } },
  });
  const { token } = await issue({ subject: 'ann', service: SERVICE, access: [] });
  return (await fetch(`${registry.url}/v2/`, { headers: { authorization: `Bearer ${token}` } })).status;
}

/** A certificate for `of`'s public key, signed by `by`. */
async function certificate(name: string, of: KeyObject, issuer: string, by: KeyObject, isCa: boolean): Promise<string> {
  const made = await X509CertificateGenerator.create({
    serialNumber: `01${randomBytes(8).toString('hex')}`,
    subject: `CN=${name}`,
    issuer: `CN=${issuer}`,
    notBefore: new Date(Date.now() - 60_000),
    notAfter: new Date(Date.now() + 3_600_000),
    signingAlgorithm: ALGORITHM,
    publicKey: await crypto.subtle.importKey('spki', of.export({ type: 'spki', format: 'der' }), ALGORITHM, true, []),
    signingKey: await crypto.subtle.importKey('pkcs8', by.export({ type: 'pkcs8', format: 'der' }), ALGORITHM, false, [
      'sign',
    ]),
    extensions: [new BasicConstraintsExtension(isCa, undefined, true)],
  });
  return `${new X509Certificate(made.rawData).toString('pem')}\n`;
}

test('a chain that ends at a certificate of the bundle is taken', { skip }, async (t) => {
  const [root, middle, own] = [newKey(), newKey(), newKey()];
  const rootPem = await certificate('root', root.publicKey, 'root', root.privateKey, true);
  const middlePem = await certificate('middle', middle.publicKey, 'root', root.privateKey, true);
  const ownPem = await certificate('own', own.publicKey, 'middle', middle.privateKey, false);
  const registry = await registryWith(t, rootPem);
  const given = (...certificates: string[]) => parseRegistryKey(pemOf(own.privateKey) + certificates.join(''));
  assert.equal(await statusBy(registry, given(ownPem, middlePem)), 200);
  assert.equal(await statusBy(registry, given(ownPem, middlePem, rootPem)), 200);
  assert.equal(await statusBy(registry, given(ownPem)), 401, 'the middle is missing');
  const printed = await registryWith(t, certificateBundle(given(ownPem, middlePem)));
  assert.equal(await statusBy(printed, given(ownPem, middlePem)), 200, 'what the command prints is enough');
});

test('a bundle of several certificates takes tokens by each of their keys, and by no other', { skip }, async (t) => {
  const { db, close } = await testDatabase();
  t.after(close);
  const signer = () => registrySigner(db, parseRegistryKey(pemOf(newKey().privateKey)));
  const [old, next, stranger] = [await signer(), await signer(), await signer()];
  const registry = await registryWith(t, certificateBundle(old) + certificateBundle(next));
  assert.equal(await statusBy(registry, old), 200);
  assert.equal(await statusBy(registry, next), 200);
  assert.equal(await statusBy(registry, stranger), 401);
});

test('a registry that cannot start says why', { skip }, async (t) => {
  await assert.rejects(registryWith(t, 'no certificate'), /docker-registry ended before it served:[\s\S]*certificate/);
});
