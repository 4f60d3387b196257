/** What `troupe image import` takes of another registry, and what it does not. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { ClientFailure } from '../../cmd/client/failure.ts';
import { ImageSource, sourceName } from '../../cmd/client/images/source.ts';
import { keptLogin, type SourceLogin } from '../../cmd/client/images/source-login.ts';
import { OWN_PLACE } from '../../cmd/client/own-place.ts';
import { readAtMost } from '../../lib/input.ts';
import { digestOf } from '../support/registry/registry-client.ts';
import { tempDir } from '../support/temp.ts';

const INDEX = 'application/vnd.oci.image.index.v1+json';
const MANIFEST = 'application/vnd.oci.image.manifest.v1+json';
const LAYER = 'the bytes of a layer';

const described = (text: string, more: object = {}) => ({ digest: digestOf(text), size: text.length, ...more });

const basic = (pair: string) => `Basic ${Buffer.from(pair).toString('base64')}`;

interface OtherRegistry {
  readonly change?: (path: string, text: string) => string;
  /** Who alone gets a token: `NAME:PASSWORD`. */
  readonly holder?: string;
  /** It wants the name and the password themselves. */
  readonly isBasic?: boolean;
  /** Only nobody gets a token. */
  readonly refusesLogins?: boolean;
  /** What it says of where tokens are, if not of its own. */
  readonly realm?: string;
}

/** A registry that wants a token of anybody, with an image for two kinds of machines, and an attestation beside. */
async function registry(
  t: TestContext,
  { change = (_, text) => text, holder, isBasic, refusesLogins, realm }: OtherRegistry = {},
) {
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
    if (url.startsWith('/token')) {
      if (holder !== undefined && headers.authorization !== basic(holder)) return void response.writeHead(401).end();
      if (refusesLogins && headers.authorization !== undefined) return void response.writeHead(401).end();
      return void response.end(JSON.stringify({ token: 'for-anybody' }));
    }
    if (headers.authorization !== (isBasic && holder ? basic(holder) : 'Bearer for-anybody')) {
      const bearer = `Bearer realm="${realm ?? `http://127.0.0.1:${port}/token`}",service="here"`;
      response.writeHead(401, { 'www-authenticate': isBasic ? 'Basic realm="here"' : bearer });
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
    host: `127.0.0.1:${port}`,
    source: (version = '1', login?: SourceLogin) =>
      new ImageSource(sourceName(`127.0.0.1:${port}/shop/web:${version}`), login),
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
  const forged = await registry(t, {
    change: (path, text) => (path.startsWith('manifests/sha256') ? `${text} ` : text),
  });
  await assert.rejects(forged.source().image('amd64'), /sent something else than sha256:/);
  for (const change of [(text: string) => `${text} and more`, (text: string) => text.slice(1)]) {
    const { source } = await registry(t, { change: (_, text) => (text === LAYER ? change(text) : text) });
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

const ANN = { username: 'ann', password: 'canary: with colon' };
const HOLDER = `${ANN.username}:${ANN.password}`;

for (const isBasic of [false, true])
  test(`a private image takes a login, ${isBasic ? 'as it is' : 'for a token'}, and another is told what to do`, async (t) => {
    const { source, asked } = await registry(t, { holder: HOLDER, isBasic });
    const image = await source('1', ANN).image('arm64');
    const [layer] = image.blobs;
    assert.ok(layer !== undefined);
    assert.equal((await readAtMost(await source('1', ANN).blob(layer), 1000))?.toString(), LAYER);
    const told = asked.filter((line) => line.endsWith(basic(HOLDER)));
    assert.ok(told.length > 0 && told.every((line) => isBasic || line.startsWith('/token?')), told.join());
    await assert.rejects(
      source().image('arm64'),
      /that anybody may pull\. For a private one log in there: --username NAME/,
    );
    await assert.rejects(source('1', { ...ANN, password: 'canary2' }).image('arm64'), (error: Error) => {
      assert.match(error.message, /that ann may pull, or the password is another/);
      assert.ok(!error.message.includes('canary'));
      return true;
    });
  });

test('a login that is over does not keep from what anybody may pull', async (t) => {
  const { source } = await registry(t, { refusesLogins: true });
  assert.equal((await source('1', ANN).image('arm64')).mediaType, MANIFEST);
});

test('a login is sent nowhere without TLS but to this machine', async (t) => {
  const { source, asked } = await registry(t, { holder: HOLDER, realm: 'http://192.0.2.1/token' });
  await assert.rejects(source('1', ANN).image('arm64'), /or the password is another/);
  assert.ok(asked.every((line) => !line.includes('Basic')));
});

test('what docker login kept is taken for its registry alone', async (t) => {
  const folder = await tempDir(t);
  const before = process.env.DOCKER_CONFIG;
  process.env.DOCKER_CONFIG = folder;
  t.after(() => {
    if (before === undefined) delete process.env.DOCKER_CONFIG;
    else process.env.DOCKER_CONFIG = before;
  });
  const auth = Buffer.from(HOLDER).toString('base64');
  assert.equal(keptLogin(OWN_PLACE.machine ?? assert.fail(), 'ghcr.io'), undefined);
  const auths = {
    'ghcr.io': { auth },
    'https://index.docker.io/v1/': { auth },
    'left.test': {},
    'bad.test': { auth: '' },
  };
  await writeFile(join(folder, 'config.json'), JSON.stringify({ auths, credsStore: 'none' }));
  const kept = (host: string) => keptLogin(OWN_PLACE.machine ?? assert.fail(), host);
  assert.deepEqual([kept('ghcr.io'), kept('docker.io')], [ANN, ANN]);
  for (const host of ['other.test', 'left.test', 'bad.test', 'evil.ghcr.io', 'ghcr.io:5000'])
    assert.equal(kept(host), undefined, host);
  await writeFile(join(folder, 'config.json'), 'no JSON');
  assert.equal(kept('ghcr.io'), undefined);
});
