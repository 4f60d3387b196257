/** The compute service over HTTP and WebSocket, endpoint by endpoint, on a real Docker Engine. */

import assert from 'node:assert/strict';
import { type ChildProcessWithoutNullStreams, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { z } from 'zod';
import { USER_LIMITS } from '../../proto/user-limits.ts';
import { type TestSocket, UpgradeRefused, websocket } from '../support/clients/websocket.ts';
import {
  deleteAll,
  logIn,
  type Reply,
  type RunningPlatform,
  request,
  startPlatform,
  troupe,
} from '../support/cluster/platform.ts';
import { testDatabase } from '../support/database/database.ts';
import { docker, inDocker, skipWithoutDocker, tinyImage } from '../support/engine/docker-client.ts';
import { findProgram, skipWithout } from '../support/require.ts';
import { CREATED_FIELDS, VIEW_FIELDS } from '../support/service/container-fields.ts';
import { publicKey } from '../support/ssh/public-key.ts';
import { tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

const run = promisify(execFile);
const text = z.string();
const object = z.record(text, z.unknown());
const keys = (value: unknown) => Object.keys(object.parse(value)).sort();
const NOBODYS_ID = 'aaaaaaaaaaaa';

describe('the compute interface', { skip: skipWithoutDocker(), timeout: 900_000 }, () => {
  const ends: (() => unknown)[] = [];
  const cleanup = { after: (end: () => unknown) => void ends.unshift(end) };
  let platform: RunningPlatform;
  let data = '';
  let [admin, ann, bob, annId, image] = ['', '', '', '', ''];
  let database: Awaited<ReturnType<typeof testDatabase>>;

  before(async () => {
    data = await tempDir(cleanup);
    database = await testDatabase();
    cleanup.after(() => database.close());
    image = await tinyImage();
    const env = { DATABASE_URL: database.url, DEFAULT_IMAGE: image, ADMIN_PASSWORD: 'the admin here' };
    platform = await startPlatform({ data, env });
    cleanup.after(() => platform.stop());
    for (const name of ['ann', 'bob']) {
      const added = await troupe(['users', 'add', name, '--data', data], { env, input: `the password of ${name}\n` });
      assert.equal(added.code, 0, added.stderr);
    }
    const { auth } = platform.ready.urls;
    admin = await logIn(auth, 'admin', 'the admin here');
    ann = await logIn(auth, 'ann', 'the password of ann');
    bob = await logIn(auth, 'bob', 'the password of bob');
    annId = text.parse((await request('GET', `${auth}/api/session`, { token: ann })).json.user_id);
  });
  after(async () => {
    if (bob !== '') await deleteAll(url(''), admin, ann, bob);
    for (const end of ends) await end();
  });

  const url = (path: string) => `${platform.ready.urls.compute}${path}`;
  const of = (id: string, path = '') => `/compute/containers/${id}${path}`;
  const call = (method: string, path: string, body?: unknown, token = ann) =>
    request(method, url(path), { token, ...(body === undefined ? {} : { body }) });

  async function ok(method: string, path: string, body?: unknown, token = ann): Promise<Reply['json']> {
    const { status, json } = await call(method, path, body, token);
    assert.equal(status, 200, `${method} ${path}: ${JSON.stringify(json)}`);
    return json;
  }

  async function refuses(status: number, code: string, method: string, path: string, body?: unknown): Promise<void> {
    const reply = await call(method, path, body);
    assert.deepEqual([reply.status, reply.json.code], [status, code], `${method} ${path} ${JSON.stringify(body)}`);
  }

  const list = (json: Reply['json'], key: string) => z.array(object).parse(json[key]);
  const key = async (token = ann, line = publicKey()) =>
    z.number().parse((await ok('POST', '/compute/ssh-keys', { name: 'k', public_key: line }, token)).id);
  const status = async (id: string, token = ann) => text.parse((await ok('GET', of(id), undefined, token)).status);
  const reaches = (id: string, wanted: string, token = ann) =>
    until(async () => (await status(id, token)) === wanted, { what: `${id} is ${wanted}`, timeoutMs: 60_000 });

  async function created(body: object, token = ann): Promise<string> {
    return text.parse((await ok('POST', '/compute/containers', { name: 'box', ...body }, token)).id);
  }
  async function gone(id: string, token = ann): Promise<void> {
    await ok('DELETE', of(id), undefined, token);
    await until(async () => (await inDocker(id)).length === 0, { what: 'Docker forgets it', timeoutMs: 60_000 });
  }
  const updates = (token = ann): Promise<TestSocket> =>
    websocket(cleanup, url('/compute/ws').replace('http', 'ws'), { headers: { authorization: `Bearer ${token}` } });

  test('a container from its creation to its deletion: each reply, each default, each status pushed', async () => {
    const socket = await updates();
    assert.deepEqual(await socket.json(), { type: 'containers', data: [] });
    const keyId = await key();
    const made = await ok('POST', '/compute/containers', { name: 'box', ssh_key_ids: [keyId] });
    const id = text.parse(made.id);
    assert.match(id, /^[a-z][a-z0-9]{11}$/);
    assert.deepEqual(keys(made), CREATED_FIELDS);
    assert.ok(z.iso.datetime().safeParse(made.created_at).success);
    const defaults = {
      id,
      name: 'box',
      status: 'pending',
      hostname: `${id}.compute.troupe.localhost`,
      memory_mb: 512,
      storage_gb: 5,
      instance_type: 'nano',
      created_at: made.created_at,
      ssh_enabled: false,
      https_enabled: false,
      pull_policy: 'IfNotPresent',
    };
    assert.deepEqual(made, defaults);
    assert.deepEqual((await ok('GET', of(id, '/mounts'))).mount_paths, ['/root']);
    await reaches(id, 'running');

    const one = await ok('GET', of(id));
    assert.deepEqual(keys(one), VIEW_FIELDS);
    assert.equal(one.ssh_command, `ssh root@${defaults.hostname}`);
    assert.ok(Number.isInteger(one.memory_used_mb) && typeof one.storage_used_gb === 'number');
    await until(async () => Number((await ok('GET', of(id))).memory_used_mb) > 0, { what: 'memory is measured' });
    const all = await ok('GET', '/compute/containers');
    assert.deepEqual(keys(all), ['containers']);
    assert.deepEqual(list(all, 'containers').map(keys), [VIEW_FIELDS]);

    const stopped = await ok('POST', of(id, '/stop'));
    assert.deepEqual([keys(stopped), stopped.status], [CREATED_FIELDS, 'stopped']);
    await refuses(409, 'conflict', 'POST', of(id, '/stop'));
    const started = await ok('POST', of(id, '/start'));
    assert.deepEqual([keys(started), started.status], [CREATED_FIELDS, 'pending']);
    await refuses(409, 'conflict', 'POST', of(id, '/start'));
    await reaches(id, 'running');
    const [{ address } = { address: '' }] = await inDocker(id);
    assert.deepEqual(await ok('DELETE', of(id)), { status: 'ok' });
    for (const [method, path] of [
      ['GET', ''],
      ['DELETE', ''],
      ['POST', '/start'],
      ['GET', '/mounts'],
    ] as const) {
      await refuses(404, 'not_found', method, of(id, path));
    }
    const wanted = ['pending', 'initializing', 'running', 'stopped', 'pending', 'initializing', 'running'];
    const pushed: { status: unknown; external_ip: unknown }[] = [];
    while (pushed.length < wanted.length) {
      const event = object.parse(await socket.json());
      assert.equal(event.type, 'container_status');
      assert.deepEqual(keys(event.data), ['container_id', 'external_ip', 'status']);
      const { container_id, status, external_ip } = object.parse(event.data);
      assert.equal(container_id, id);
      pushed.push({ status, external_ip });
    }
    assert.deepEqual(
      pushed.map((one) => one.status),
      wanted,
    );
    assert.equal(pushed.at(-1)?.external_ip, address);
    assert.ok(pushed.every((one) => (one.status === 'running') === (one.external_ip !== '')));
    await until(async () => (await inDocker(id)).length === 0, { timeoutMs: 60_000 });
    await socket.close();
  });

  test('what is given at creation is what the container is, up to each limit', async () => {
    const ssh_key_ids = [await key()];
    const body = {
      ...{
        name: 'A b.c_d-1',
        instance_type: 'tiny',
        memory_mb: 128,
        storage_gb: 1024,
        mount_paths: ['/data', '/srv/www'],
      },
      ...{ image, pull_policy: 'IfNotPresent', ssh_enabled: true, ssh_key_ids },
    };
    const id = await created(body);
    const view = await ok('GET', of(id));
    for (const field of ['name', 'instance_type', 'memory_mb', 'storage_gb', 'pull_policy', 'ssh_enabled'] as const) {
      assert.equal(view[field], body[field], field);
    }
    await reaches(id, 'running');
    const [found] = await inDocker(id);
    const limits = z.object({ HostConfig: z.object({ Memory: z.number(), NanoCpus: z.number() }) });
    const { HostConfig } = await docker().json('GET', `/containers/${found?.id}/json`, limits);
    assert.deepEqual(HostConfig, { Memory: 128 * 2 ** 20, NanoCpus: 1e9 });
    const good = { name: 'x', ssh_key_ids };
    for (const [field, values] of Object.entries({
      name: ['', ' x', '-x', '.x', 'x'.repeat(64), 'x\0', 'ü', 'a/b', 7, null],
      instance_type: ['', 'huge', 'NANO', 1],
      memory_mb: [127, 65_537, 0, -1, 512.5, '512', 1e308, null],
      storage_gb: [0, -1, 1025, 1.5, '5'],
      ssh_key_ids: [
        [],
        [0],
        [-1],
        ['1'],
        1,
        [2_147_483_648],
        Array(USER_LIMITS.ssh_keys.most + 1).fill(ssh_key_ids[0]),
        [999_999],
      ],
      ssh_enabled: ['true', 1],
      mount_paths: [[], ['data'], ['/'], ['/proc'], ['/a', '/a'], ['/a', '/a/b'], ['/a:ro'], '/data'],
      image: ['-v', 'http://x/y:1', 'debian', 'UPPER/x:1', 'x'.repeat(10_000), `${image}@sha256:00`],
      pull_policy: ['always', 'Never', true],
      privileged: [true],
    })) {
      for (const value of values) {
        await refuses(400, 'invalid_request', 'POST', '/compute/containers', { ...good, [field]: value });
      }
    }
    await gone(id);
  });

  test('three containers, and the fourth is refused until one is deleted', async () => {
    const ssh_key_ids = [await key(bob)];
    const ids = [];
    // The same name twice, at once, is two containers.
    const twins = await Promise.all([created({ ssh_key_ids }, bob), created({ ssh_key_ids }, bob)]);
    ids.push(...twins, await created({ ssh_key_ids, memory_mb: 65_536 }, bob));
    const fourth = await call('POST', '/compute/containers', { name: 'x', ssh_key_ids }, bob);
    assert.deepEqual([fourth.status, fourth.json.code], [403, 'limit_reached']);
    const all = z.array(object).parse((await ok('GET', '/compute/admin/containers', undefined, admin)).list);
    assert.deepEqual(
      all
        .filter(({ owner }) => owner === 'bob')
        // It has a start from when it runs: it may not run yet.
        .map((entry) => [
          [...new Set([...keys(entry), 'started_at'])].sort(),
          entry.id,
          Number.isInteger(entry.created_at),
        ]),
      ids.map((id) => [[...VIEW_FIELDS, 'external_ip', 'owner', 'user_id'].sort(), id, true]),
    );
    for (const token of [ann, bob]) {
      const refused = await call('GET', '/compute/admin/containers', undefined, token);
      assert.deepEqual([refused.status, refused.json.code], [403, 'forbidden']);
    }
    // Deleted in whatever it is doing.
    for (const id of ids) await gone(id, bob);
    await gone(await created({ ssh_key_ids }, bob), bob);
  });

  test('SSH keys: ten at most, each once, listed and deleted by number', async () => {
    for (const { id } of list(await ok('GET', '/compute/ssh-keys', undefined, bob), 'ssh_keys')) {
      assert.deepEqual(await ok('DELETE', `/compute/ssh-keys/${id}`, undefined, bob), { status: 'ok' });
    }
    const line = publicKey();
    const made = await ok('POST', '/compute/ssh-keys', { name: 'laptop', public_key: line }, bob);
    assert.deepEqual(keys(made), ['created_at', 'id', 'login', 'name', 'public_key']);
    assert.deepEqual([made.name, made.public_key], ['laptop', line]);
    const twice = await call('POST', '/compute/ssh-keys', { name: 'again', public_key: line }, bob);
    assert.deepEqual([twice.status, twice.json.code], [409, 'conflict']);
    for (let i = 1; i < 10; i++) await key(bob);
    const eleventh = await call('POST', '/compute/ssh-keys', { name: 'k', public_key: publicKey() }, bob);
    assert.deepEqual([eleventh.status, eleventh.json.code], [403, 'limit_reached']);
    assert.equal(list(await ok('GET', '/compute/ssh-keys', undefined, bob), 'ssh_keys').length, 10);
    for (const body of [
      { name: 'k' },
      { name: '', public_key: publicKey() },
      { name: 'k', public_key: 'ssh-dss AAAA' },
    ]) {
      await refuses(400, 'invalid_request', 'POST', '/compute/ssh-keys', body);
    }
    await refuses(404, 'not_found', 'DELETE', `/compute/ssh-keys/${made.id}`);
  });

  test('the images begin with the default one, which can be given as it is listed', async () => {
    const images = z.array(object).parse((await ok('GET', '/compute/images')).list);
    const [first, ...others] = images.map(keys);
    assert.deepEqual(first, ['image', 'name', 'source']);
    // Those of the catalog also have a short name, and say whether they are built unless Docker is slow.
    for (const one of others)
      assert.deepEqual(
        one.filter((key) => key !== 'built'),
        ['alias', 'image', 'name', 'source'],
      );
    assert.deepEqual([images[0]?.image, images[0]?.source], [image, 'builtin']);
  });

  test('ingress rules, mounts and pull policy of a running container', async () => {
    const id = await created({ ssh_key_ids: [await key()], ssh_enabled: true });
    await reaches(id, 'running');
    assert.deepEqual(await ok('GET', of(id, '/ingress')), { rules: [] });
    const rule = await ok('POST', of(id, '/ingress'), { port: 443, target_port: 8443 });
    assert.deepEqual(keys(rule), ['created_at', 'id', 'port', 'target_port']);
    assert.deepEqual([rule.port, rule.target_port, Number.isInteger(rule.created_at)], [443, 8443, true]);
    assert.equal((await ok('GET', of(id))).https_enabled, true);
    for (const port of [80, 8000, 8999])
      assert.equal((await ok('POST', of(id, '/ingress'), { port })).target_port, port);
    assert.deepEqual(
      list(await ok('GET', of(id, '/ingress')), 'rules').map(({ port }) => port),
      [80, 443, 8000, 8999],
    );
    await refuses(409, 'conflict', 'POST', of(id, '/ingress'), { port: 443 });
    for (const port of [0, -1, 79, 81, 442, 7999, 9000, 65_536, 8000.5, '80', '80/tcp; rm', null]) {
      await refuses(400, 'invalid_request', 'POST', of(id, '/ingress'), { port });
    }
    for (const target_port of [0, -1, 65_536, 1.5, '80', null]) {
      await refuses(400, 'invalid_request', 'POST', of(id, '/ingress'), { port: 8001, target_port });
    }
    for (const port of [443, 80, 8000, 8999]) {
      assert.deepEqual(await ok('DELETE', of(id, `/ingress/${port}`)), { status: 'ok' });
    }
    for (const port of ['443', '0', '-1', 'x', '99999', '80%2Ftcp']) {
      await refuses(404, 'not_found', 'DELETE', of(id, `/ingress/${port}`));
    }
    assert.equal((await ok('GET', of(id))).https_enabled, false);

    const [before] = await inDocker(id);
    await exec(before?.id ?? '', 'echo 1 >/root/kept');
    const mounts = await ok('PUT', of(id, '/mounts'), { mount_paths: ['/root', '/data'] });
    assert.deepEqual(mounts, { mount_paths: ['/root', '/data'], restarted: true });
    await reaches(id, 'running');
    const [now] = await inDocker(id);
    assert.notEqual(now?.id, before?.id);
    await exec(now?.id ?? '', 'test "$(cat /root/kept)" = 1 && grep -q " /data " /proc/mounts && : >/root/seen');
    await ok('POST', of(id, '/stop'));
    assert.deepEqual(await ok('PUT', of(id, '/mounts'), { mount_paths: ['/root'] }), {
      mount_paths: ['/root'],
      restarted: false,
    });
    await refuses(400, 'invalid_request', 'PUT', of(id, '/mounts'), { mount_paths: [] });
    assert.deepEqual(await ok('PUT', of(id, '/pull-policy'), { pull_policy: 'Always' }), { pull_policy: 'Always' });
    assert.equal((await ok('GET', of(id))).pull_policy, 'Always');
    await refuses(400, 'invalid_request', 'PUT', of(id, '/pull-policy'), { pull_policy: 'Never' });
    await ok('PUT', of(id, '/pull-policy'), { pull_policy: 'IfNotPresent' });
    await ok('POST', of(id, '/start'));
    await reaches(id, 'running');
    const [last] = await inDocker(id);
    await exec(last?.id ?? '', 'test -e /root/seen && ! grep -q " /data " /proc/mounts && : >/root/done');
    await exec(last?.id ?? '', 'test -e /root/done');
    await gone(id);
  });

  test('an API token needs the scope of each row, and has its own container by id only', async () => {
    const id = await created({ ssh_key_ids: [await key()] });
    const token = async (scopes: Record<string, string[]>) =>
      text.parse(
        (await request('POST', `${platform.ready.urls.auth}/api/tokens`, { token: ann, body: { name: 't', scopes } }))
          .json.token,
      );
    const one = `compute.${annId}.containers.${id}`;
    const rows: [method: string, path: string, scope: string, action: string, body?: object][] = [
      ['GET', of(id), one, 'read'],
      ['GET', of(id, '/ssh'), one, 'read'],
      ['PUT', of(id, '/ssh'), one, 'update', { ssh_enabled: false }],
      ['GET', of(id, '/ingress'), one, 'read'],
      ['POST', of(id, '/ingress'), one, 'update', { port: 8080 }],
      ['DELETE', of(id, '/ingress/8080'), one, 'update'],
      ['GET', of(id, '/mounts'), one, 'read'],
      ['PUT', of(id, '/mounts'), one, 'update', { mount_paths: ['/root'] }],
      ['PUT', of(id, '/pull-policy'), one, 'update', { pull_policy: 'IfNotPresent' }],
      ['GET', '/compute/images', `compute.${annId}.containers`, 'read'],
      ['GET', '/compute/address-names', `compute.${annId}.containers`, 'read'],
      ['GET', '/compute/containers', `compute.${annId}.containers`, 'read'],
      ['GET', '/compute/ssh-keys', `compute.${annId}.keys`, 'read'],
    ];
    const none = await token({ [`compute.${annId}.containers.${NOBODYS_ID}`]: ['read', 'update'] });
    for (const [method, path, scope, action, body] of rows) {
      const refused = await call(method, path, body, none);
      assert.deepEqual([refused.status, refused.json.error], [403, `forbidden: missing ${scope} scope`], path);
      const granted = await call(method, path, body, await token({ [scope]: [action] }));
      assert.equal(granted.status, 200, `${method} ${path} ${JSON.stringify(granted.json)}`);
    }
    // What is in files is more than what `read` shows.
    const file = of(id, '/files?path=/etc/troupe/env');
    const reader = await call(
      'GET',
      file,
      undefined,
      await token({ [one]: ['create', 'read', 'start', 'stop', 'delete'] }),
    );
    assert.deepEqual([reader.status, reader.json.error], [403, `forbidden: missing ${one} scope`]);
    for (const by of [await token({ [one]: ['update'] }), ann]) {
      const kept = await call('GET', file, undefined, by);
      assert.deepEqual([kept.status, kept.json.code], [403, 'forbidden']);
    }
    // Only the administrator's login, not a token of the administrator.
    const whole = await call(
      'GET',
      '/compute/admin/containers',
      undefined,
      await token({ [`compute.${annId}`]: ['read'] }),
    );
    assert.equal(whole.status, 403);
    await gone(id);
  });

  test('terminal and log of a container that does not run are refused before the upgrade', async () => {
    const id = await created({ ssh_key_ids: [await key()] });
    await ok('POST', of(id, '/stop'));
    for (const path of ['/terminal', '/logs']) {
      const opening = websocket(cleanup, `${url(of(id, path)).replace('http', 'ws')}?token=${ann}`);
      await assert.rejects(opening, (error) => error instanceof UpgradeRefused && error.status === 409);
    }
    await gone(id);
  });

  describe('SSH through the container’s address', { skip: skipWithout('ssh', 'dbclient', 'dropbearkey') }, () => {
    const plain = ['-o', 'StrictHostKeyChecking=no', '-o', 'UserKnownHostsFile=/dev/null', '-o', 'BatchMode=yes'];
    const openssh = (file: string, address: string) => [
      'ssh',
      '-i',
      file,
      ...plain,
      '-o',
      'LogLevel=ERROR',
      '-o',
      'IdentitiesOnly=yes',
      `root@${address}`,
    ];
    const dropbear = (file: string, address: string) => ['dbclient', '-y', '-y', '-i', file, `root@${address}`];

    async function keyPair(name: string): Promise<{ file: string; line: string }> {
      const file = join(data, name);
      await run('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', file]);
      return { file, line: (await readFile(`${file}.pub`, 'utf8')).trim() };
    }
    async function dropbearPair(name: string): Promise<{ file: string; line: string }> {
      const file = join(data, name);
      const { stdout } = await run('dropbearkey', ['-t', 'ed25519', '-f', file]);
      return { file, line: /^ssh-ed25519 \S+/m.exec(stdout)?.[0] ?? '' };
    }
    /** A session that says it is there and stays. */
    async function session([program = '', ...args]: string[]): Promise<{
      child: ChildProcessWithoutNullStreams;
      ended: Promise<unknown>;
    }> {
      const child = spawn(findProgram(program) ?? program, [...args, 'echo in; exec cat']);
      cleanup.after(() => child.kill('SIGKILL'));
      const ended = once(child, 'exit');
      const first = await Promise.race([once(child.stdout, 'data'), ended]);
      assert.equal(String(first[0]), 'in\n');
      return { child, ended };
    }
    const enters = async ([program = '', ...args]: string[]) =>
      run(findProgram(program) ?? program, [...args, 'echo in'], { timeout: 20_000 }).then(
        ({ stdout }) => stdout === 'in\n',
        () => false,
      );

    test('chosen keys enter, others do not; a deleted key and disabled SSH end their sessions and no others', async (t) => {
      const [first, second, other] = [await keyPair('first'), await dropbearPair('second'), await keyPair('other')];
      const [a, b] = [await key(ann, first.line), await key(ann, second.line)];
      await key(ann, other.line);
      const id = await created({ ssh_key_ids: [a, b] });
      await reaches(id, 'running');
      const address = (await inDocker(id))[0]?.address ?? '';
      assert.equal(await enters(openssh(first.file, address)), false, 'SSH is not enabled');

      assert.deepEqual(await ok('GET', of(id, '/ssh')), { ssh_enabled: false });
      assert.deepEqual(await ok('PUT', of(id, '/ssh'), { ssh_enabled: true }), { ssh_enabled: true });
      await until(() => enters(openssh(first.file, address)), { what: 'the key is let in' });
      await until(() => enters(dropbear(second.file, address)), { what: 'the other key is let in' });
      assert.equal(await enters(openssh(other.file, address)), false, 'a key that was not chosen');

      const terminal = await websocket(cleanup, `${url(of(id, '/terminal')).replace('http', 'ws')}?token=${ann}`);
      await terminal.next();
      const sessions = [await session(openssh(first.file, address)), await session(dropbear(second.file, address))];
      const measured = async (what: string, done: Promise<unknown>, change: () => Promise<unknown>) => {
        const from = performance.now();
        await Promise.all([
          change(),
          Promise.race([done, once(AbortSignal.timeout(10_000), 'abort').then(() => assert.fail(what))]),
        ]);
        t.diagnostic(`${what}: ${Math.round(performance.now() - from)} ms`);
      };
      await measured('a session ends after its key is deleted', sessions[0]?.ended ?? assert.fail(), () =>
        ok('DELETE', `/compute/ssh-keys/${a}`),
      );
      assert.equal(await enters(openssh(first.file, address)), false);
      assert.equal(sessions[1]?.child.exitCode, null, 'the other key’s session goes on');
      await measured('a session ends after SSH is disabled', sessions[1]?.ended ?? assert.fail(), () =>
        ok('PUT', of(id, '/ssh'), { ssh_enabled: false }),
      );
      assert.equal(await enters(dropbear(second.file, address)), false);
      terminal.send(Buffer.from('echo still $((20 + 1))\n'));
      let shown = '';
      while (!shown.includes('still 21')) {
        const frame = await terminal.next();
        if ('binary' in frame) shown += Buffer.from(frame.binary).toString();
      }
      await terminal.close();
      await gone(id);
    });
  });

  /** Runs a line in a container of Docker, to its end. */
  async function exec(dockerId: string, line: string): Promise<void> {
    const { Id } = await docker().json('POST', `/containers/${dockerId}/exec`, z.object({ Id: text }), {
      body: { Cmd: ['/bin/sh', '-c', line], AttachStdout: true },
    });
    await docker().call('POST', `/exec/${Id}/start`, { body: { Detach: false, Tty: false } });
    const { ExitCode } = await docker().json('GET', `/exec/${Id}/json`, z.object({ ExitCode: z.number() }));
    assert.equal(ExitCode, 0, line);
  }
});
