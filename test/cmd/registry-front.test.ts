/** The registry front on a disk and at times that a test decides, before the real docker-registry. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { readdir, utimes } from 'node:fs/promises';
import { request } from 'node:http';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Registry } from 'prom-client';
import {
  certificateBundle,
  newRegistryKey,
  parseRegistryKey,
  RegistryKeyError,
} from '../../actors/auth/registry/registry-key.ts';
import { registryTokens } from '../../actors/auth/registry/registry-tokens.ts';
import { readEnvironment } from '../../cmd/config/config.ts';
import { registryBeside } from '../../cmd/node/registry/beside.ts';
import { registryFiles, registryKeyOf, writeRegistryFiles } from '../../cmd/node/registry/files.ts';
import { type FrontOptions, openFront } from '../../cmd/node/registry/front/front.ts';
import { askFront } from '../../cmd/node/registry/front/questions.ts';
import { blobFile } from '../../cmd/node/registry/image-store.ts';
import { endRegistry, runningRegistry, startRegistry } from '../../cmd/node/registry/process.ts';
import { unfinishedUploads } from '../../cmd/node/registry/store.ts';
import { bundledKeys } from '../../cmd/node/registry/token-keys.ts';
import type { RegistryRoom } from '../../proto/ports/local-registry.ts';
import { type KeptLog, keptLog } from '../support/log.ts';
import { portBefore } from '../support/registry/listening-front.ts';
import { digestOf, plainImage, type TrialImage } from '../support/registry/registry-client.ts';
import { skipWithout } from '../support/require.ts';
import { inReverse } from '../support/suite.ts';
import { freePort, tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

const HOST = 'registry.cloud.test';
const ISSUER = 'troupe';
const MIB = 2 ** 20;
const environment = {
  REGISTRY_USER_MB: 0,
  ADMIN_USERNAME: 'admin',
  REGISTRY_ISSUER: ISSUER,
  METRICS_TOKEN: undefined,
};
const options = { skip: skipWithout('docker-registry'), timeout: 900_000 };

/** A registry behind a front; `change` is what the front is built with besides. */
async function open(context: TestContext, change: Partial<FrontOptions> = {}) {
  const t = inReverse(context);
  const files = registryFiles(await tempDir(t));
  const { key, secret } = await registryKeyOf(files);
  const port = await freePort();
  writeRegistryFiles(files, key, { port, host: HOST, issuer: ISSUER, secret });
  await startRegistry(files, port);
  t.after(async () => void (await endRegistry(files)));
  const log = keptLog();
  const front = openFront({
    environment,
    host: HOST,
    address: { host: '127.0.0.1', port },
    keys: bundledKeys(certificateBundle(key)),
    store: files.store,
    pinned: async () => new Set(),
    holds: async () => true,
    limitMb: async () => null,
    metrics: new Registry(),
    log,
    ...change,
  });
  const outside = await portBefore(t, front);
  const issue = registryTokens({ clock: { now: Date.now }, issuer: ISSUER, signer: key, jwtSecret: 'x'.repeat(32) });
  const access = [{ type: 'repository', name: 'ann/app', actions: ['pull', 'push', 'delete'] }] as const;
  const { token } = await issue({ subject: 'ann', service: HOST, access });
  const headers = { authorization: `Bearer ${token}` };
  const address = `127.0.0.1:${outside}`;
  const at = `http://${address}/v2/ann/app/`;
  const begin = async () => {
    const begun = await fetch(`${at}blobs/uploads/`, { method: 'POST', headers });
    assert.equal(begun.status, 202, await begun.text());
    return new URL(begun.headers.get('location') ?? '', at);
  };
  const put = async (blob: Buffer) => {
    const whole = await begin();
    whole.searchParams.set('digest', digestOf(blob));
    const answered = await fetch(whole, { method: 'PUT', headers, body: blob });
    assert.equal(answered.status, 201, await answered.text());
  };
  const push = async ({ blobs, text, type }: TrialImage, tag: string) => {
    for (const blob of blobs) await put(blob);
    const sent = { method: 'PUT', headers: { ...headers, 'content-type': type }, body: text };
    const answered = await fetch(`${at}manifests/${tag}`, sent);
    assert.equal(answered.status, 201, await answered.text());
  };
  return { files, key, log, front, address, at, headers, begin, push };
}

