/**
 * The registry of deploy/kubernetes: the real docker-registry and the registry front with the configuration and the
 * variables of the manifest, a platform that is told of them as core is, and a gateway in a process of its own, as they
 * are in the cluster.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { copyFile, mkdir, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { z } from 'zod';
import {
  addUsers,
  firstLine,
  logIn,
  type RunningPlatform,
  request,
  spawnTroupe,
  startPlatform,
  troupe,
} from '../support/cluster/platform.ts';
import { testDatabase } from '../support/database/database.ts';
import { skipWithoutDocker, tinyImage } from '../support/engine/docker-client.ts';
import { proxyTo } from '../support/engine/outside.ts';
import { client } from '../support/engine/troupe-registry.ts';
import { mountSkip, mountSmall } from '../support/monitor/small-disk.ts';
import { pause } from '../support/pause.ts';
import { isWell, registryManifests, startRegistryPod } from '../support/registry/pod.ts';
import { plainImage, RefusedPush, RegistryClient } from '../support/registry/registry-client.ts';
import { skipWithout } from '../support/require.ts';
import { tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

const DOMAIN = 'cloud.test';
const HOST = `registry.${DOMAIN}`;
const ADMIN_PASSWORD = 'the admin of this test';
const JWT_SECRET = 'the shared secret of this test, long enough';
const ANN: readonly [string, string] = ['ann', 'the password of ann'];
const BOB: readonly [string, string] = ['bob', 'the password of bob'];
/** Of the images of a user, MiB. */
const USER_MB = 16;
const MIB = 2 ** 20;
const ports = z.object({ ports: z.object({ https: z.number() }) });

const skip = skipWithoutDocker() || skipWithout('docker', 'docker-registry', 'skopeo', 'openssl');

