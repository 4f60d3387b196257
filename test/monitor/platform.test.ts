/** The monitor on the running platform, with real containers that do real work, and NATS beside it. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { get as getHttps } from 'node:https';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, describe, test } from 'node:test';
import { jetstream } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';
import protobuf from 'protobufjs';
import { z } from 'zod';
import { graphSchema, nodesSchema, podMetricsSchema, podsSchema } from '../../proto/monitor.ts';
import { startBox } from '../kit/containers.ts';
import { testDatabase } from '../kit/database.ts';
import { skipWithoutDocker, tinyImage } from '../kit/docker.ts';
import { skipWithoutNats, startNats, type TestNats } from '../kit/nats.ts';
import {
  deleteAll,
  logIn,
  type RunningPlatform,
  request,
  spawnTroupe,
  startPlatform,
  troupe,
} from '../kit/platform.ts';
import { projectRoot } from '../kit/project.ts';
import { findProgram, skipWithout } from '../kit/require.ts';
import { tempDir } from '../kit/temp.ts';
import { until } from '../kit/until.ts';
import { UpgradeRefused, websocket } from '../kit/websocket.ts';
import { cpuOf, runIn, sse } from './kit.ts';

const ADMIN_PASSWORD = 'the admin of this test';
const JWT_SECRET = 'a secret of the tests, 32 bytes or more';
const skip = skipWithoutDocker() || skipWithoutNats();
const strictPods = podsSchema.strict().extend({ pods: z.array(podMetricsSchema.strict()) });
const strictNodes = nodesSchema.strict();

describe('the cluster monitor', { skip, timeout: 300_000 }, () => {
  const ends: (() => unknown)[] = [];
  const cleanup = { after: (end: () => unknown) => void ends.unshift(end) };
  let platform: RunningPlatform;
  let env: Record<string, string>;
  let nats: TestNats;
  let [admin, ann, bob] = ['', '', ''];
  let [annsBox, bobsBox, annsId] = ['', '', ''];

  before(async () => {
    const data = await tempDir(cleanup);
    const database = await testDatabase();
    cleanup.after(() => database.close());
    nats = await startNats(cleanup);
    env = {
      JWT_SECRET,
      DATABASE_URL: database.url,
      DEFAULT_IMAGE: await tinyImage(),
      ADMIN_PASSWORD,
      NATS_URL: nats.url,
    };
    platform = await startPlatform({ data, env });
    cleanup.after(() => platform.stop());
    const { auth, compute } = platform.ready.urls;
    for (const name of ['ann', 'bob']) {
      const added = await troupe(['users', 'add', name, '--data', data], { env, input: `the password of ${name}\n` });
      assert.equal(added.code, 0, added.stderr);
    }
    admin = await logIn(auth, 'admin', ADMIN_PASSWORD);
    ann = await logIn(auth, 'ann', 'the password of ann');
    bob = await logIn(auth, 'bob', 'the password of bob');
    annsId = z.string().parse((await request('GET', `${auth}/api/session`, { token: ann })).json.user_id);
    annsBox = (await startBox(compute, ann, data)).id;
    bobsBox = (await startBox(compute, bob, data)).id;
  });
  after(async () => {
    if (ann !== '') await deleteAll(platform.ready.urls.compute, ann, bob);
    for (const end of ends) await end();
  });

  const url = () => platform.ready.urls.monitor;
  const get = (path: string, token?: string) => request('GET', url() + path, token === undefined ? {} : { token });
  const pods = async (token: string, query = '') => {
    const { status, json } = await get(`/api/metrics/pods${query}`, token);
    assert.equal(status, 200, JSON.stringify(json));
    return strictPods.parse(json).pods;
  };
  const latest = async (subject: string, type: string) => {
    const layouts = await protobuf.load(join(projectRoot, 'proto/cluster.proto'));
    const connection = await connect({ servers: nats.server });
    try {
      const manager = await jetstream(connection).jetstreamManager();
      const message = await manager.streams.getMessage('CLUSTER', { last_by_subj: subject });
      assert.ok(message !== null);
      const decoded = layouts.lookupType(type).decode(message.data);
      return { stream: await manager.streams.info('CLUSTER'), object: decoded.toJSON() };
    } finally {
      await connection.close();
    }
  };
  const seen = () =>
    until(async () => (await pods(admin)).filter(({ namespace }) => namespace !== 'core').length >= 2, {
      timeoutMs: 30_000,
      everyMs: 100,
      what: 'both containers are measured',
    });

  test('a container that works shows it, as its own cgroup counts', async () => {
    await seen();
    await runIn(
      annsBox,
      'timeout 60 sh -c "while :; do usleep 1000; i=0; while [ $i -lt 400 ]; do i=$((i+1)); done; done"',
    );
    await until(
      async () => {
        const measured = await cpuOf(annsBox, 5000);
        const shown = (await pods(ann))[0]?.cpu_usage ?? 0;
        return measured > 100 && Math.abs(shown - measured) <= measured * 0.1;
      },
      { timeoutMs: 45_000, what: 'the monitor and the cgroup agree within a tenth' },
    );
    const [pod] = await pods(ann);
    assert.equal(pod?.namespace, `compute-${annsId}-${annsBox}`);
    assert.equal(pod?.cpu_capacity, 2000);
    assert.equal(pod?.memory_capacity, 512 * 2 ** 20);
    assert.equal(pod?.disk_capacity, 5 * 2 ** 30);
    assert.ok(pod.memory_usage > 100_000);
  });

  test('REST: nodes have exactly the fields of section 2.13, the same on both paths', async () => {
    for (const path of ['/cluster-info', '/api/metrics/nodes']) {
      const { status, json } = await get(path, admin);
      assert.equal(status, 200);
      const [node] = strictNodes.parse(json).nodes;
      assert.ok(node !== undefined);
      assert.match(node.cpu_usage, /^[0-9]+m?$/);
      assert.match(node.memory_capacity, /^[1-9][0-9]*Ki$/);
      assert.ok(node.cpu_percent >= 0 && node.cpu_percent <= 100);
      assert.ok(node.disk_usage > 0 && node.disk_usage < node.disk_capacity);
      assert.deepEqual(node.conditions.map(({ type }) => type).sort(), ['DiskPressure', 'MemoryPressure', 'Ready']);
    }
  });

  test('P06: everybody sees only what is theirs; the administrator all, and the core namespace', async () => {
    await seen();
    assert.deepEqual(
      (await pods(ann)).map(({ name }) => name),
      [annsBox],
    );
    assert.deepEqual(
      (await pods(bob)).map(({ name }) => name),
      [bobsBox],
    );
    assert.deepEqual(
      strictPods.parse((await get('/pod-metrics', ann)).json).pods.map(({ name }) => name),
      [annsBox],
    );
    const all = await pods(admin);
    assert.ok(all.some(({ namespace }) => namespace === 'core'));
    assert.ok([annsBox, bobsBox].every((id) => all.some(({ name }) => name === id)));
    assert.deepEqual(
      (await pods(ann, `?namespace=compute-${annsId}-${annsBox}`)).map(({ name }) => name),
      [annsBox],
    );
    assert.deepEqual(await pods(ann, `?namespace=compute-${annsId}-none`), []);
    for (const namespace of [
      'core',
      'compute-',
      `compute-${annsId}`,
      all.find(({ name }) => name === bobsBox)?.namespace,
    ])
      assert.deepEqual(
        (await pods(ann, `?namespace=${namespace}`)).map(({ name }) => name),
        [annsBox],
      );
    assert.deepEqual(
      (await pods(admin, '?namespace=core')).map(({ namespace }) => namespace),
      ['core'],
    );
  });

  test('P05: streams and sockets refuse as REST does: 401 without a token, 403 for users who are not the administrator', async () => {
    const forAdmins = ['/cluster-info', '/api/metrics/nodes', '/api/graph/dependencies', '/sse/cluster-info'];
    const forAll = ['/pod-metrics', '/api/metrics/pods', '/sse/health', '/sse/pod-metrics'];
    for (const path of [...forAdmins, ...forAll]) assert.equal((await get(path)).status, 401, path);
    for (const path of forAdmins) assert.equal((await get(path, ann)).status, 403, path);
    const upgrade = async (path: string, token?: string) => {
      try {
        const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
        const socket = await websocket(cleanup, url().replace('http', 'ws') + path, { headers });
        await socket.close();
        return 101;
      } catch (error) {
        return error instanceof UpgradeRefused ? error.status : 0;
      }
    };
    assert.deepEqual(
      await Promise.all(['/ws/cluster-info', '/ws/pod-metrics'].map((path) => upgrade(path))),
      [401, 401],
    );
    assert.equal(await upgrade('/ws/cluster-info', ann), 403);
    assert.equal(await upgrade('/ws/pod-metrics', ann), 101);
    assert.equal((await get('/healthz')).status, 200);
    assert.deepEqual((await get('/healthz')).json, { status: 'ok' });
  });

  test('SSE: the combined stream has both types, single streams the object itself, each with an id', async (t) => {
    await seen();
    const both = await sse(t, `${url()}/sse/health`, { token: ann });
    assert.equal(both.headers.get('content-type'), 'text/event-stream; charset=utf-8');
    await until(() => both.events.length >= 4, { timeoutMs: 20_000 });
    const combined = z.union([
      z.strictObject({ type: z.literal('cluster'), payload: strictNodes }),
      z.strictObject({ type: z.literal('pods'), payload: strictPods }),
    ]);
    for (const { id, data } of both.events) {
      const event = combined.parse(data);
      assert.notEqual(id, '');
      if (event.type === 'pods')
        assert.deepEqual(
          event.payload.pods.map(({ name }) => name),
          [annsBox],
        );
    }
    assert.equal(new Set(both.events.map(({ id }) => id)).size, both.events.length);
    const nodes = await sse(t, `${url()}/sse/cluster-info?token=${admin}`);
    const own = await sse(t, `${url()}/sse/pod-metrics`, { token: bob });
    await until(() => nodes.events.length >= 2 && own.events.length >= 2, { timeoutMs: 20_000 });
    strictNodes.parse(nodes.events[0]?.data);
    assert.deepEqual(
      strictPods.parse(own.events[0]?.data).pods.map(({ name }) => name),
      [bobsBox],
    );
    await until(() => nodes.comments.includes(': ping'), { timeoutMs: 20_000, what: 'a ping' });
  });

  test('L09: an event id that is known is not sent again; a forged or huge one counts as none', async (t) => {
    const first = await sse(t, `${url()}/sse/pod-metrics`, { token: ann });
    const last = await until(() => first.events.at(-1), { timeoutMs: 15_000 });
    const again = await sse(t, `${url()}/sse/pod-metrics`, { token: ann, lastEventId: last.id });
    for (const lastEventId of [
      '0',
      '-1',
      '99999999999999999999',
      '../../etc/passwd',
      'x'.repeat(8000),
      `${last.id} `.repeat(3),
    ]) {
      const forged = await sse(t, `${url()}/sse/pod-metrics`, { token: ann, lastEventId });
      await until(() => forged.events.length >= 1, { timeoutMs: 2000, what: lastEventId.slice(0, 30) });
      forged.close();
    }
    const next = await until(() => again.events[0], { timeoutMs: 15_000 });
    assert.notEqual(next.id, last.id);
  });

  test('sockets: one snapshot on connect, one for each refresh', async (t) => {
    const open = (path: string, token: string) =>
      websocket(t, url().replace('http', 'ws') + path, { headers: { authorization: `Bearer ${token}` } });
    const nodes = await open('/ws/cluster-info', admin);
    const own = await open('/ws/pod-metrics', ann);
    const stamps = new Set<string>();
    for (let frame = 0; frame < 2; frame++) {
      stamps.add(strictNodes.parse(await nodes.json()).timestamp);
      assert.deepEqual(
        strictPods.parse(await own.json()).pods.map(({ name }) => name),
        [annsBox],
      );
    }
    assert.equal(stamps.size, 2);
  });

  test('the gateway routes the monitor by path and by host, streams too', async () => {
    const { domain } = platform.ready;
    const https = Number(new URL(platform.ready.urls.https).port);
    for (const host of [domain, `monitor.${domain}`]) {
      const whole = await throughGateway(https, host, '/pod-metrics', ann, () => false);
      assert.deepEqual(
        strictPods.parse(JSON.parse(whole)).pods.map(({ name }) => name),
        [annsBox],
      );
      const stream = await throughGateway(https, host, '/sse/pod-metrics', ann, (text) => text.includes('data: '));
      assert.match(stream, new RegExp(annsBox));
    }
  });

  test('the dependency graph shows what is connected', async () => {
    const { status, json } = await get('/api/graph/dependencies', admin);
    assert.equal(status, 200, JSON.stringify(json));
    const graph = graphSchema.strict().parse(json);
    const ids = new Set(graph.nodes.map(({ id }) => id));
    for (const id of ['service:auth', 'service:compute', 'service:monitor', 'service:notify', 'service:gateway'])
      assert.ok(ids.has(id), id);
    for (const id of [
      'storage:postgresql',
      'bus:nats',
      'engine:docker',
      `container:${annsBox}`,
      'actor:monitor/collector',
    ])
      assert.ok(ids.has(id), id);
    for (const { from, to } of graph.edges) assert.ok(ids.has(from) && ids.has(to), `${from} -> ${to}`);
    const requests = graph.edges.find(({ to, traffic }) => to === 'service:monitor' && traffic !== undefined);
    assert.ok((requests?.traffic?.total ?? 0) > 0);
  });

  test('both subjects are decoded by an independent client; a broker that goes and comes back is not noticed', async (t) => {
    const metrics = await latest('cluster.metrics', 'troupe.ClusterMetrics');
    const { config } = metrics.stream;
    assert.deepEqual(
      [config.subjects, config.max_msgs, config.max_bytes, config.max_age, config.retention, config.storage],
      [['cluster.>'], 1_000_000, 1024 ** 3, 7 * 86_400 * 1e9, 'limits', 'file'],
    );
    assert.ok(Number(metrics.object.nodes?.[0]?.cpuCapacityMillis) >= 1000);
    const published = await latest('cluster.pods', 'troupe.ClusterPods');
    assert.ok(published.object.pods.some((pod: { name: string }) => pod.name === annsBox));

    const stream = await sse(t, `${url()}/sse/pod-metrics`, { token: ann });
    await nats.kill();
    const before = stream.events.length;
    await until(() => stream.events.length >= before + 3, { timeoutMs: 30_000, what: 'snapshots without a broker' });
    assert.equal((await get('/pod-metrics', ann)).status, 200);
    assert.equal((await get('/healthz')).status, 200);
    await nats.start();
    const back = Date.now();
    await until(
      async () => Number((await latest('cluster.metrics', 'troupe.ClusterMetrics')).object.timestamp) > back,
      { timeoutMs: 60_000, everyMs: 500, what: 'it publishes again' },
    );
    assert.equal(stream.isOver(), false);
    const text = await (await fetch(`${url()}/metrics`)).text();
    assert.ok(Number(/^troupe_monitor_dropped_total (\d+)/m.exec(text)?.[1]) >= 1);
  });

  test('promtool finds nothing wrong with the numbers of any service', { skip: skipWithout('promtool') }, async () => {
    const { urls } = platform.ready;
    const gateway = `http://127.0.0.1:${new URL(urls.http).port}`;
    for (const base of [urls.auth, urls.compute, urls.monitor, urls.notify, gateway]) {
      const response = await fetch(`${base}/metrics`);
      assert.equal(response.status, 200, base);
      const checked = await promtool(await response.text());
      assert.deepEqual(checked, { code: 0, output: '' }, base);
    }
  });

  test('alone, with the flags of the interface: a refresh costs as many engine calls with 1 client as with 300', async (t) => {
    const flags = ['-addr', '127.0.0.1:0', '-refresh', '500ms', '-nats', nats.url];
    const child = spawnTroupe(['monitor', ...flags, '--json'], { ...env, NATS_URL: '' });
    const ended = once(child, 'close');
    t.after(async () => {
      child.kill('SIGTERM');
      assert.equal((await ended)[0], 0);
    });
    child.stderr.resume();
    const first = await createInterface({ input: child.stdout })[Symbol.asyncIterator]().next();
    const { port } = z.object({ ready: z.literal(true), port: z.number() }).parse(JSON.parse(String(first.value)));
    const alone = `http://127.0.0.1:${port}`;
    const counts = async () => {
      const text = await (await fetch(`${alone}/metrics`)).text();
      const of = (name: string) =>
        Number(
          text
            .split('\n')
            .find((line) => line.startsWith(`${name} `))
            ?.split(' ')[1],
        );
      return {
        calls: of('troupe_monitor_source_calls_total{source="docker"}'),
        refreshes: of('troupe_monitor_refreshes_total'),
        clients: of('troupe_monitor_event_streams') + of('troupe_monitor_sockets'),
      };
    };
    const callsPerRefresh = async () => {
      const from = await counts();
      const to = await until(
        async () => {
          const now = await counts();
          return now.refreshes >= from.refreshes + 6 ? now : undefined;
        },
        { everyMs: 100, timeoutMs: 20_000 },
      );
      // Once a minute the disks are added up: one call among many refreshes.
      return Math.floor((to.calls - from.calls) / (to.refreshes - from.refreshes));
    };
    const stream = await sse(t, `${alone}/sse/pod-metrics`, { token: ann });
    await until(() => JSON.stringify(stream.events.at(-1)?.data)?.includes('"memory_capacity":5368'), {
      timeoutMs: 20_000,
    });
    const withOne = await callsPerRefresh();
    const headers = { authorization: `Bearer ${ann}` };
    for (let client = 0; client < 150; client++) {
      await sse(t, `${alone}/sse/pod-metrics`, { token: ann });
      await websocket(t, `${alone.replace('http', 'ws')}/ws/pod-metrics`, { headers });
    }
    assert.equal((await counts()).clients, 301);
    assert.deepEqual([withOne, await callsPerRefresh()], [1, 1]);
  });

  test('out of memory: the user is told once, and cluster.pods says so', async () => {
    const hog = 'tail -c 900000000 /dev/zero';
    await runIn(bobsBox, `${hog}; ${hog}`);
    const told = async () => {
      const { json } = await request('GET', `${platform.ready.urls.notify}/api/notifications`, { token: bob });
      return z
        .array(z.object({ title: z.string(), category: z.string() }))
        .parse(json.list)
        .filter(({ title }) => title === 'Container out of memory');
    };
    await until(async () => (await told()).length > 0, { timeoutMs: 60_000, everyMs: 250, what: 'bob is told' });
    const { object } = await latest('cluster.pods', 'troupe.ClusterPods');
    const pod = z
      .array(z.looseObject({ name: z.string(), oomKilled: z.boolean().default(false) }))
      .parse(object.pods)
      .find(({ name }) => name === bobsBox);
    assert.equal(pod?.oomKilled, true);
    await runIn(bobsBox, hog);
    const before = (await get('/pod-metrics', bob)).json.timestamp;
    await until(async () => (await get('/pod-metrics', bob)).json.timestamp !== before, { timeoutMs: 20_000 });
    await until(async () => (await told()).length === 1, { timeoutMs: 5000 });
    assert.deepEqual(
      (await told()).map(({ category }) => category),
      ['compute'],
    );
  });
});

async function promtool(text: string): Promise<{ code: number | null; output: string }> {
  const child = spawn(findProgram('promtool') ?? 'promtool', ['check', 'metrics'], { stdio: ['pipe', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk));
  child.stdin.end(text);
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve));
  return { code, output };
}

/** What the gateway answers for a host, until it ends or `isEnough`. */
function throughGateway(
  port: number,
  host: string,
  path: string,
  token: string,
  isEnough: (text: string) => boolean,
): Promise<string> {
  return new Promise((resolve, reject) => {
    const request = getHttps(
      {
        ...{ host: '127.0.0.1', port, path, servername: host, rejectUnauthorized: false, agent: false },
        headers: { host, authorization: `Bearer ${token}` },
      },
      (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (chunk: string) => {
          text += chunk;
          if (!isEnough(text)) return;
          resolve(text);
          request.destroy();
        });
        response.on('end', () => resolve(text));
      },
    );
    request.on('error', reject);
  });
}
