/** What a user may have in the platform's own registry: the real docker-registry behind the real gateway. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { request } from 'node:https';
import { join } from 'node:path';
import { test } from 'node:test';
import { unfinishedUploads } from '../../cmd/node/registry/store.ts';
import { pause } from '../support/pause.ts';
import { openTrialRegistry } from '../support/registry/collection-trial.ts';
import {
  digestOf,
  imageOfMany,
  plainImage,
  RefusedPush,
  type RegistryClient,
  type TrialImage,
} from '../support/registry/registry-client.ts';
import { skipWithout } from '../support/require.ts';
import { inReverse } from '../support/suite.ts';
import { until } from '../support/until.ts';

const options = { skip: skipWithout('docker-registry'), timeout: 900_000 };
const LIMIT = 1_000_000;
const REFUSED =
  /403 .*DENIED.*The images of ann hold [0-9,]+ of 1,000,000 bytes.*Remove images with `troupe image rm NAME:TAG`, or ask the administrator/s;

type TrialRegistry = Awaited<ReturnType<typeof openTrialRegistry>>;

/** As `troupe image rm` does it. */
async function remove(client: RegistryClient, name: string, { text, type }: TrialImage, tag: string) {
  const own = `${text} `;
  assert.equal((await client.ask('PUT', `/v2/${name}/manifests/${tag}`, own, type)).status, 201);
  assert.equal((await client.ask('DELETE', `/v2/${name}/manifests/${digestOf(own)}`)).status, 202);
}

const used = async ({ usage }: TrialRegistry) => (await usage('ann')).used;
/** What it is told comes to this, and what describes the layers. */
const holds = (registry: TrialRegistry, bytes: number) =>
  until(
    async () => {
      const found = await used(registry);
      return found >= bytes && found < bytes + 5000;
    },
    { what: `about ${bytes} bytes are held`, timeoutMs: 60_000 },
  );

/** Asks the registry by hand: `parts` one after the other, without a word of their length. With the status and the text. */
async function askBy(
  { port, ca }: TrialRegistry,
  asked: { readonly method: string; readonly path: string; readonly authorization: string },
  parts: readonly Buffer[] | undefined,
): Promise<string> {
  const { method, path, authorization } = asked;
  const headers = {
    host: 'registry.cloud.test',
    ...(parts === undefined ? { 'content-length': 0 } : {}),
    ...(authorization && { authorization }),
  };
  return new Promise<string>((resolve, reject) => {
    const open = request(
      { host: '127.0.0.1', port, ca, servername: 'registry.cloud.test', method, path, headers },
      (response) => {
        let text = '';
        response.on('data', (part: Buffer) => {
          text += part.toString();
        });
        response.once('end', () => resolve(`${response.statusCode} ${text}`));
      },
    );
    open.once('error', reject);
    const send = async () => {
      for (const part of parts ?? []) {
        if (open.destroyed || open.writableEnded) return;
        open.write(part);
        await pause(5, 'pace');
      }
      open.end();
    };
    void send();
  });
}

/** Sends a layer without saying how long it is. */
async function stream(registry: TrialRegistry, path: string, parts: readonly Buffer[]): Promise<string> {
  return askBy(registry, { method: 'PATCH', path, authorization: `Bearer ${await registry.token()}` }, parts);
}

test(
  'a push past the limit is refused with a sentence, and what was removed makes room at once',
  options,
  async (t) => {
    const registry = await openTrialRegistry(inReverse(t), ['ann/app', 'ann/two', 'library/app'], { bytes: LIMIT });
    const client = registry.client();
    const layer = randomBytes(600_000);
    const first = plainImage([layer], 'oci');
    await client.push('ann/app', first, 'latest');
    await holds(registry, 600_000);
    // The same parts in another repository are there once.
    const mounted = await client.ask('POST', `/v2/ann/two/blobs/uploads/?mount=${digestOf(layer)}&from=ann/app`);
    assert.equal(mounted.status, 201);
    await client.push('ann/two', first, 'latest');
    await holds(registry, 600_000);

    const second = plainImage([randomBytes(500_000)], 'docker');
    await assert.rejects(client.push('ann/app', second, 'two'), REFUSED);
    await holds(registry, 600_000);
    // Tags are still moved and removed; what another repository has does not go.
    await remove(client, 'ann/app', first, 'latest');
    await holds(registry, 600_000);
    await assert.rejects(client.push('ann/app', second, 'two'), REFUSED);
    await remove(client, 'ann/two', first, 'latest');
    await holds(registry, 0);
    await client.push('ann/app', second, 'two');
    await holds(registry, 500_000);
    assert.deepEqual(await client.wrongIn('ann/app', second.digest), []);
    // A tag that leads to another image leaves the one before without a name.
    await client.push('ann/app', plainImage([randomBytes(300_000)], 'oci'), 'two');
    await holds(registry, 300_000);
    await client.push('ann/two', plainImage([randomBytes(600_000)], 'oci'), 'three');
    await holds(registry, 900_000);
    // Everybody's have no limit.
    await client.push('library/app', plainImage([randomBytes(1_500_000)], 'oci'), 'latest');
  },
);

