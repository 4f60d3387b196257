/** The release command of a container: by the command line, with real Docker, and over SIGKILL of the platform. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { z } from 'zod';
import { deleteAll, logIn, type RunningPlatform, request, startPlatform, troupe } from '../support/cluster/platform.ts';
import { testDatabase } from '../support/database/database.ts';
import { docker, inDocker, skipWithoutDocker, tinyImage } from '../support/engine/docker-client.ts';
import { publicKey } from '../support/ssh/public-key.ts';
import { suiteCleanup } from '../support/suite.ts';
import { tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

const ADMIN_PASSWORD = 'the admin of this test';
const SECRET = 'hunter2-canary';
/** Nobody answers there: what is on the machine is not pulled. */
const REPOSITORY = `127.0.0.1:1/admin/release-${process.pid}`;
const [ONE, TWO] = [`${REPOSITORY}:1`, `${REPOSITORY}:2`] as const;
const listed = z.object({ containers: z.array(z.object({ id: z.string(), name: z.string() })) });
const view = z.object({
  ...{ status: z.string(), image: z.string(), started_at: z.string() },
  ...{ next_image: z.string().optional(), status_reason: z.string().optional() },
});

describe('a release command', { skip: skipWithoutDocker(), timeout: 900_000 }, () => {
  const cleanup = suiteCleanup();
  let platform: RunningPlatform;
  let token: string;
  let id: string;
  let start: () => Promise<void>;
  let run: (...args: string[]) => ReturnType<typeof troupe>;
  const api = (method: string, path: string, body?: object) =>
    request(method, `${platform.ready.urls.compute}${path}`, { token, ...(body === undefined ? {} : { body }) });
  const seen = async () => view.parse((await api('GET', `/compute/containers/${id}`)).json);

  before(async () => {
    const folder = await tempDir(cleanup);
    const image = await tinyImage();
    const database = await testDatabase();
    cleanup.after(() => database.close());
    for (const tag of ['1', '2']) {
      await docker().call('POST', `/images/${image}/tag`, { query: { repo: REPOSITORY, tag } });
      cleanup.after(() =>
        docker().call('DELETE', `/images/${REPOSITORY}:${tag}`, { query: { force: true, noprune: true } }),
      );
    }
    const data = join(folder, 'data');
    const env = { DATABASE_URL: database.url, DEFAULT_IMAGE: image, ADMIN_PASSWORD, XDG_CONFIG_HOME: folder };
    start = async () => {
      platform = await startPlatform({ data, env: { ...env, REGISTRY_HOST: '127.0.0.1:1' } });
      token = await logIn(platform.ready.urls.auth, 'admin', ADMIN_PASSWORD);
    };
    await start();
    cleanup.after(async () => {
      await deleteAll(platform.ready.urls.compute, token);
      await platform.stop();
    });
    run = (...args) => troupe(args, { env });
    await api('POST', '/compute/ssh-keys', { name: 'k', public_key: publicKey() });
    const login = ['login', '--user', 'admin', '--password-stdin', '--data', data];
    const { code, stderr } = await troupe(login, { env, input: `${ADMIN_PASSWORD}\n` });
    assert.equal(code, 0, stderr);
  });

  test('runs at the first start, where a failure says why, and the container starts once it is mended', async () => {
    const failing = await run(
      'run',
      'app',
      '--image',
      ONE,
      '--mount',
      'none',
      '-e',
      `KEY=${SECRET}`,
      '--release',
      'exit 9',
    );
    assert.equal(failing.code, 1, failing.stderr);
    assert.match(
      failing.stderr,
      /The release command ended with exit code 9\. The container is not started: mend that/,
    );
    id = listed.parse((await api('GET', '/compute/containers')).json).containers[0]?.id ?? '';
    const mended = await run('update', 'app', '--release', `test "$KEY" = ${SECRET}`);
    assert.equal(mended.code, 0, mended.stderr);
    const started = await run('start', 'app', '--wait');
    assert.equal(started.code, 0, started.stderr);
    assert.equal((await seen()).status, 'running');
  });

  test('that fails leaves the container running as it is, and `troupe update` ends with 1 and the reason', async () => {
    await api('PATCH', `/compute/containers/${id}`, { env: { KEY: null }, secrets: { KEY: SECRET } });
    const isBack = async () => (await seen()).status === 'running';
    await until(isBack, { what: 'it was restarted with the secret', timeoutMs: 60_000 });
    const before = await seen();
    const { code, stderr } = await run(
      'update',
      'app',
      '--image',
      TWO,
      '--release',
      'echo "no psql://app:$KEY@db"; exit 4',
    );
    assert.equal(code, 1, stderr);
    assert.match(
      stderr,
      /The image was not changed to \S+:2\. The release command ended with exit code 4, and said last: /,
    );
    assert.match(
      stderr,
      /no psql:\/\/app:\*\*\*@db\. The container runs on with \S+:1\. Mend that, and change it again\./,
    );
    assert.deepEqual((await seen()).started_at, before.started_at);
    assert.equal((await seen()).image, ONE);
    assert.equal((await inDocker(id)).length, 1);
  });

  test('reaches the members of its private network, and the image is changed when it went well', async () => {
    const db = await run('run', 'db', '--mount', 'none', '--network', 'shop', '--alias', 'db');
    assert.equal(db.code, 0, db.stderr);
    assert.equal((await run('update', 'app', '--network', 'shop', '--alias', 'app')).code, 0);
    const release = 'test "$(nc -w 5 db 22 < /dev/null | head -c 4)" = SSH-';
    const { code, stderr } = await run('update', 'app', '--image', TWO, '--release', release);
    assert.equal(code, 0, stderr);
    assert.match(stderr, /the image \(\S+:2\), the release command\. A new container took its place\./);
    assert.equal((await seen()).image, TWO);
  });

  test('that is cut off by SIGKILL of the platform runs again, and nothing of the first is left', async () => {
    await api('PATCH', `/compute/containers/${id}`, { image: ONE, release: ['/bin/sh', '-c', 'sleep 6'] });
    const isRunning = async () => /^The release command runs/.test((await seen()).status_reason ?? '');
    await until(isRunning, { what: 'its user reads that it runs', timeoutMs: 60_000 });
    const names = async () => {
      const filters = JSON.stringify({ label: [`troupe.container=${id}`] });
      const found = z.array(z.object({ Names: z.array(z.string()), Id: z.string() }));
      const all = await docker().json('GET', '/containers/json', found, { query: { all: true, filters } });
      return all.flatMap(({ Names, Id }) => (Names.some((name) => name.endsWith('.once')) ? [Id] : []));
    };
    const first = await until(
      async () => {
        const found = await names();
        return found.length === 1 ? found : undefined;
      },
      { what: 'it runs in Docker', timeoutMs: 60_000 },
    );
    await platform.kill();
    assert.deepEqual(await names(), first);
    await start();
    const isDone = async () => {
      const now = await seen();
      return now.status === 'running' && now.next_image === undefined ? now : undefined;
    };
    const done = await until(isDone, { what: 'the image is changed', timeoutMs: 90_000 });
    assert.deepEqual([done.image, done.status_reason], [ONE, undefined]);
    assert.deepEqual(await names(), []);
  });
});
