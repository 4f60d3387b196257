/** A container that is changed: by the command line and by tokens, with a real registry and Docker, and over SIGKILL. */
import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { z } from 'zod';
import { deleteAll, logIn, type RunningPlatform, request, startPlatform, troupe } from '../support/cluster/platform.ts';
import { testDatabase } from '../support/database/database.ts';
import { docker, inDocker, skipWithoutDocker, tinyImage } from '../support/engine/docker-client.ts';
import { DockerCli, startRegistry } from '../support/engine/troupe-registry.ts';
import { skipWithout } from '../support/require.ts';
import { publicKey } from '../support/ssh/public-key.ts';
import { suiteCleanup } from '../support/suite.ts';
import { freePort, tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

const ADMIN_PASSWORD = 'the admin of this test';
const JWT_SECRET = 'the shared secret of this test, long enough';
const ISSUER = 'https://auth.registry.test';
const view = z.object({
  status: z.string(),
  image: z.string(),
  next_image: z.string().optional(),
  memory_mb: z.number(),
  status_reason: z.string().optional(),
});
const limits = z.object({ HostConfig: z.object({ Memory: z.number() }), State: z.object({ StartedAt: z.string() }) });
const skip = skipWithoutDocker() || skipWithout('docker', 'docker-registry');

describe('a container that is changed', { skip, timeout: 900_000 }, () => {
  const cleanup = suiteCleanup();
  let platform: RunningPlatform;
  let token: string;
  let id: string;
  let host: string;
  let start: () => Promise<void>;
  /** An operator's command, and one of people. */
  let cli: (...args: string[]) => ReturnType<typeof troupe>;
  let run: typeof cli;
  const tag = (version: string) => `${host}/admin/app:${version}`;
  const api = (method: string, path: string, body?: object, by = token) =>
    request(method, `${platform.ready.urls.compute}${path}`, { token: by, ...(body === undefined ? {} : { body }) });
  const change = (body: object, by = token) => api('PATCH', `/compute/containers/${id}`, body, by);
  const seen = async () => view.parse((await api('GET', `/compute/containers/${id}`)).json);
  const settled = () =>
    until(
      async () => {
        const now = await seen();
        return now.status === 'running' && now.next_image === undefined ? now : undefined;
      },
      { what: 'it runs, and no image waits', timeoutMs: 60_000 },
    );
  const inside = async () => {
    const [found] = await inDocker(id);
    assert.ok(found);
    return docker().json('GET', `/containers/${found.id}/json`, limits);
  };
  const exec = async (command: string) => {
    const { code, stdout, stderr } = await run('exec', 'one', '--', command);
    assert.equal(code, 0, stderr);
    return stdout;
  };

  before(async () => {
    const folder = await tempDir(cleanup);
    const image = await tinyImage();
    const database = await testDatabase();
    cleanup.after(() => database.close());
    const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    const keyFile = join(folder, 'key.pem');
    await writeFile(keyFile, privateKey.export({ type: 'pkcs8', format: 'pem' }), { mode: 0o600 });
    const port = await freePort();
    host = `127.0.0.1:${port}`;
    const env = {
      ...{ DATABASE_URL: database.url, DEFAULT_IMAGE: image, ADMIN_PASSWORD, JWT_SECRET },
      ...{ REGISTRY_HOST: host, REGISTRY_ISSUER: ISSUER, REGISTRY_SIGNING_KEY: keyFile },
      ...{ XDG_CONFIG_HOME: folder },
    };
    const data = join(folder, 'data');
    start = async () => {
      platform = await startPlatform({ data, env });
      token = await logIn(platform.ready.urls.auth, 'admin', ADMIN_PASSWORD);
    };
    await start();
    cleanup.after(async () => {
      await deleteAll(platform.ready.urls.compute, token);
      await platform.stop();
    });
    cli = (...args) => troupe([...args, '--data', data], { env });
    run = (...args) => troupe(args, { env });
    const certificate = await cli('registry', 'certificate');
    await startRegistry(cleanup, {
      ...{ port, service: host, issuer: ISSUER, bundle: certificate.stdout },
      realm: `${platform.ready.urls.auth}/v2/token`,
    });
    const program = new DockerCli(folder);
    assert.equal((await program.login(host, 'admin', ADMIN_PASSWORD)).code, 0);
    for (const version of ['1', '2', '3']) {
      assert.equal((await program.run(['tag', image, tag(version)])).code, 0);
      assert.equal((await program.run(['push', tag(version)])).code, 0);
      await program.run(['image', 'rm', '--no-prune', tag(version)]);
      cleanup.after(() => program.run(['image', 'rm', '--no-prune', tag(version)]));
    }
    const key = await api('POST', '/compute/ssh-keys', { name: 'k', public_key: publicKey() });
    const body = { name: 'one', image: tag('1'), ssh_key_ids: [key.json.id] };
    id = z.object({ id: z.string() }).parse((await api('POST', '/compute/containers?wait=running', body)).json).id;
    await settled();
    const login = await troupe(['login', '--user', 'admin', '--password-stdin', '--data', data], {
      env,
      input: `${ADMIN_PASSWORD}\n`,
    });
    assert.equal(login.code, 0, login.stderr);
  });

  test('gets another image by the command line, which waits and says what came of it', async () => {
    await exec('echo kept > /root/kept; echo lost > /opt-lost');
    const { code, stderr } = await run('update', 'one', '--image', tag('2'));
    assert.equal(code, 0, stderr);
    assert.ok(stderr.endsWith(`Changed one: the image (${tag('2')}). It was restarted.\n`), stderr);
    assert.match(stderr, /is being pulled|present|pending|initializing/);
    assert.equal(await exec('cat /root/kept; [ -e /opt-lost ] || echo gone'), 'kept\ngone\n');
  });

  test('goes back to what it ran before by the command line, and forth again', async () => {
    const back = await run('update', 'one', '--revision', 'previous');
    assert.equal(back.code, 0, back.stderr);
    assert.match(
      back.stderr,
      /Changed one: what it runs \(as in revision 1, secrets as of today\)\. It was restarted\.\n$/,
    );
    assert.equal((await seen()).image, tag('1'));
    const { stdout } = await run('revisions', 'one', '--json');
    const list = z.object({ revisions: z.array(z.object({ number: z.number(), current: z.boolean() })) });
    assert.deepEqual(
      list.parse(JSON.parse(stdout)).revisions.map(({ number, current }) => [number, current]),
      [3, 2, 1].map((number) => [number, number === 3]),
    );
    const forth = await run('update', 'one', '--revision', '2');
    assert.equal(forth.code, 0, forth.stderr);
    assert.equal((await seen()).image, tag('2'));
  });

  test('runs on from the image it has when another cannot be pulled', async () => {
    const before = await inside();
    const { code, stderr } = await run('update', 'one', '--image', tag('none'));
    assert.notEqual(code, 0);
    assert.match(stderr, /The image was not changed to \S+:none\. .* runs on with \S+:2\. Push the image/s);
    assert.deepEqual(await inside(), before);
    assert.equal((await seen()).image, tag('2'));
  });

  test('runs on with variables of its own when the one beside it fails, and says what that one said', async () => {
    const { json } = await api('GET', '/compute/ssh-keys');
    const [key] = z.object({ ssh_keys: z.array(z.object({ id: z.number() })) }).parse(json).ssh_keys;
    const of = { name: 'beside', image: tag('1'), stateless: true, ssh_key_ids: [key?.id] };
    const made = await api('POST', '/compute/containers?wait=running', of);
    const path = `/compute/containers/${z.object({ id: z.string() }).parse(made.json).id}`;
    const failed = z.object({
      failed_change: z.object({ reason: z.string(), answers: z.array(z.string()), log: z.array(z.string()) }),
    });
    const who = async () => (await run('exec', 'beside', '--', 'echo "$WHO."')).stdout;
    const over = async () => {
      const body = {
        ...{ image: tag('2'), env: { WHO: 'second' }, secrets: { KEY: 'correct horse' } },
        command: ['/bin/sh', '-c', 'seq 1 30 | while read at; do echo "line $at: $KEY"; done; exec sleep 1000'],
        health: { command: ['/bin/sh', '-c', 'echo no; exit 1'], grace: 2 },
      };
      assert.equal((await api('PATCH', path, body)).status, 200);
      await until(async () => view.parse((await api('GET', path)).json).next_image === undefined, {
        what: 'it was given up',
        timeoutMs: 60_000,
      });
      return failed.parse((await api('GET', `${path}/revisions`)).json).failed_change;
    };
    // Without settings, and then with some.
    const { reason, answers, log } = await over();
    assert.match(reason, /^The image was not changed to \S+:2\. It was not healthy within 2 s: /);
    assert.match(answers.join(), /ended with exit code 1, and said: no$/);
    assert.deepEqual(
      log,
      Array.from({ length: 20 }, (_, at) => `line ${at + 11}: ***`),
    );
    assert.equal(await who(), '.\n');
    assert.equal((await api('PATCH', path, { env: { WHO: 'first' } })).status, 200);
    await until(async () => view.parse((await api('GET', path)).json).status === 'running');
    assert.equal(await who(), 'first.\n');
    await over();
    assert.equal(await who(), 'first.\n');
    const unwell = ['--health-command', 'false', '--health-grace', '2', '--', 'sh', '-c', 'seq 1 30; exec sleep 1000'];
    const { code, stderr } = await run('update', 'beside', '--image', tag('3'), ...unwell);
    assert.equal(code, 1, stderr);
    assert.match(
      stderr,
      /change it again\.\nIts check, the last answers:\n {2}.*ended with exit code 1\n\nThe end of its log:\n {2}11\n {2}12\n/,
    );
    assert.match(stderr, /\n {2}30\n$/);
    assert.equal((await api('DELETE', path)).status, 200);
  });

  test('gets other limits while it runs', async () => {
    const before = await inside();
    const { code, stderr } = await run('update', 'one', '--memory', '768M', '--size', 'micro');
    assert.equal(code, 0, stderr);
    assert.equal(stderr, 'Changed one: memory (512 to 768 MB), size (nano to micro). It was not restarted.\n');
    await until(async () => (await inside()).HostConfig.Memory === 768 * 2 ** 20, { what: 'the limit is there' });
    assert.equal((await inside()).State.StartedAt, before.State.StartedAt);
  });

  test('runs another command beside its SSH server, and none again', async () => {
    const script = 'echo "$1" > /root/ran; while :; do sleep 1; done';
    const given = await run('update', 'one', '--', 'sh', '-c', script, 'sh', "it's one");
    assert.equal(given.stderr.split('\n').at(-2), 'Changed one: the command. It was restarted.', given.stderr);
    assert.equal(await until(() => exec('cat /root/ran || :'), { what: 'the command ran' }), "it's one\n");
    assert.match(await exec('ps'), /sshd/);
    const taken = await run('update', 'one', '--no-command');
    assert.match(taken.stderr, /Changed one: the command \(as the image says\)\. It was restarted\.\n$/);
    assert.doesNotMatch(await exec('ps'), /root\/ran/);
    const both = await run('update', 'one', '--no-command', '--', 'true');
    assert.deepEqual([both.code, both.stderr], [2, 'troupe: Give a command, or --no-command.\n']);
  });

  test('is changed by tokens that may update it, and by no others', async () => {
    const { json } = await request('GET', `${platform.ready.urls.auth}/api/session`, { token });
    const { user_id: uid } = z.object({ user_id: z.string() }).parse(json);
    const tokenOf = async (scopes: Record<string, string[]>) => {
      const made = await request('POST', `${platform.ready.urls.auth}/api/tokens`, {
        token,
        body: { name: 'narrow', scopes },
      });
      return z.object({ token: z.string() }).parse(made.json).token;
    };
    const narrow: Record<string, string[]>[] = [
      { [`compute.${uid}.containers.${id}`]: ['read', 'start', 'stop'] },
      { [`compute.${uid}.containers.aaaaaaaaaaaa`]: ['update'] },
      { [`compute.${uid}.keys`]: ['update'] },
    ];
    for (const scopes of narrow)
      for (const body of [{ image: null }, { memory_mb: 1024 }, { ssh_key_ids: [1] }])
        assert.equal((await change(body, await tokenOf(scopes))).status, 403, JSON.stringify(scopes));
    const may = await tokenOf({ [`compute.${uid}.containers.${id}`]: ['update'] });
    assert.equal((await change({ memory_mb: 640 }, may)).status, 200);
    assert.equal((await seen()).memory_mb, 640);
  });

  test('has the image that was asked for after the platform was killed, wherever it was', async () => {
    // While the image waits.
    assert.equal((await change({ image: tag('3') })).status, 200);
    await platform.kill();
    await start();
    assert.equal((await settled()).image, tag('3'));
    // While the container is made anew.
    assert.equal((await change({ image: tag('1') })).status, 200);
    await until(async () => (await seen()).next_image === undefined, { what: 'it was pulled', everyMs: 5 });
    await platform.kill();
    await start();
    assert.equal((await settled()).image, tag('1'));
    const kept = await fetch(`${platform.ready.urls.compute}/compute/containers/${id}/files?path=/root/kept`, {
      headers: { authorization: `Bearer ${token}` },
    });
    assert.equal(await kept.text(), 'kept\n');
  });
});