test(
  'a full disk ends pushes that have begun and removes them; pulls go on, and the registry runs on',
  options,
  async (t) => {
    let room: RegistryRoom = 'enough';
    const { files, log, address, key, at, headers, begin, push } = await open(t, { room: async () => room });
    const image = plainImage([randomBytes(MIB)], 'oci');
    await push(image, 'kept');
    const before = runningRegistry(files);
    const upload = request(await begin(), { method: 'PATCH', headers });
    upload.write(Buffer.alloc(4 * MIB));
    await until(async () => (await unfinishedUploads(files)).length > 0);
    room = 'none';
    const answered = once(upload, 'response');
    const sending = setInterval(() => upload.write(Buffer.alloc(1000)), 100);
    upload.on('error', () => {});
    const [response] = await answered.finally(() => clearInterval(sending));
    assert.equal(response.statusCode, 403);
    upload.destroy();
    await until(async () => (await unfinishedUploads(files)).length === 0, { what: 'what it had is removed' });
    const refused = await fetch(`${at}blobs/uploads/`, { method: 'POST', headers });
    assert.equal(refused.status, 403);
    assert.match(await refused.text(), /DENIED.*disk of the image registry is almost full: remove images/);
    await until(() => said(log).includes('the disk is full: unfinished pushes of images were ended and removed'));
    const [, layer] = image.blobs;
    assert.ok(layer);
    assert.equal((await fetch(`${at}blobs/${digestOf(layer)}`, { headers })).status, 200);
    assert.equal(await askFront({ address, host: HOST, key, log }).room(), 'none');
    const removed = await fetch(`${at}manifests/${image.digest}`, { method: 'DELETE', headers });
    assert.equal(removed.status, 202, 'images are removed also while it is full');
    assert.equal(runningRegistry(files), before);
    room = 'enough';
    await until(async () => (await fetch(`${at}blobs/uploads/`, { method: 'POST', headers })).status === 202);
  },
);

test(
  'images without a name are collected when it is time, while the registry runs, and those with one stay',
  options,
  async (t) => {
    const times = { everyMs: 500, quietMs: 200, quietHour: 25, patienceMs: 5000, lookMs: 50 };
    const { files, log, at, headers, push } = await open(t, { times });
    const [old, young] = [plainImage([randomBytes(MIB)], 'oci'), plainImage([randomBytes(MIB)], 'oci')];
    await push(old, 'one');
    await push(young, 'one');
    // A front that was killed a moment ago may have let writes in.
    const dataOf = ({ blobs: [, layer = Buffer.alloc(0)] }: TrialImage) =>
      join(files.store, 'docker/registry/v2', blobFile(digestOf(layer).slice(7)));
    await age(files.store, 2 * 24 * 60 * 60_000);
    await until(() => !existsSync(dataOf(old)), { timeoutMs: 60_000, what: 'what has no name goes' });
    assert.ok(existsSync(dataOf(young)));
    const { status } = await fetch(`${at}manifests/one`, { headers: { ...headers, accept: young.type } });
    assert.equal(status, 200);
    await until(() => said(log).includes('images without a name were collected'));
    await push(old, 'two');
  },
);

/** What a log has, with the errors. */
function said({ lines }: KeptLog): string {
  return lines.map(({ message, fields }) => `${message} ${fields.err ?? ''}`).join('\n');
}

/** Makes all files so much older, ms. */
async function age(folder: string, ms: number): Promise<void> {
  const then = (Date.now() - ms) / 1000;
  for (const entry of await readdir(folder, { recursive: true })) await utimes(join(folder, entry), then, then);
}

