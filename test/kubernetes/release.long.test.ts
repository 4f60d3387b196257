/** Release commands in a cluster: what the pod of a command that runs once is, and what the platform does with it. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { z } from 'zod';
import type { ContainerSpec, RunOnceOptions, Workload } from '../../proto/ports/engine.ts';
import { logIn, type RunningPlatform, request, startPlatform, troupe } from '../support/cluster/platform.ts';
import { testDatabase } from '../support/database/database.ts';
import { keys, rejectsWith, Suite, textOfLine } from '../support/engine/conformance-suite.ts';
import { type KubernetesUnderTest, kubernetesUnderTest } from '../support/engine/kubernetes-under-test.ts';
import { tinyImageMissing } from '../support/engine/tiny-image.ts';
import { startRegistry } from '../support/engine/troupe-registry.ts';
import { clusterDomain } from '../support/kubernetes/cluster-names.ts';
import { kubeconfigOf } from '../support/kubernetes/manifests.ts';
import { skipWithoutKubernetes } from '../support/kubernetes/programs.ts';
import { pushFrom } from '../support/kubernetes/revisions.ts';
import { testStorageClass } from '../support/kubernetes/volumes.ts';
import { skipWithout } from '../support/require.ts';
import { publicKey } from '../support/ssh/public-key.ts';
import { inReverse, suiteCleanup } from '../support/suite.ts';
import { freePort, tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

const SECRET = 'canary-1f9c';
const skip = tinyImageMissing() ?? (skipWithoutKubernetes() || skipWithout('docker-registry'));
const listed = z.object({ items: z.array(z.object({ metadata: z.object({ name: z.string(), uid: z.string() }) })) });
const secretView = z.object({ data: z.record(z.string(), z.string()).optional() });
const serviceView = z.object({ spec: z.object({ selector: z.record(z.string(), z.string()) }) });

describe('a command that runs once in a cluster', { skip, timeout: 900_000 }, () => {
  let under: KubernetesUnderTest;
  let suite: Suite;
  before(async () => {
    under = await kubernetesUnderTest({ names: true });
    suite = new Suite(under);
  });
  after(() => under?.end());

  const get = async (id: string, rest: string) => (await under.cluster.call('GET', pathOf(under, id, rest))).json;
  /** The pods in which commands of a container run once. */
  const onces = async (id: string) =>
    listed.parse(await get(id, '/pods')).items.filter(({ metadata }) => metadata.name === 'once');
  const runs = async (id: string) => (await onces(id)).length === 1;
  const run = (
    change: Partial<ContainerSpec> & Pick<ContainerSpec, 'id'>,
    script: string,
    options: Partial<RunOnceOptions> = {},
    workload: Partial<Workload> = {},
  ) =>
    under.engine.runOnce(
      suite.again({ mountPaths: [], ...change }),
      { env: { KEY: SECRET }, command: ['/bin/sh', '-c', script], ...workload },
      undefined,
      { timeoutMs: 60_000, signal: new AbortController().signal, ...options },
    );
  const said = async (...asked: Parameters<typeof run>) => (await run(...asked)).lines.map(textOfLine).join('\n');

  test('has the limits of the container, and its mount paths, or folders that are empty or as the image has them', async () => {
    const id = await suite.started({ mountPaths: ['/data', '/etc/ssh'] });
    await under.exec(id, 'echo kept > /data/file; echo kept > /etc/ssh/file; echo own > /own');
    const limit = 'cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null';
    const apart = `ls -A /data | wc -l; test -e /etc/ssh/file || echo none; test -e /own || echo none; ${limit}`;
    assert.equal(await said({ id }, apart), '0\nnone\nnone\n134217728');
    await run({ id }, 'echo mine > /data/file');
    assert.match((await under.exec(id, 'cat /data/file')).toString(), /^kept/);
    await under.engine.stop(id, 1);
    const spec = { id, mountPaths: ['/data', '/etc/ssh'] };
    assert.equal(await said(spec, 'cat /data/file; echo written > /data/file'), 'kept');
    await under.engine.start(id, keys);
    await suite.answers(id);
    assert.match((await under.exec(id, 'cat /data/file')).toString(), /^written/);
    await under.engine.remove(id);
  });

  test('begins in its folder, by the entrypoint that is set, and its variables are gone with it', async () => {
    const id = await suite.started({ mountPaths: [] });
    const give = new AbortController();
    const working = { workingDir: '/made/here' };
    const running = run({ id }, 'echo "$KEY" in $PWD; exec sleep 60', { signal: give.signal }, working);
    await until(async () => runs(id), { what: 'it runs', timeoutMs: 60_000 });
    assert.ok(!JSON.stringify(await get(id, '/pods/once')).includes(SECRET));
    assert.deepEqual(Object.keys(secretView.parse(await get(id, '/secrets/once')).data ?? {}), ['KEY']);
    give.abort(new Error('enough'));
    await assert.rejects(running, /enough/);
    assert.deepEqual(await onces(id), []);
    assert.deepEqual(secretView.parse(await get(id, '/secrets/once')).data ?? {}, {});
    const byHand = { entrypoint: ['/bin/echo', 'by'], command: ['$(KEY)', 'hand'] };
    assert.equal(await said({ id }, 'unused', {}, byHand), 'by $(KEY) hand');
    assert.equal(await said({ id }, 'echo $KEY in $PWD', {}, working), `${SECRET} in /made/here`);
    await rejectsWith(run({ id }, 'x', {}, { command: ['/no/such/program'] }), 'refused');
    // What the container that runs is told is not changed.
    assert.deepEqual(Object.keys(secretView.parse(await get(id, '/secrets/environment')).data ?? {}), []);
    await under.engine.remove(id);
  });

  test('reaches the members of its private network, and neither the outside nor an alias leads to it', async () => {
    const network = (alias: string | null, place: number) => ({ owner: 'u1', name: 'shop', alias, place });
    const db = await suite.started({ mountPaths: [] });
    await under.engine.join(db, network('db', 1));
    const app = await suite.started({ mountPaths: [] });
    await under.engine.join(app, network('app', 2));
    const before = await under.engine.inspect(app);
    const script = 'for name in db app app app app; do nc -w 3 $name 22 < /dev/null | head -c 4; echo; done';
    const running = run({ id: app }, `sleep 2; ${script}`);
    await until(async () => runs(app), { what: 'it runs', timeoutMs: 60_000 });
    for (const name of ['container', 'app']) {
      const { selector } = serviceView.parse(await get(app, `/services/${name}`)).spec;
      assert.equal(selector['troupe.dev/pod'], 'container-0', name);
    }
    assert.match((await running).lines.map(textOfLine).join('\n'), /^(?:SSH-\n){4}SSH-$/);
    assert.deepEqual(await under.engine.inspect(app), before);
    for (const id of [db, app]) await under.engine.remove(id);
  });

  test('is killed when its time is over, and told when it ran out of memory', async () => {
    const { id } = suite.spec();
    const late = await run({ id }, 'echo began; sleep 60', { timeoutMs: 2500 });
    assert.deepEqual([late.exitCode, late.lines.map(textOfLine)], [null, ['began']]);
    const full = await run({ id }, 'exec tail /dev/zero');
    assert.deepEqual([full.exitCode, full.oomKilled], [137, true]);
    assert.deepEqual(await onces(id), []);
    await under.engine.remove(id);
  });

  test('which no node has room for is told with what to do', async () => {
    const { id } = suite.spec();
    await assert.rejects(run({ id, memoryMb: 8_000_000 }, 'true'), {
      code: 'unavailable',
      message: /^No node of the cluster has room for the pod in which the release command runs: .*\. Make room, or/,
    });
    assert.deepEqual(await onces(id), []);
    await under.engine.remove(id);
  });

  test('is ended with its container, and found by the next platform when one was killed', async () => {
    const id = await suite.started({ mountPaths: [] });
    const running = run({ id }, 'sleep 60').catch((error: unknown) => error);
    await until(async () => runs(id), { what: 'it runs', timeoutMs: 60_000 });
    const next = under.open();
    try {
      // Of its own platform it is no leftover.
      assert.equal((await under.engine.list([id]))[0]?.hasOthers, undefined);
      await under.engine.endOthers(id, 1);
      assert.equal(await runs(id), true);
      assert.equal((await next.list([id]))[0]?.hasOthers, true);
      await next.endOthers(id, 1);
      assert.deepEqual(await onces(id), []);
      assert.deepEqual(secretView.parse(await get(id, '/secrets/once')).data ?? {}, {});
      await rejectsWith(Promise.reject(await running), 'unavailable');
      assert.equal((await next.list([id]))[0]?.hasOthers, undefined);
    } finally {
      await next.close();
    }
    const stopped = run({ id }, 'sleep 60').catch((error: unknown) => error);
    await until(async () => runs(id), { what: 'it runs', timeoutMs: 60_000 });
    await under.engine.stop(id, 1);
    await rejectsWith(Promise.reject(await stopped), 'unavailable');
    assert.deepEqual(await onces(id), []);
    assert.equal((await under.engine.inspect(id))?.phase, 'exited');
    await under.engine.remove(id);
  });
});