describe('the registry of deploy/kubernetes', { skip, timeout: 900_000 }, () => {
  const ends: (() => unknown)[] = [];
  const cleanup = { after: (end: () => unknown) => void ends.unshift(end) };
  let folder: string;
  let env: Record<string, string>;
  let platform: RunningPlatform;
  let pod: Awaited<ReturnType<typeof startRegistryPod>>;
  /** HTTPS port of the gateway that runs alone. */
  let gateway: number;
  let trusted: string;
  let archive: string;
  /** Leads to the gateway that runs alone. */
  let proxy: string;

  before(async () => {
    folder = await tempDir(cleanup);
    const image = await tinyImage();
    const database = await testDatabase();
    cleanup.after(() => database.close());
    const roles = await database.serviceRoles();
    pod = await startRegistryPod(cleanup, {
      folder,
      domain: DOMAIN,
      databaseUrl: roles.urlOf('registry'),
      settings: { REGISTRY_USER_MB: String(USER_MB), DEFAULT_IMAGE: image },
    });
    env = {
      ...{ DATABASE_URL: database.url, DEFAULT_IMAGE: image, ADMIN_PASSWORD, JWT_SECRET, REGISTRY: 'auto' },
      ...{ REGISTRY_ADDRESS: pod.address, REGISTRY_SIGNING_KEY: pod.signingKey, REGISTRY_USER_MB: String(USER_MB) },
      ...{ REGISTRY_FRONT: pod.frontSetting, ENCRYPTION_KEY: Buffer.alloc(32, 7).toString('base64') },
    };
    const data = join(folder, 'data');
    platform = await startPlatform({ data, env, args: ['--domain', DOMAIN] });
    cleanup.after(() => platform.stop());
    await addUsers([ANN, BOB], data, env);
    trusted = join(folder, 'trusted');
    await mkdir(trusted);
    gateway = await gatewayAlone(roles.urlOf('gateway'));
    proxy = await proxyTo(cleanup, gateway);
    await copyFile(join(folder, 'gateway', 'ca.pem'), join(trusted, 'ca.crt'));
    archive = join(folder, 'image.tar');
    const saved = await client('docker', ['--host', process.env.DOCKER_HOST ?? '', 'save', '-o', archive, image]);
    assert.equal(saved.code, 0, saved.output);
  });

  after(async () => {
    for (const end of ends) await end();
  });

  async function gatewayAlone(url: string): Promise<number> {
    const free = ['http', 'https', 'ssh', 'net'].flatMap((name) => [`--${name}-port`, '0']);
    const own = ['--listen', '127.0.0.1', '--domain', DOMAIN, '--data', join(folder, 'gateway')];
    const { ENCRYPTION_KEY = '' } = env;
    const child = spawnTroupe(['gateway', '--json', ...own, ...free], {
      ...{ DATABASE_URL: url, JWT_SECRET, ENCRYPTION_KEY },
    });
    let log = '';
    child.stderr.on('data', (chunk: Buffer) => (log += chunk));
    const ended = once(child, 'close');
    cleanup.after(async () => {
      child.kill('SIGTERM');
      await ended;
    });
    const first = await firstLine(child);
    assert.ok(first !== undefined, log);
    return ports.parse(JSON.parse(first)).ports.https;
  }

  /** skopeo outside, as somebody. */
  const skopeo = (
    as: readonly [string, string] | undefined,
    command: 'copy' | 'inspect' | 'delete',
    ...args: string[]
  ) => {
    const side = command === 'copy' ? 'dest-' : '';
    const who = as === undefined ? [`--${side}no-creds`] : [`--${side}creds`, as.join(':')];
    const words = ['skopeo', '--insecure-policy', command, `--${side}cert-dir`, trusted, ...who, ...args];
    return client('env', [`HTTPS_PROXY=${proxy}`, 'NO_PROXY=', ...words]);
  };
  const push = (as: readonly [string, string] | undefined, name: string) =>
    skopeo(as, 'copy', `docker-archive:${archive}`, `docker://${HOST}/${name}`);

  test('the manifest leads core to the service of the registry', () => {
    const { core, service } = registryManifests();
    const address = core.env.find(({ name }) => name === 'REGISTRY_ADDRESS')?.value;
    assert.equal(address, `${service.metadata.name}:${service.spec.ports[0]?.port}`);
  });

  test('a user pushes and pulls through a gateway of its own, sees the image, and removes it; strangers may not', async () => {
    const pushed = await push(ANN, 'ann/app:1');
    assert.equal(pushed.code, 0, pushed.output);
    for (const stranger of [BOB, undefined]) {
      assert.notEqual((await push(stranger, 'ann/app:1')).code, 0);
      assert.notEqual((await skopeo(stranger, 'inspect', `docker://${HOST}/ann/app:1`)).code, 0);
    }
    const read = await skopeo(ANN, 'inspect', `docker://${HOST}/ann/app:1`);
    assert.equal(read.code, 0, read.output);
    const { auth, compute } = platform.ready.urls;
    const session = await logIn(auth, ...ANN);
    const facts = await request('GET', `${auth}/api/platform/facts`, { token: session });
    assert.equal(facts.json.registry_host, HOST);
    const { json } = await request('GET', `${compute}/compute/images`, { token: session });
    const images = z.array(z.object({ image: z.string() })).parse(json.list);
    assert.ok(images.some(({ image }) => image === `${HOST}/ann/app:1`));
    const removed = await skopeo(ANN, 'delete', `docker://${HOST}/ann/app:1`);
    assert.equal(removed.code, 0, removed.output);
    assert.notEqual((await skopeo(ANN, 'inspect', `docker://${HOST}/ann/app:1`)).code, 0);
  });

  test('a service account pushes by its token what its scopes name, and nothing else', async () => {
    const { auth } = platform.ready.urls;
    const session = await logIn(auth, ...ANN);
    const { json: who } = await request('GET', `${auth}/api/session`, { token: session });
    const scopes = { [`storage.${who.user_id}.registry.built`]: ['push', 'pull'] };
    const account = await request('POST', `${auth}/api/service-accounts`, {
      token: session,
      body: { name: 'ci', scopes },
    });
    assert.equal(account.status, 200, JSON.stringify(account.json));
    const url = `${auth}/api/service-accounts/${account.json.id}/tokens`;
    const made = await request('POST', url, { token: session, body: { name: 'ci' } });
    const as = ['ci', z.string().parse(made.json.token)] as const;
    const pushed = await push(as, 'ann/built:1');
    assert.equal(pushed.code, 0, pushed.output);
    assert.notEqual((await push(as, 'ann/other:1')).code, 0);
  });

  /** With tokens that are got as programs of the platform get them, and go through the gateway that runs alone. */
  const clientOf = async (session: string, repository: string, isKept = false) => {
    const ca = await readFile(join(trusted, 'ca.crt'), 'utf8');
    const scope = encodeURIComponent(`repository:${repository}:pull,push,delete`);
    const token = async () => {
      const url = `${platform.ready.urls.auth}/api/registry/token?scope=${scope}`;
      const { status, json } = await request('GET', url, { token: session });
      assert.equal(status, 200, JSON.stringify(json));
      return z.string().parse(json.token);
    };
    const kept = isKept ? await token() : undefined;
    const one = new RegistryClient({ port: gateway, host: HOST, ca, token: async () => kept ?? token() });
    cleanup.after(() => one.close());
    return one;
  };
  const usageOf = async (session: string) => {
    const { status, json } = await request('GET', `${platform.ready.urls.auth}/api/registry/usage`, { token: session });
    return { status, json };
  };
  const imageOf = (mib: number) => plainImage([randomBytes(mib * MIB)], 'oci');

  test('a push past the limit is refused with a sentence, the usage is told, and a removed name makes room', async () => {
    const session = await logIn(platform.ready.urls.auth, ...BOB);
    const bob = await clientOf(session, 'bob/app');
    const first = imageOf(10);
    await bob.push('bob/app', first, '1');
    // It is counted anew every three seconds at most.
    await until(async () => Number((await usageOf(session)).json.used_bytes) >= 10 * MIB, { what: 'it is counted' });
    const { json } = await usageOf(session);
    assert.equal(json.limit_bytes, USER_MB * MIB);
    assert.ok(Number(json.used_bytes) < 10.1 * MIB, JSON.stringify(json));
    const second = imageOf(10);
    await assert.rejects(bob.push('bob/app', second, '2'), (error) => {
      assert.ok(error instanceof RefusedPush);
      assert.equal(error.status, 403);
      assert.match(error.message, /DENIED.*The images of bob hold [0-9,]+ of 16,777,216 bytes.*`troupe image rm/s);
      return true;
    });
    assert.equal((await bob.ask('DELETE', `/v2/bob/app/manifests/${first.digest}`)).status, 202);
    // The front reads the limit of one user by its role.
    const limitMb = async (mb: string) =>
      assert.equal((await troupe(['users', 'registry-limit', 'bob', mb], { env })).code, 0);
    await limitMb('0');
    await assert.rejects(bob.push('bob/app', second, '2'), /DENIED.*The administrator lets bob push no images/s);
    await limitMb('default');
    await bob.push('bob/app', second, '2');
    assert.deepEqual(await bob.wrongIn('bob/app', second.digest), []);
    assert.match(pod.log(), /images without a name were collected for a user who needs room/);
    const facts = await request('GET', `${platform.ready.urls.auth}/api/platform/facts`, { token: session });
    assert.equal(z.object({ images_mb: z.number() }).parse(facts.json.limits).images_mb, USER_MB);
  });

  test('the front tells nobody but the platform what users have, and shows clients of gateways no page of its own', async () => {
    const session = await logIn(platform.ready.urls.auth, ...BOB);
    const query = encodeURIComponent('repository:bob/app:pull,push');
    const { json } = await request('GET', `${platform.ready.urls.auth}/api/registry/token?scope=${query}`, {
      token: session,
    });
    const front = `http://${pod.address}`;
    for (const path of ['/troupe/room', '/troupe/usage?user=bob'])
      for (const bearer of [undefined, session, String(json.token)]) {
        const headers = bearer === undefined ? {} : { authorization: `Bearer ${bearer}` };
        assert.equal((await fetch(front + path, { headers })).status, 401, path);
      }
    assert.ok(await isWell(`${front}/healthz`));
    assert.match(
      await (await fetch(`${front}/metrics`)).text(),
      /^troupe_registry_replies_total\{status="401"\} [1-9]/m,
    );
    const bob = await clientOf(session, 'bob/app');
    for (const path of ['/troupe/room', '/metrics', '/readyz', '/healthz'])
      assert.equal((await bob.ask('GET', path)).status, 404, path);
  });

  test('a token is refused for pushes at once when its session ends, and reads on', async () => {
    const { auth } = platform.ready.urls;
    const session = await logIn(auth, ...ANN);
    const kept = await clientOf(session, 'ann/held', true);
    await kept.push('ann/held', imageOf(1), '1');
    const image = imageOf(1);
    const location = await kept.beginUpload('ann/held');
    const another = await logIn(auth, ...ANN);
    const ended = await request('DELETE', `${auth}/api/settings/sessions`, { token: another });
    assert.ok(ended.status < 300, `${ended.status}`);
    for (const [method, path] of [
      ['POST', '/v2/ann/held/blobs/uploads/'],
      ['PATCH', location],
      ['PUT', '/v2/ann/held/manifests/2'],
    ] as const) {
      const { status, body } = await kept.ask(method, path, image.text, image.type);
      assert.equal(status, 403, `${method} ${body.toString()}`);
      assert.match(body.toString(), /DENIED.*no longer valid: it was revoked/);
    }
    assert.equal((await kept.ask('GET', '/v2/ann/held/tags/list')).status, 200);
  });

  test('a front that is killed amid a push leaves nothing locked, and what was pushed is whole', async () => {
    // Who has no limit: uploads that were broken off count for a while.
    const session = await logIn(platform.ready.urls.auth, 'admin', ADMIN_PASSWORD);
    const admin = await clientOf(session, 'admin/killed');
    const kept = imageOf(1);
    await admin.push('admin/killed', kept, 'kept');
    const uploads = join(pod.store, 'docker/registry/v2/repositories/admin/killed/_uploads');
    const begun = async () => new Set(await readdir(uploads).catch(() => []));
    for (const afterMs of [0, 20, 60]) {
      const image = imageOf(4);
      const before = await begun();
      const pushing = admin.push('admin/killed', image, `at${afterMs}`).then(
        () => 'whole',
        () => 'failed',
      );
      const isNew = async () => [...(await begun())].some((name) => !before.has(name));
      await Promise.race([until(isNew, { everyMs: 1, what: 'it has begun' }), pushing]);
      await pause(afterMs, 'fault');
      await pod.stop('front', 'SIGKILL');
      const outcome = await pushing;
      await pod.startFront();
      if (outcome === 'whole') assert.deepEqual(await admin.wrongIn('admin/killed', image.digest), []);
      assert.deepEqual(await admin.wrongIn('admin/killed', kept.digest), []);
      await admin.push('admin/killed', image, `at${afterMs}`);
      assert.deepEqual(await admin.wrongIn('admin/killed', image.digest), []);
    }
  });

  test('while the registry or its front is away pushes fail, tokens are given, and both are well again after', async () => {
    const session = await logIn(platform.ready.urls.auth, ...ANN);
    const ann = await clientOf(session, 'ann/away');
    await pod.stop('registry');
    await assert.rejects(ann.push('ann/away', imageOf(1), '1'), /50[234]/);
    assert.equal((await fetch(`http://${pod.address}/readyz`)).status, 503);
    assert.ok(await isWell(`http://${pod.address}/healthz`));
    await pod.startRegistry();
    const image = imageOf(1);
    await ann.push('ann/away', image, '1');
    await pod.stop('front');
    const from = performance.now();
    await assert.rejects(ann.push('ann/away', imageOf(1), '2'), /50[234]/);
    const ms = performance.now() - from;
    assert.ok(ms < 20_000, `${ms} ms`);
    const { status, json } = await usageOf(session);
    assert.equal(status, 503);
    assert.match(JSON.stringify(json), /The image registry does not answer now\. Try again in a moment\./);
    await pod.startFront();
    assert.deepEqual(await ann.wrongIn('ann/away', image.digest), []);
    await ann.push('ann/away', imageOf(1), '2');
  });

  test('core gives no token to push with while the disk of the front is full', { skip: mountSkip() }, async (t) => {
    const { auth } = platform.ready.urls;
    const session = await logIn(auth, ...ANN);
    const small = await mountSmall(t, '100m');
    await pod.stop('front');
    await pod.startFront(small);
    t.after(async () => {
      await pod.stop('front');
      await pod.startFront();
    });
    const ask = (actions: string) =>
      request('GET', `${auth}/api/registry/token?scope=${encodeURIComponent(`repository:ann/full:${actions}`)}`, {
        token: session,
      });
    const refused = await ask('pull,push');
    assert.equal(refused.status, 507);
    assert.match(JSON.stringify(refused.json), /The disk of the image registry is almost full: remove images/);
    assert.equal((await ask('pull')).status, 200);
    const both = await ask('push,delete');
    assert.deepEqual([both.status, both.json.access], [200, [{ repository: 'ann/full', actions: ['delete'] }]]);
  });

  test('without the key, and beside a registry of another name, the start is refused with a sentence', async () => {
    const start = (more: Record<string, string>) =>
      troupe(['up', '--domain', DOMAIN, '--data', join(folder, 'refused')], { env: { ...env, ...more } });
    const without = await start({ REGISTRY_SIGNING_KEY: '' });
    assert.equal(without.code, 1);
    assert.match(without.stderr, /REGISTRY_SIGNING_KEY is not set: nobody could log in there/);
    const lonely = await start({ REGISTRY_ADDRESS: '' });
    assert.equal(lonely.code, 1);
    assert.match(lonely.stderr, /REGISTRY_FRONT is store, and REGISTRY_ADDRESS is not set/);
    const another = await start({ REGISTRY_HOST: 'registry.example.com' });
    assert.equal(another.code, 1);
    assert.match(another.stderr, /registry\.cloud\.test, and REGISTRY_HOST names registry\.example\.com/);
  });
});