test(
  'core is told of the room and of what a user has by its key alone; with a bucket there is nothing to tell',
  options,
  async (t) => {
    const { address, key, log, push } = await open(t, { environment: { ...environment, REGISTRY_USER_MB: 3 } });
    await push(plainImage([randomBytes(MIB)], 'oci'), 'one');
    const core = askFront({ address, host: HOST, key, log });
    assert.match(await core.room(), /^(enough|little|none)$/);
    const { used, limit } = await core.usage('ann');
    assert.ok(used >= MIB && used < 1.1 * MIB, `${used}`);
    assert.equal(limit, 3 * MIB);
    assert.equal((await core.usage('admin')).limit, undefined);
    const alone = await open(t, { limitMb: async (user) => (user === 'ann' ? 5 : null) });
    const { usage } = askFront({ address: alone.address, host: HOST, key: alone.key, log });
    const limits = [(await usage('ann')).limit, (await usage('bob')).limit];
    assert.deepEqual(limits, [5 * MIB, undefined], 'one user has a limit, all have none');
    const strange = parseRegistryKey(await newRegistryKey());
    await assert.rejects(askFront({ address, host: HOST, key: strange, log }).usage('ann'), /does not answer now/);
    await assert.rejects(askFront({ address, host: 'registry.other.test', key, log }).usage('ann'));
    await assert.rejects(core.usage('../ann'), /does not answer now/);
    assert.match(said(log), /it answers 401/);
    assert.match(said(log), /it answers 400/);

    const bucket = await open(t, { store: undefined });
    await bucket.push(plainImage([randomBytes(MIB)], 'oci'), 'one');
    const asked = askFront({ address: bucket.address, host: HOST, key: bucket.key, log: bucket.log });
    await assert.rejects(asked.usage('ann'), /does not have its keys: nobody counts them/);
  },
);

test('who no longer holds what a token was given for writes nothing, with a bucket as well', options, async (t) => {
  for (const change of [{}, { store: undefined }]) {
    let isAsked = false;
    const holds = async () => {
      isAsked = true;
      return false;
    };
    const { at, key } = await open(t, { ...change, holds });
    const issue = registryTokens({ clock: { now: Date.now }, issuer: ISSUER, signer: key, jwtSecret: 'x'.repeat(32) });
    const access = [{ type: 'repository', name: 'ann/app', actions: ['push'] }] as const;
    const { token } = await issue({ subject: 'ann', service: HOST, access, holder: { token: 'abc' } });
    const headers = { authorization: `Bearer ${token}` };
    const { status } = await fetch(`${at}blobs/uploads/`, { method: 'POST', headers });
    assert.deepEqual([status, isAsked], [403, true]);
  }
});

test('core asks a front for what it can tell, and no other registry', async () => {
  const key = parseRegistryKey(await newRegistryKey());
  const log = keptLog();
  const beside = (front: 'none' | 'store' | 'bucket') => {
    const given = readEnvironment({ REGISTRY_ADDRESS: 'troupe-registry:5000', REGISTRY_FRONT: front });
    return registryBeside({ ...given, REGISTRY_SIGNING_KEY: key }, 'cloud.test', log);
  };
  const known = (front: 'none' | 'store' | 'bucket') => {
    const { room, usage, asksHolders } = beside(front) ?? {};
    return [room !== undefined, usage !== undefined, asksHolders];
  };
  assert.deepEqual(known('none'), [false, false, undefined]);
  assert.deepEqual(known('store'), [true, true, true]);
  assert.deepEqual(known('bucket'), [false, true, true]);
});

test('keys are those of certificates of the bundle, and of chains that end there', async () => {
  const [one, two] = [parseRegistryKey(await newRegistryKey()), parseRegistryKey(await newRegistryKey())];
  const keys = bundledKeys(certificateBundle(one) + certificateBundle(two));
  for (const { kid, chain, privateKey } of [one, two]) {
    assert.ok(keys({ x5c: [...chain] }).equals(keys({ kid })));
    assert.equal(privateKey.asymmetricKeyType, 'ec');
  }
  const stranger = parseRegistryKey(await newRegistryKey());
  assert.throws(() => keys({ x5c: [...stranger.chain] }));
  // The first certificate is the key's: a known one behind it proves nothing that it did not sign.
  assert.throws(() => keys({ x5c: [...stranger.chain, ...one.chain] }));
  assert.throws(() => keys({ kid: stranger.kid }));
  assert.throws(() => keys({}));
  assert.throws(() => bundledKeys('no certificate'), RegistryKeyError);
});