test('a layer whose size nobody said is cut where the room ends, and leaves nothing', options, async (t) => {
  const registry = await openTrialRegistry(inReverse(t), ['ann/app'], { bytes: LIMIT });
  const client = registry.client();
  const location = await client.beginUpload('ann/app');
  const parts = Array.from({ length: 300 }, () => randomBytes(20_000));
  assert.match(await stream(registry, location, parts), REFUSED);
  await until(async () => (await unfinishedUploads(registry.files)).length === 0, { what: 'the upload is removed' });
  await holds(registry, 0);
  const fits = await client.beginUpload('ann/app');
  assert.match(await stream(registry, fits, parts.slice(0, 40)), /^202/);
  await assert.rejects(client.append(await client.beginUpload('ann/app'), randomBytes(300_000)), REFUSED);
});

test('pushes at the same time share what is left', options, async (t) => {
  const names = Array.from({ length: 12 }, (_, i) => `ann/app${i}`);
  const registry = await openTrialRegistry(inReverse(t), names, { bytes: LIMIT });
  const size = 150_000;
  const push = async (name: string) => {
    const image = plainImage([randomBytes(size)], 'oci');
    await registry.client().push(name, image, 'latest');
  };
  const results = await Promise.allSettled(names.map(push));
  const pushed = results.filter(({ status }) => status === 'fulfilled').length;
  const bytes = await used(registry);
  assert.ok(bytes <= LIMIT + size, `${bytes} bytes`);
  assert.ok(pushed >= 4 && pushed <= 6, `${pushed} pushed`);
  for (const result of results)
    if (result.status === 'rejected') assert.ok(result.reason instanceof RefusedPush, String(result.reason));
});

test('who may not push is told nothing of what others have', options, async (t) => {
  const registry = await openTrialRegistry(inReverse(t), ['ann/app'], { bytes: 1000 });
  const client = registry.client();
  await assert.rejects(client.push('ann/app', plainImage([randomBytes(5000)], 'oci'), 'one'), /403 .*DENIED/s);
  const stranger = await openTrialRegistry(inReverse(t), ['bob/app'], {});
  for (const token of ['', 'Bearer no.token.atall', `Bearer ${await stranger.token()}`]) {
    const asked = await fetchWith(registry, '/v2/ann/app/blobs/uploads/', token);
    assert.match(asked, /^401 /);
    assert.doesNotMatch(asked, /DENIED|bytes/);
  }
  // However the path is written.
  const full = await openTrialRegistry(inReverse(t), ['ann/app'], { bytes: 0 });
  for (const path of ['/v2/ann/app/blobs/uploads/', '/v2/ann%2Fapp/blobs/uploads/', '/v2/%61nn/app/blobs/uploads'])
    assert.match(await fetchWith(full, path, `Bearer ${await full.token()}`), /^403 .*DENIED/s);
});

function fetchWith(registry: TrialRegistry, path: string, authorization: string): Promise<string> {
  return askBy(registry, { method: 'POST', path, authorization }, undefined);
}

test('what a row names by its digest stays, for all kinds of machines, and counts', options, async (t) => {
  const pins = new Set<string>();
  const registry = await openTrialRegistry(inReverse(t), ['ann/app'], { bytes: LIMIT, pinned: async () => pins });
  const client = registry.client();
  const many = imageOfMany([plainImage([randomBytes(300_000)], 'oci')], 'oci');
  const other = plainImage([randomBytes(300_000)], 'docker');
  await client.push('ann/app', many, 'many');
  await client.push('ann/app', other, 'other');
  pins.add(`ann/app@${many.digest.slice('sha256:'.length)}`);
  await remove(client, 'ann/app', many, 'many');
  await remove(client, 'ann/app', other, 'other');
  await holds(registry, 300_000);
  assert.ok((await registry.collect()) !== undefined);
  assert.deepEqual(await client.wrongIn('ann/app', many.digest), []);
  assert.equal((await client.ask('HEAD', `/v2/ann/app/manifests/${other.digest}`)).status, 404);
  pins.clear();
  await registry.collect();
  assert.equal((await client.ask('HEAD', `/v2/ann/app/manifests/${many.digest}`)).status, 404);
  assert.ok(existsSync(join(registry.files.store, 'docker/registry/v2')));
  await holds(registry, 0);
});

test('who only mentions what others have does not keep it, and they get their room back', options, async (t) => {
  const registry = await openTrialRegistry(inReverse(t), ['ann/app', 'bob/app'], { bytes: LIMIT });
  const client = registry.client();
  const layer = randomBytes(900_000);
  const image = plainImage([layer], 'oci');
  await client.push('ann/app', image, 'latest');
  const other = plainImage([randomBytes(100)], 'oci');
  await client.push('bob/app', other, 'one');
  const annotations = { mentioned: `${digestOf(layer)} ${image.digest}` };
  const text = JSON.stringify({ ...JSON.parse(other.text), annotations });
  assert.equal((await client.ask('PUT', '/v2/bob/app/manifests/two', text, other.type)).status, 201);
  await remove(client, 'ann/app', image, 'latest');
  await holds(registry, 0);
  await client.push('ann/app', plainImage([randomBytes(500_000)], 'oci'), 'next');
  assert.deepEqual(await client.wrongIn('bob/app', digestOf(text)), []);
});
