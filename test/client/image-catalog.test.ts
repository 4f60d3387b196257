/** What `troupe image catalog` sends: an image for each kind of machine, under one tag. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { z } from 'zod';
import { sendCatalog } from '../../cmd/client/images/catalog.ts';
import { Repository } from '../../cmd/client/images/registry.ts';
import { presentFor, sendImage } from '../../cmd/client/images/sent-image.ts';
import { OWN_PLACE } from '../../cmd/client/own-place.ts';
import { tar } from '../../lib/tar.ts';
import { contractChanges } from '../../transports/engines/docker/image/base-image.ts';
import type { SentImage } from '../../transports/engines/docker/image/sent-images.ts';
import { startRegistry } from '../support/engine/troupe-registry.ts';
import { digestOf } from '../support/registry/registry-client.ts';
import { skipWithout } from '../support/require.ts';
import { freePort } from '../support/temp.ts';

const INDEX = 'application/vnd.oci.image.index.v1+json';
const MANIFEST = 'application/vnd.oci.image.manifest.v1+json';
const ARCHIVE = tar([{ kind: 'file', path: 'etc/hello', mode: 0o644, data: Buffer.from('hello') }]);
const index = z.object({
  manifests: z.array(z.object({ digest: z.string(), platform: z.object({ architecture: z.string() }) })),
});
const manifest = z.object({
  config: z.object({ digest: z.string() }),
  layers: z.array(z.object({ digest: z.string() })).length(1),
});

/** An image that is built at once. */
const image = (changes: readonly string[]): SentImage => ({
  ...{ name: 'node', hash: '0123456789abcdef', changes },
  build: async (tell, _, use) => {
    tell('100% built');
    await use(Readable.from([ARCHIVE]));
  },
});

test('each kind of machine has an image under the tag, and what is there for others stays', {
  skip: skipWithout('docker-registry'),
}, async (t) => {
  const { host, url } = await startRegistry(t, { port: await freePort() });
  const name = { host, repository: 'library/node', tag: '0123456789abcdef' };
  const repository = new Repository(url, name, async () => undefined, {});
  const way = (architecture: string) => ({ repository, architecture, signal: new AbortController().signal });
  assert.equal(await presentFor(way('amd64')), undefined);
  const said: string[] = [];
  const node = image([...contractChanges, 'EXPOSE 5432']);
  const [amd, arm] = [
    await sendImage(node, way('amd64'), (line) => said.push(line)),
    await sendImage(node, way('arm64'), () => undefined),
  ];
  assert.deepEqual(said, ['100% built', 'sending 1 MiB']);
  const read = async (path: string) => {
    const response = await fetch(`${url}/v2/library/node/${path}`, { headers: { accept: `${INDEX}, ${MANIFEST}` } });
    return Buffer.from(await response.arrayBuffer());
  };
  const listed = async () => index.parse(JSON.parse(String(await read(`manifests/${name.tag}`)))).manifests;
  assert.deepEqual(
    (await listed()).map(({ digest, platform }) => [platform.architecture, digest]),
    [
      ['amd64', amd],
      ['arm64', arm],
    ],
  );
  const { config, layers } = manifest.parse(JSON.parse(String(await read(`manifests/${arm}`))));
  const layer = await read(`blobs/${layers[0]?.digest}`);
  assert.ok(gunzipSync(layer).equals(ARCHIVE));
  assert.deepEqual(JSON.parse(String(await read(`blobs/${config.digest}`))), {
    architecture: 'arm64',
    os: 'linux',
    config: {
      Env: ['PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', 'LANG=C.UTF-8'],
      ExposedPorts: { '22/tcp': {}, '5432/tcp': {} },
      Cmd: ['/usr/local/sbin/troupe-init'],
      WorkingDir: '/root',
    },
    rootfs: { type: 'layers', diff_ids: [digestOf(ARCHIVE)] },
  });
  // Built again, it takes the place of the one for the same machines.
  const later = await sendImage(image(contractChanges), way('amd64'), () => undefined);
  assert.notEqual(later, amd);
  assert.deepEqual(
    [await presentFor(way('amd64')), await presentFor(way('arm64')), (await listed()).length],
    [later, arm, 2],
  );
});

test('a build that fails sends nothing', { skip: skipWithout('docker-registry') }, async (t) => {
  const { host, url } = await startRegistry(t, { port: await freePort() });
  const name = { host, repository: 'library/node', tag: '1' };
  const way = {
    ...{ architecture: 'amd64', signal: new AbortController().signal },
    repository: new Repository(url, name, async () => undefined, {}),
  };
  const failing: SentImage = {
    ...image(contractChanges),
    build: async (_tell, _signal, use) => {
      async function* half() {
        yield ARCHIVE.subarray(0, 512);
        throw new Error('no room is left');
      }
      await use(Readable.from(half()));
    },
  };
  await assert.rejects(
    sendImage(failing, way, () => undefined),
    /no room is left/,
  );
  assert.equal(await presentFor(way), undefined);
});

test('names, places and registries that nobody may send to are refused before anything is built', async (t) => {
  const send = (names: string[], to: string) => sendCatalog(names, { place: OWN_PLACE, to });
  await assert.rejects(send(['nod'], 'r.test/library'), /no nod in the catalog: it has base, node, python/);
  for (const to of ['r.test', 'https://r.test/library', 'r.test/Library'])
    await assert.rejects(send([], to), /is no place in a registry: name it registry\.example\.com\/library\/\./);
  for (const [challenge, said] of [
    ['Basic realm="r"', /wants to know who sends images: --username NAME, or `docker login 127/],
    ['', /status 403|denied/],
  ] as const) {
    const server = createServer((_, response) => {
      response.writeHead(challenge === '' ? 403 : 401, { 'www-authenticate': challenge }).end();
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    t.after(() => server.close());
    const address = server.address();
    assert.ok(address !== null && typeof address === 'object');
    await assert.rejects(send(['node'], `127.0.0.1:${address.port}/library/`), said);
  }
});
