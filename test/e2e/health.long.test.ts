/** The health of containers with real Docker: a slow start, a wrong port, and a broken image that is given up. */
import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { request as httpRequest } from 'node:http';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { z } from 'zod';
import { deleteAll, logIn, type RunningPlatform, request, startPlatform, troupe } from '../support/cluster/platform.ts';
import { testDatabase } from '../support/database/database.ts';
import { skipWithoutDocker, tinyImage } from '../support/engine/docker-client.ts';
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
  health: z.string().nullable(),
  health_reason: z.string().optional(),
  status_reason: z.string().optional(),
});
const skip = skipWithoutDocker() || skipWithout('docker', 'docker-registry');
/** A page that comes some seconds after the start, beside the SSH server. */
const program = (page: string, at: string) =>
  `(sleep 3; mkdir -p /www; echo ${page} > /www/index.html; exec httpd -f -p ${at} -h /www) & ` +
  'exec /usr/local/sbin/troupe-init';
const PROGRAMS = {
  one: program('one', '8080'),
  two: program('two', '8080'),
  broken: program('broken', '127.0.0.1:8080'),
};

describe('health', { skip, timeout: 900_000 }, () => {
  const cleanup = suiteCleanup();
  let platform: RunningPlatform;
  let token: string;
  let id: string;
  let host: string;
  let start: () => Promise<void>;
  let run: (...args: string[]) => ReturnType<typeof troupe>;
  const tag = (version: keyof typeof PROGRAMS) => `${host}/admin/app:${version}`;
  const api = (method: string, path: string, body?: object) =>
    request(method, `${platform.ready.urls.compute}${path}`, { token, ...(body === undefined ? {} : { body }) });
  const seen = async () => view.parse((await api('GET', `/compute/containers/${id}`)).json);
  /** What a client of the gateway gets. */
  const page = () =>
    new Promise<string>((resolve, reject) => {
      const { port } = new URL(platform.ready.urls.http);
      const headers = { host: `${id}.compute.troupe.localhost` };
      httpRequest({ host: '127.0.0.1', port, path: '/', headers, agent: false, timeout: 20_000 })
        .on('error', reject)
        .on('response', (response) => {
          let text = '';
          response.on('data', (chunk: Buffer) => (text += chunk));
          response.on('end', () => resolve(text));
        })
        .end();
    });

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
    run = (...args) => troupe(args, { env });
    const certificate = await troupe(['registry', 'certificate', '--data', data], { env });
    await startRegistry(cleanup, {
      ...{ port, service: host, issuer: ISSUER, bundle: certificate.stdout },
      realm: `${platform.ready.urls.auth}/v2/token`,
    });
    const cli = new DockerCli(folder);
    assert.equal((await cli.login(host, 'admin', ADMIN_PASSWORD)).code, 0);
    for (const version of ['one', 'two', 'broken'] as const) {
      const made = (await cli.run(['create', image])).output.trim();
      cleanup.after(() => cli.run(['image', 'rm', '--no-prune', tag(version)]));
      const command = `CMD ${JSON.stringify(['/bin/sh', '-c', PROGRAMS[version]])}`;
      const committed = await cli.run(['commit', '--change', command, made, tag(version)]);
      await cli.run(['rm', made]);
      assert.equal(committed.code, 0, committed.output);
      const pushed = await cli.run(['push', tag(version)]);
      assert.equal(pushed.code, 0, pushed.output);
    }
    await api('POST', '/compute/ssh-keys', { name: 'k', public_key: publicKey() });
    const login = await troupe(['login', '--user', 'admin', '--password-stdin', '--data', data], {
      env,
      input: `${ADMIN_PASSWORD}\n`,
    });
    assert.equal(login.code, 0, login.stderr);
  });

  test('is waited for over a slow start, and shown', async () => {
    const { code, stderr } = await run('run', 'one', '--image', tag('one'), '-p', '80:8080', '--health', 'http:8080/');
    assert.equal(code, 0, stderr);
    assert.match(stderr, /Not healthy yet: nothing answers on port 8080/);
    assert.match(stderr, /one is running and healthy/);
    const list = z.object({ containers: z.array(z.object({ id: z.string() })) });
    id = list.parse((await api('GET', '/compute/containers')).json).containers[0]?.id ?? '';
    assert.match((await run('show', 'one')).stdout, /health\thealthy/);
    await until(async () => (await page()) === 'one\n', { what: 'the page', timeoutMs: 60_000 });
  });

  test('on a wrong port says what listens inside', async () => {
    const { code, stderr } = await run('update', 'one', '--health', 'tcp:9999', '--health-grace', '2');
    assert.equal(code, 0, stderr);
    assert.match(
      stderr,
      /It was not healthy within 2 s: nothing answers on port 9999\. Inside, httpd listens on \S+:8080\./,
    );
    assert.match((await run('ps')).stdout, /running \(unhealthy\)/);
    const back = await run('update', 'one', '--health', 'http:8080/', '--health-grace', '20');
    assert.equal(back.code, 0, back.stderr);
    assert.equal((await seen()).health, 'healthy');
  });

  test('that does not come with another image leads back, and the page is served', async () => {
    const { code, stderr } = await run('update', 'one', '--image', tag('broken'));
    assert.notEqual(code, 0, stderr);
    assert.match(stderr, /The change to \S+:broken was given up.* has \S+:one and the settings of before/);
    assert.match(stderr, /Inside, httpd listens on 127\.0\.0\.1:8080\. Let it listen on 0\.0\.0\.0:8080/);
    const now = await until(
      async () => {
        const found = await seen();
        return found.health === 'healthy' ? found : undefined;
      },
      { what: 'it is healthy again', timeoutMs: 60_000 },
    );
    assert.deepEqual([now.image, now.status], [tag('one'), 'running']);
    assert.equal(await page(), 'one\n');
  });

  test('comes with another image, whose page nobody gets the former in the place of', async () => {
    assert.equal(await page(), 'one\n');
    const { code, stderr } = await run('update', 'one', '--image', tag('two'));
    assert.equal(code, 0, stderr);
    assert.equal(await page(), 'two\n');
    // What was kept of the new one counts.
    assert.equal(await page(), 'two\n');
  });

  test('is found by a platform that was killed, whatever of the change and of the way back was done', async () => {
    const broken = { image: tag('broken'), health: { http: { port: 8080 }, grace: 4 } };
    const comes = (is: (now: z.output<typeof view>) => boolean, what: string) =>
      until(async () => is(await seen()), { what, timeoutMs: 60_000, everyMs: 20 });
    assert.equal((await api('PATCH', `/compute/containers/${id}`, broken)).status, 200);
    await comes(({ image }) => image === tag('broken'), 'the switch is written');
    await platform.kill();
    await start();
    await comes(({ image }) => image === tag('two'), 'the way back is written');
    await platform.kill();
    await start();
    await comes(({ status, health }) => status === 'running' && health === 'healthy', 'it is healthy again');
    const now = await seen();
    assert.deepEqual([now.image, now.next_image], [tag('two'), undefined]);
    assert.match(now.status_reason ?? '', /The change to \S+:broken was given up/);
    await until(async () => (await page()) === 'two\n', { what: 'the page', timeoutMs: 60_000 });
  });
});
