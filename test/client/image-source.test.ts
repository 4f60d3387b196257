/** What `troupe image import` takes of another registry, and what it does not. */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { type TestContext, test } from 'node:test';
import { ClientFailure } from '../../cmd/client/failure.ts';
import { ImageSource, sourceName } from '../../cmd/client/images/source.ts';
import { readAtMost } from '../../lib/input.ts';
import { digestOf } from '../support/registry/registry-client.ts';

const INDEX = 'application/vnd.oci.image.index.v1+json';
const MANIFEST = 'application/vnd.oci.image.manifest.v1+json';
const LAYER = 'the bytes of a layer';

const described = (text: string, more: object = {}) => ({ digest: digestOf(text), size: text.length, ...more });

/** A registry that wants a token of anybody, with an image for two kinds of machines, and an attestation beside. */
async function registry(t: TestContext, change: (path: string, text: string) => string = (_, text) => text) {
  const files = new Map<string, { type: string; text: string }>();
  const children = ['amd64', 'arm64'].map((architecture) => {
    const config = JSON.stringify({ architecture, os: 'linux' });
    const text = JSON.stringify({ schemaVersion: 2, config: described(config), layers: [described(LAYER)] });
    files.set(`blobs/${digestOf(config)}`, { type: 'application/octet-stream', text: config });
    files.set(`manifests/${digestOf(text)}`, { type: MANIFEST, text });
    return described(text, { mediaType: MANIFEST, platform: { architecture, os: 'linux' } });
  });
  files.set(`blobs/${digestOf(LAYER)}`, { type: 'application/octet-stream', text: LAYER });
  const attestation = described('none', { platform: { architecture: 'unknown', os: 'unknown' } });
  const index = JSON.stringify({ schemaVersion: 2, manifests: [attestation, ...children] });
  files.set('manifests/1', { type: INDEX, text: index });
  const asked: string[] = [];
  const server = createServer((request, response) => {
    const { url = '', headers } = request;
    asked.push(`${url} ${headers.authorization ?? ''}`.trim());
    if (url.startsWith('/token')) return void response.end(JSON.stringify({ token: 'for-anybody' }));
    if (headers.authorization !== 'Bearer for-anybody') {
      const realm = `http://127.0.0.1:${port}/token`;
      response.writeHead(401, { 'www-authenticate': `Bearer realm="${realm}",service="here"` });
      return void response.end();
    }
    const path = url.replace('/v2/shop/web/', '');
    const file = files.get(path);
    if (file === undefined) return void response.writeHead(404).end();
    response.writeHead(200, { 'content-type': file.type });
    response.end(change(path, file.text));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  const port = typeof address === 'object' ? (address?.port ?? 0) : 0;
  return {
    asked,
    children,
    source: (version = '1') => new ImageSource(sourceName(`127.0.0.1:${port}/shop/web:${version}`)),
  };
}

test('the image for the machines of the platform is taken, with a token for anybody', async (t) => {
  const { source, asked, children } = await registry(t);
  const image = await source().image('arm64');
  assert.equal(digestOf(image.bytes), children[1]?.digest);
  assert.equal(image.mediaType, MANIFEST);
  const [layer] = image.blobs;
  assert.ok(layer !== undefined);
  assert.equal((await readAtMost(await source().blob(layer), 1000))?.toString(), LAYER);
  assert.ok(asked.includes('/token?service=here&scope=repository%3Ashop%2Fweb%3Apull'));
});

test('what is for other machines, or is not there, is refused with what to do', async (t) => {
  const { source } = await registry(t);
  await assert.rejects(source().image('s390x'), /is for amd64, arm64, and the platform runs linux\/s390x/);
  await assert.rejects(source('none').image('amd64'), /has no .*shop\/web:none that anybody may pull/);
});

test('other bytes than the digest says, and parts that are not whole, are not taken', async (t) => {
  const forged = await registry(t, (path, text) => (path.startsWith('manifests/sha256') ? `${text} ` : text));
  await assert.rejects(forged.source().image('amd64'), /sent something else than sha256:/);
  for (const change of [(text: string) => `${text} and more`, (text: string) => text.slice(1)]) {
    const { source } = await registry(t, (_, text) => (text === LAYER ? change(text) : text));
    const [layer] = (await source().image('amd64')).blobs;
    assert.ok(layer !== undefined);
    await assert.rejects(readAtMost(await source().blob(layer), 1000), /sent not all of sha256/);
  }
});

test('names are those that docker pull takes', () => {
  const hub = { host: 'docker.io', repository: 'library/nginx' };
  assert.deepEqual(sourceName('nginx'), { ...hub, version: 'latest' });
  assert.deepEqual(sourceName('docker.io/nginx:1.27'), { ...hub, version: '1.27' });
  const digest = `sha256:${'a'.repeat(64)}`;
  assert.deepEqual(sourceName(`ghcr.io/ann/app:1@${digest}`), {
    host: 'ghcr.io',
    repository: 'ann/app',
    version: digest,
  });
  assert.deepEqual(sourceName('localhost:5000/app:2'), { host: 'localhost:5000', repository: 'app', version: '2' });
  for (const text of ['', 'Nginx', 'a b', 'ghcr.io/', 'nginx@sha256:0', 'https://ghcr.io/a/b', '-v', 'a/../b'])
    assert.throws(() => sourceName(text), ClientFailure, text);
});