const pathOf = (under: KubernetesUnderTest, id: string, rest = ''): string =>
  `/api/v1/namespaces/${under.namespaceOf(id)}${rest}`;

const ADMIN_PASSWORD = 'the admin of this test';
const view = z.object({
  ...{ id: z.string(), status: z.string(), image: z.string(), started_at: z.string().nullish() },
  ...{ next_image: z.string().optional(), status_reason: z.string().nullish() },
});

describe('a release command on Kubernetes', { skip, timeout: 900_000 }, () => {
  const cleanup = inReverse(suiteCleanup());
  let under: KubernetesUnderTest;
  let platform: RunningPlatform;
  let token: string;
  let key: number;
  let start: () => Promise<void>;
  let run: (...args: string[]) => ReturnType<typeof troupe>;
  let one = '';
  let two = '';
  const api = (method: string, path: string, body?: object) =>
    request(method, `${platform.ready.urls.compute}${path}`, { token, ...(body === undefined ? {} : { body }) });
  const seen = async (name = 'app') => {
    const all = z.object({ containers: z.array(view.extend({ name: z.string() })) });
    const found = all.parse((await api('GET', '/compute/containers')).json).containers;
    return found.find((one) => one.name === name) ?? assert.fail(`no ${name}`);
  };
  const pods = async (id: string) => {
    const { json } = await under.cluster.call('GET', `/api/v1/pods?labelSelector=troupe.dev/container=${id}`);
    return listed.parse(json).items.map(({ metadata }) => metadata);
  };
  const once = async (id: string) => (await pods(id)).find(({ name }) => name === 'once')?.uid;

  before(async () => {
    under = await kubernetesUnderTest({ names: true });
    cleanup.after(() => under.end());
    const folder = await tempDir(cleanup);
    const { host } = await startRegistry(cleanup, { port: await freePort() });
    [one, two] = [`${host}/admin/release:1`, `${host}/admin/release:2`];
    const client = under.cluster.docker?.client ?? assert.fail('a cluster without a node');
    for (const tag of ['1', '2']) {
      const query = { repo: `${host}/admin/release`, tag };
      await client.call('POST', `/images/${under.image}/tag`, { query });
      await pushFrom(client, `${query.repo}:${tag}`);
    }
    const database = await testDatabase();
    cleanup.after(() => database.close());
    const data = join(folder, 'data');
    const env = {
      ...{ DATABASE_URL: database.url, DEFAULT_IMAGE: under.image, ADMIN_PASSWORD, XDG_CONFIG_HOME: folder },
      ...{ COMPUTE_ENGINE: 'kubernetes', KUBECONFIG: await kubeconfigOf(under.cluster, 'troupe-core') },
      ...{ KUBERNETES_ARCHITECTURE: 'any', KUBERNETES_CLUSTER_DOMAIN: clusterDomain },
      KUBERNETES_STORAGE_CLASS: testStorageClass,
      REGISTRY_HOST: host,
    };
    start = async () => {
      platform = await startPlatform({ data, env });
      token = await logIn(platform.ready.urls.auth, 'admin', ADMIN_PASSWORD);
    };
    await start();
    cleanup.after(() => platform.stop());
    run = (...args) => troupe(args, { env });
    const made = await api('POST', '/compute/ssh-keys', { name: 'k', public_key: publicKey() });
    key = z.number().parse(made.json.id);
    const login = ['login', '--user', 'admin', '--password-stdin', '--data', data];
    const { code, stderr } = await troupe(login, { env, input: `${ADMIN_PASSWORD}\n` });
    assert.equal(code, 0, stderr);
  });

  test('runs at the first start with the files of the mount paths, where a failure says why without secrets', async () => {
    const body = {
      ...{
        name: 'app',
        ssh_key_ids: [key],
        image: one,
        pull_policy: 'IfNotPresent',
        mount_paths: ['/data'],
        secrets: { KEY: SECRET },
      },
      release: ['/bin/sh', '-c', 'echo "no psql://app:$KEY@db"; echo tables > /data/made; exit 9'],
    };
    const { status, json } = await api('POST', '/compute/containers', body);
    assert.equal(status < 300, true, JSON.stringify(json));
    await until(async () => (await seen()).status === 'failed', { what: 'it has failed', timeoutMs: 90_000 });
    const { id, status_reason } = await seen();
    assert.match(status_reason ?? '', /^The release command ended with exit code 9, and said last: /);
    assert.match(status_reason ?? '', /no psql:\/\/app:\*\*\*@db\. The container is not started: mend that/);
    assert.deepEqual(await pods(id), []);
    const mended = await run('update', 'app', '--release', 'test "$(cat /data/made)" = tables');
    assert.equal(mended.code, 0, mended.stderr);
    const started = await run('start', 'app', '--wait');
    assert.equal(started.code, 0, started.stderr);
    assert.equal((await seen()).status, 'running');
    assert.deepEqual(
      (await pods(id)).map(({ name }) => name),
      ['container-0'],
    );
    await api('DELETE', `/compute/containers/${id}`);
  });

  test('runs before a pod of another image, which begins only when it went well', async () => {
    const body = {
      name: 'web',
      ssh_key_ids: [key],
      image: one,
      pull_policy: 'IfNotPresent',
      stateless: true,
      secrets: { KEY: SECRET },
    };
    const { status, json } = await api('POST', '/compute/containers?wait=running', body);
    assert.equal(status < 300, true, JSON.stringify(json));
    const before = await seen('web');
    const failing = await run('update', 'web', '--image', two, '--release', 'echo "with $KEY"; exit 4');
    assert.equal(failing.code, 1, failing.stderr);
    assert.match(
      failing.stderr,
      /The image was not changed to \S+:2\. The release command ended with exit code 4, and/,
    );
    assert.match(failing.stderr, /said last: with \*\*\*\. The container runs on with \S+:1\. Mend that/);
    assert.deepEqual((await seen('web')).started_at, before.started_at);
    const changed = await run('update', 'web', '--image', two, '--release', `test "$KEY" = ${SECRET}`);
    assert.equal(changed.code, 0, changed.stderr);
    assert.match(changed.stderr, /the release command\. A new container took its place\./);
    assert.match((await seen('web')).image, /release:2$/);
    assert.equal(await once(before.id), undefined);
  });

  test('that is cut off by SIGKILL of the platform runs again, and nothing of the first is left', async () => {
    const { id } = await seen('web');
    await api('PATCH', `/compute/containers/${id}`, { image: one, release: ['/bin/sh', '-c', 'sleep 8'] });
    const first = await until(() => once(id), { what: 'it runs in the cluster', timeoutMs: 60_000 });
    await platform.kill();
    assert.equal(await once(id), first);
    await start();
    const second = await until(
      async () => {
        const uid = await once(id);
        return uid === first ? undefined : uid;
      },
      { what: 'it runs again', timeoutMs: 90_000 },
    );
    assert.notEqual(second, first);
    const isDone = async () => {
      const now = await seen('web');
      return now.status === 'running' && now.next_image === undefined ? now : undefined;
    };
    const done = await until(isDone, { what: 'the image is changed', timeoutMs: 90_000 });
    assert.match(done.image, /release:1$/);
    assert.equal(await once(id), undefined);
  });

  test('that is cut off is ended when the change is taken back meanwhile', async () => {
    const { id } = await seen('web');
    await api('PATCH', `/compute/containers/${id}`, { image: two, release: ['/bin/sh', '-c', 'sleep 300'] });
    await until(() => once(id), { what: 'it runs in the cluster', timeoutMs: 60_000 });
    await api('PATCH', `/compute/containers/${id}`, { image: one });
    await until(async () => (await once(id)) === undefined, { what: 'it is ended', timeoutMs: 60_000 });
    assert.equal((await seen('web')).status, 'running');
  });
});
