/** The registry that comes along: the real docker-registry, run by `up`, used from outside by the real skopeo. */
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { copyFile, mkdir, readFile, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { z } from 'zod';
import { registryFiles } from '../../cmd/node/registry/files.ts';
import { runningRegistry } from '../../cmd/node/registry/process.ts';
import { tar } from '../../lib/tar.ts';
import {
  addUsers,
  deleteAll,
  logIn,
  type RunningPlatform,
  request,
  startPlatform,
  troupe,
} from '../support/cluster/platform.ts';
import { testDatabase } from '../support/database/database.ts';
import { docker, skipWithoutDocker, tinyImage } from '../support/engine/docker-client.ts';
import { proxyTo } from '../support/engine/outside.ts';
import { client } from '../support/engine/troupe-registry.ts';
import { skipWithout } from '../support/require.ts';
import { publicKey } from '../support/ssh/public-key.ts';
import { tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

const ADMIN_PASSWORD = 'the admin of this test';
const ANN: readonly [string, string] = ['ann', 'the password of ann'];
const BOB: readonly [string, string] = ['bob', 'the password of bob'];
const HOST = 'registry.cloud.test';
const revisionsSchema = z.object({
  revisions: z.array(z.object({ number: z.number(), digest: z.string(), current: z.boolean() })),
});
const skip = skipWithoutDocker() || skipWithout('docker', 'docker-registry', 'skopeo');

describe('the registry that comes along', { skip, timeout: 900_000 }, () => {
  const ends: (() => unknown)[] = [];
  const cleanup = { after: (end: () => unknown) => void ends.unshift(end) };
  let env: Record<string, string>;
  let data: string;
  let platform: RunningPlatform;
  let trusted: string;
  let archive: string;
  let proxy: string;
  let database: Awaited<ReturnType<typeof testDatabase>>;

  const start = async () => {
    platform = await startPlatform({ data, env, args: ['--domain', 'cloud.test'] });
  };
  const pidNow = () => runningRegistry(registryFiles(data));

  before(async () => {
    const folder = await tempDir(cleanup);
    const image = await tinyImage();
    database = await testDatabase();
    cleanup.after(() => database.close());
    data = join(folder, 'data');
    env = {
      DATABASE_URL: database.url,
      DEFAULT_IMAGE: image,
      ADMIN_PASSWORD,
      REGISTRY: 'auto',
      REGISTRY_USER_MB: '60',
    };
    await start();
    cleanup.after(() => platform.stop());
    await addUsers([ANN, BOB], data, env);
    // What a client needs of the platform: its authority, and its name.
    trusted = join(folder, 'trusted');
    await mkdir(trusted);
    await copyFile(join(data, 'ca.pem'), join(trusted, 'ca.crt'));
    proxy = await proxyTo(cleanup, Number(new URL(platform.ready.urls.https).port));
    archive = join(folder, 'image.tar');
    const saved = await client('docker', ['--host', process.env.DOCKER_HOST ?? '', 'save', '-o', archive, image]);
    assert.equal(saved.code, 0, saved.output);
  });

  after(async () => {
    for (const name of ['ann/app:1', 'ann/kept:1'])
      await docker()
        .call('DELETE', `/images/${HOST}/${name}`, { query: { noprune: true } })
        .catch(() => {});
    for (const end of ends) await end();
  });

  /** skopeo outside, as somebody. */
  const skopeo = (as: readonly [string, string] | undefined, command: string, ...args: string[]) =>
    client(
      'env',
      [
        ...[`HTTPS_PROXY=${proxy}`, 'NO_PROXY=', 'skopeo', '--insecure-policy', command],
        ...(command === 'copy' ? ['--dest-cert-dir', trusted] : ['--cert-dir', trusted]),
        ...(as === undefined ? ['--no-creds'] : [command === 'copy' ? '--dest-creds' : '--creds', as.join(':')]),
        ...args,
      ].map((word) => (command === 'copy' && word === '--no-creds' ? '--dest-no-creds' : word)),
    );
  const push = (as: readonly [string, string] | undefined, name: string, from = archive) =>
    skopeo(as, 'copy', `docker-archive:${from}`, `docker://${HOST}/${name}`);
  const local = async (...words: string[]) => {
    const { code, output } = await client('docker', ['--host', process.env.DOCKER_HOST ?? '', ...words]);
    assert.equal(code, 0, output);
    return output.trim();
  };

  test('a user pushes from outside, and runs a container of it; strangers are refused', async () => {
    const pushed = await push(ANN, 'ann/app:1');
    assert.equal(pushed.code, 0, pushed.output);
    for (const stranger of [BOB, undefined]) {
      assert.notEqual((await push(stranger, 'ann/app:1')).code, 0);
      assert.notEqual((await skopeo(stranger, 'inspect', `docker://${HOST}/ann/app:1`)).code, 0);
    }
    const { auth, compute } = platform.ready.urls;
    const session = await logIn(auth, ...ANN);
    const facts = await request('GET', `${auth}/api/platform/facts`, { token: session });
    assert.equal(facts.json.registry_host, HOST);
    const { json } = await request('GET', `${compute}/compute/images`, { token: session });
    const images = z.array(z.object({ image: z.string() })).parse(json.list);
    assert.ok(images.some(({ image }) => image === `${HOST}/ann/app:1`));

    const keyed = { name: 'laptop', public_key: publicKey() };
    const key = await request('POST', `${compute}/compute/ssh-keys`, { token: session, body: keyed });
    const body = { name: 'own', ssh_key_ids: [key.json.id], image: `${HOST}/ann/app:1` };
    const made = await request('POST', `${compute}/compute/containers`, { token: session, body });
    assert.equal(made.status, 200, JSON.stringify(made.json));
    const at = `${compute}/compute/containers/${made.json.id}`;
    const settled = await until(
      async () => {
        const { json } = await request('GET', at, { token: session });
        return json.status === 'running' || json.status === 'failed' ? json : undefined;
      },
      { what: 'it runs', timeoutMs: 60_000 },
    );
    assert.equal(settled.status, 'running', JSON.stringify(settled));
    assert.equal(settled.image, `${HOST}/ann/app:1`);
    // The name outside is the only one that is left in Docker.
    const tags = await docker().json(
      'GET',
      `/images/${HOST}/ann/app:1/json`,
      z.object({ RepoTags: z.array(z.string()) }),
    );
    assert.deepEqual(
      tags.RepoTags.filter((tag) => tag.includes('ann/app')),
      [`${HOST}/ann/app:1`],
    );

    // Its tag comes to name another image. The container goes back to what it ran, by its digest, and after a restart.
    const revisions = async () =>
      revisionsSchema.parse((await request('GET', `${at}/revisions`, { token: session })).json).revisions;
    const [first] = await revisions();
    const running = (what: string) =>
      until(
        async () => {
          const { json } = await request('GET', at, { token: session });
          return json.status === 'running' && json.next_image === undefined ? json : undefined;
        },
        { what, timeoutMs: 60_000 },
      );
    const others = join(data, '..', 'other.tar');
    const copy = await local('create', `${HOST}/ann/app:1`);
    await local('commit', '-c', 'LABEL other=1', copy, 'other-app:1');
    await local('rm', copy);
    await local('save', '-o', others, 'other-app:1');
    await local('rmi', 'other-app:1');
    assert.equal((await push(ANN, 'ann/app:1', others)).code, 0);
    const other = { image: `${HOST}/ann/app:1`, pull_policy: 'Always', env: { A: '1' } };
    assert.equal((await request('PATCH', at, { token: session, body: other })).status, 200);
    await until(async () => (await revisions()).length === 2, { what: 'the other runs', timeoutMs: 60_000 });
    const [second] = await revisions();
    assert.notEqual(second?.digest, first?.digest);
    assert.equal((await request('PATCH', at, { token: session, body: { revision: 1 } })).status, 200);
    await until(async () => (await revisions()).length === 3, { what: 'it is back', timeoutMs: 60_000 });
    const back = await running('it runs');
    assert.deepEqual([back.image, back.image_digest], [`${HOST}/ann/app:1`, first?.digest]);
    for (const step of ['stop', 'start'])
      assert.equal((await request('POST', `${at}/${step}`, { token: session })).status, 200);
    await running('it runs after a start');
    assert.deepEqual(
      (await revisions()).map(({ number, digest, current }) => [number, digest, current]),
      [
        [3, first?.digest, true],
        [2, second?.digest, false],
        [1, first?.digest, false],
      ],
    );
    await deleteAll(compute, session);
  });

  test('a client that sends layers in one stream is told why it may not, and leaves nothing', async () => {
    const file = (path: string, data: Buffer | string) =>
      ({ kind: 'file', path, mode: 0o644, data: Buffer.from(data) }) as const;
    const layer = tar([file('data', randomBytes(70 * 2 ** 20))]);
    const diff = `sha256:${createHash('sha256').update(layer).digest('hex')}`;
    const config = { architecture: 'amd64', os: 'linux', rootfs: { type: 'layers', diff_ids: [diff] } };
    const manifest = [{ Config: 'c.json', Layers: ['l.tar'] }];
    const large = join(data, '..', 'large.tar');
    const entries = [file('manifest.json', JSON.stringify(manifest)), file('c.json', JSON.stringify(config))];
    await writeFile(large, tar([...entries, file('l.tar', layer)]));
    const copy = (to: string) => ['copy', `docker-archive:${large}`, `docker://${HOST}/${to}`] as const;
    const refused = await skopeo(BOB, ...copy('bob/large:1'));
    assert.notEqual(refused.code, 0);
    assert.match(refused.output, /denied: The images of bob hold [0-9,]+ of 62,914,560 bytes/i);
    const token = await logIn(platform.ready.urls.auth, ...BOB);
    const left = async () =>
      (await request('GET', `${platform.ready.urls.auth}/api/registry/usage`, { token })).json.used_bytes;
    await until(async () => Number(await left()) < 10_000, { what: 'nothing of the layer is left' });
    // The administrator has no limit.
    const allowed = await skopeo(['admin', ADMIN_PASSWORD], ...copy('library/large:1'));
    assert.equal(allowed.code, 0, allowed.output);

    // One user may have more than all, or nothing.
    const { auth } = platform.ready.urls;
    const admin = await logIn(auth, 'admin', ADMIN_PASSWORD);
    const users = z
      .array(z.object({ id: z.string() }))
      .parse((await request('GET', `${auth}/api/admin/users?prefix=bob`, { token: admin })).json.list);
    const change = async (registry_limit_mb: number, as = admin) =>
      (await request('PATCH', `${auth}/api/admin/users/${users[0]?.id}`, { token: as, body: { registry_limit_mb } }))
        .status;
    assert.equal(await change(100, token), 403, 'nobody gives themselves room');
    assert.equal(await change(100), 200);
    assert.equal((await request('GET', `${auth}/api/registry/usage`, { token })).json.limit_bytes, 100 * 2 ** 20);
    const more = await skopeo(BOB, ...copy('bob/large:1'));
    assert.equal(more.code, 0, more.output);
    assert.equal(await change(0), 200);
    const none = await skopeo(BOB, 'copy', `docker-archive:${archive}`, `docker://${HOST}/bob/small:1`);
    assert.notEqual(none.code, 0);
    assert.match(none.output, /denied: The administrator lets bob push no images: ask for room there/i);
    const pulled = await skopeo(BOB, 'inspect', `docker://${HOST}/bob/large:1`);
    assert.equal(pulled.code, 0, pulled.output);
  });

  test('an image for another kind of machine is refused where a container is made of it, and is not kept', async () => {
    const file = (path: string, data: Buffer | string) =>
      ({ kind: 'file', path, mode: 0o644, data: Buffer.from(data) }) as const;
    const layer = tar([file('data', 'some')]);
    const diff = `sha256:${createHash('sha256').update(layer).digest('hex')}`;
    // Which no emulator runs that is there.
    const config = { architecture: 's390x', os: 'linux', rootfs: { type: 'layers', diff_ids: [diff] } };
    const manifest = [{ Config: 'c.json', Layers: ['l.tar'] }];
    const other = join(data, '..', 'other.tar');
    const entries = [file('manifest.json', JSON.stringify(manifest)), file('c.json', JSON.stringify(config))];
    await writeFile(other, tar([...entries, file('l.tar', layer)]));
    const pushed = await skopeo(ANN, 'copy', `docker-archive:${other}`, `docker://${HOST}/ann/other:1`);
    assert.equal(pushed.code, 0, pushed.output);
    const { auth, compute } = platform.ready.urls;
    const session = await logIn(auth, ...ANN);
    const keyed = { name: 'second', public_key: publicKey() };
    const key = await request('POST', `${compute}/compute/ssh-keys`, { token: session, body: keyed });
    const body = { name: 'other', ssh_key_ids: [key.json.id], image: `${HOST}/ann/other:1` };
    const made = await request('POST', `${compute}/compute/containers?wait=running`, { token: session, body });
    assert.equal(made.json.status, 'failed', JSON.stringify(made.json));
    assert.match(String(made.json.status_reason), /is for linux\/s390x, and the platform runs linux\/\w+: build it/);
    const kept = await docker()
      .call('GET', `/images/${HOST}/ann/other:1/json`)
      .then(
        () => true,
        () => false,
      );
    assert.equal(kept, false);
    await deleteAll(compute, session);
  });

  test('a wrong password is refused, and counts for the address of the client and not of the gateway', async () => {
    const wrong = await skopeo(['ann', 'a wrong password'], 'inspect', `docker://${HOST}/ann/app:1`);
    assert.notEqual(wrong.code, 0);
    assert.match(wrong.output, /unauthorized|password/i);
    assert.doesNotMatch(platform.log(), /X-Forwarded-For of a peer that is not trusted/);
  });

  test('it is started again when it was killed, and has what was pushed', async () => {
    assert.equal((await push(ANN, 'ann/kept:1')).code, 0);
    const pid = pidNow();
    assert.ok(pid !== undefined);
    process.kill(pid, 'SIGKILL');
    await until(() => pidNow() !== undefined && pidNow() !== pid, { what: 'another process runs' });
    await until(async () => (await skopeo(ANN, 'inspect', `docker://${HOST}/ann/kept:1`)).code === 0, {
      what: 'the image is there',
    });
  });

  test('a platform that was killed leaves it to the next, or to down', async () => {
    const pid = pidNow();
    assert.ok(pid !== undefined);
    await platform.kill();
    assert.equal(pidNow(), pid);
    await start();
    assert.equal(pidNow(), pid, 'adopted');
    assert.equal(await platform.stop(), 0);
    assert.equal(pidNow(), undefined, 'it ends with the platform');

    await start();
    await platform.kill();
    assert.notEqual(pidNow(), undefined);
    const down = await troupe(['down', '--data', data], { env });
    assert.equal(down.code, 0, down.stderr);
    assert.match(down.stdout, /Stopped the image registry\./);
    assert.equal(pidNow(), undefined);
    await start();
  });

  test('with REGISTRY=off, and beside one of the operator, none is run', async () => {
    await platform.stop();
    for (const other of [{ REGISTRY: 'off' }, { REGISTRY_HOST: '127.0.0.1:5000' }]) {
      const without = await startPlatform({ data, env: { ...env, ...other }, args: ['--domain', 'cloud.test'] });
      assert.equal(pidNow(), undefined);
      await without.stop();
    }
    await start();
    assert.notEqual(pidNow(), undefined);
  });

  test('a start gives back the space of images without a name, and keeps those with one, for all machines', async () => {
    const files = registryFiles(data);
    const root = join(files.store, 'docker/registry/v2');
    const revisions = join(root, 'repositories/ann/many/_manifests/revisions/sha256');
    const blobOf = (hex: string) => join(root, 'blobs/sha256', hex.slice(0, 2), hex, 'data');
    const session = await logIn(platform.ready.urls.auth, ...ANN);
    const scope = encodeURIComponent('repository:ann/many:pull,push');
    const given = await request('GET', `${platform.ready.urls.auth}/api/registry/token?scope=${scope}`, {
      token: session,
    });
    const token = z.string().parse(given.json.token);
    const at = `http://127.0.0.1:${/addr: 127\.0\.0\.1:(\d+)/.exec(await readFile(files.config, 'utf8'))?.[1]}/v2/ann/many`;
    const put = async (name: string, type: string, manifest: object) => {
      const text = JSON.stringify({ schemaVersion: 2, mediaType: type, ...manifest });
      const digest = `sha256:${createHash('sha256').update(text).digest('hex')}`;
      const headers = { authorization: `Bearer ${token}`, 'content-type': type };
      const reply = await fetch(`${at}/manifests/${name || digest}`, { method: 'PUT', headers, body: text });
      assert.equal(reply.status, 201, await reply.text());
      return { digest, size: text.length };
    };
    const blob = async (text: string) => {
      const headers = { authorization: `Bearer ${token}` };
      const begun = await fetch(`${at}/blobs/uploads/`, { method: 'POST', headers });
      const digest = `sha256:${createHash('sha256').update(text).digest('hex')}`;
      const upload = new URL(begun.headers.get('location') ?? '', at);
      upload.searchParams.set('digest', digest);
      assert.equal((await fetch(upload, { method: 'PUT', headers, body: text })).status, 201);
      return { digest, size: text.length };
    };
    const MANIFEST = 'application/vnd.docker.distribution.manifest.v2+json';
    const LIST = 'application/vnd.docker.distribution.manifest.list.v2+json';
    const one = async (name: string, text: string) => {
      const part = await blob(text);
      const config = { mediaType: 'application/vnd.docker.container.image.v1+json', ...part };
      return { mediaType: MANIFEST, ...(await put(name, MANIFEST, { config, layers: [] })), part };
    };
    const moved = await one('moved', '{"of":"before"}');
    const now = await one('moved', '{"of":"now"}');
    const machine = await one('', '{"architecture":"arm64"}');
    const young = await one('', '{"pushed":"just now"}');
    const pinned = await one('', '{"of":"a container"}');
    const { mediaType, digest, size } = machine;
    await put('all', LIST, {
      manifests: [{ mediaType, digest, size, platform: { architecture: 'arm64', os: 'linux' } }],
    });
    const hex = ({ digest }: { digest: string }) => digest.slice('sha256:'.length);
    const twoDaysAgo = new Date(Date.now() - 2 * 24 * 3_600_000);
    for (const old of [moved, now, machine, pinned]) {
      for (const path of [join(revisions, hex(old), 'link'), blobOf(hex(old)), blobOf(hex(old.part))])
        await utimes(path, twoDaysAgo, twoDaysAgo);
    }
    await platform.stop();
    await database.db.run(
      `insert into containers (id, user_id, slot, name, instance_type, memory_mb, storage_gb, pull_policy, mount_paths,
         ssh_enabled, desired, status, former_image)
       select 'pinned000000', id, 3, 'pinned', 'nano', 512, 5, 'IfNotPresent', '{/root}', true, 'stopped', 'stopped', $1
       from users where username = 'ann'`,
      [`${HOST}/ann/many@${pinned.digest}`],
    );
    await start();
    assert.deepEqual(
      [moved, now, machine, young, pinned].map((each) => existsSync(join(revisions, hex(each), 'link'))),
      [false, true, true, true, true],
    );
    assert.deepEqual(
      [moved, now, machine, young, pinned].map(({ part }) => existsSync(blobOf(hex(part)))),
      [false, true, true, true, true],
    );
    const kept = await readFile(join(root, 'repositories/ann/kept/_manifests/tags/1/current/link'), 'utf8');
    assert.ok(existsSync(blobOf(hex({ digest: kept }))));
  });

  test('doctor shows it, its folder is closed to others, and its log is bounded', async () => {
    const files = registryFiles(data);
    assert.equal((await stat(files.folder)).mode & 0o077, 0);
    const { stdout } = await troupe(['doctor', '--data', data, '--json'], { env });
    assert.match(stdout, /"name":"Image registry","ok":true/);
    assert.match(await readFile(files.config, 'utf8'), /addr: 127\.0\.0\.1:\d+\n/);
    await writeFile(files.log, 'x'.repeat(6 * 1024 * 1024), { flag: 'a' });
    await until(async () => (await readFile(files.log)).length < 1024 * 1024, { what: 'its log is cut' });
    assert.ok(existsSync(`${files.log}.1`));
  });
});
