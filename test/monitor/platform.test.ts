/** The monitor on the running platform, with real containers that do real work, and NATS beside it. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { get as getHttps } from 'node:https';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { jetstream } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';
import protobuf from 'protobufjs';
import { z } from 'zod';
import { nodeName } from '../../cmd/node/roles/monitor.ts';
import { graphSchema, nodesSchema, podMetricsSchema, podsSchema } from '../../proto/monitor/endpoints.ts';
import { skipWithoutNats, startNats, type TestNats } from '../support/bus/nats-server.ts';
import { startBox } from '../support/clients/container.ts';
import { UpgradeRefused, websocket } from '../support/clients/websocket.ts';
import { deleteAll, logIn, type RunningPlatform, request, startPlatform, troupe } from '../support/cluster/platform.ts';
import { type TestDatabase, testDatabase } from '../support/database/database.ts';
import { skipWithoutDocker, tinyImage } from '../support/engine/docker-client.ts';
import { runIn, sse } from '../support/monitor/event-streams.ts';
import { projectRoot } from '../support/project.ts';
import { findProgram, skipWithout } from '../support/require.ts';
import { tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

const ADMIN_PASSWORD = 'the admin of this test';
const JWT_SECRET = 'a secret of the tests, 32 bytes or more';
const skip = skipWithoutDocker() || skipWithoutNats();
const strictPods = podsSchema.strict().extend({ pods: z.array(podMetricsSchema.strict()) });
const strictNodes = nodesSchema.strict();

describe('the cluster monitor', { skip, timeout: 900_000 }, () => {
  const ends: (() => unknown)[] = [];
  const cleanup = { after: (end: () => unknown) => void ends.unshift(end) };
  let platform: RunningPlatform;
  let database: TestDatabase;
  let data = '';
  let env: Record<string, string>;
  let nats: TestNats;
  let [admin, ann, bob] = ['', '', ''];
  let [annsBox, bobsBox, annsId] = ['', '', ''];

  before(async () => {
    data = await tempDir(cleanup);
    database = await testDatabase();
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
    const layouts = await protobuf.load(join(projectRoot, 'proto/monitor/cluster.proto'));
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

  test('REST: a pod has exactly the fields of section 2.14, and what was promised to its user as capacity', async () => {
    await seen();
    const pod = await until(async () => (await pods(ann)).find(({ memory_usage }) => memory_usage > 100_000), {
      timeoutMs: 30_000,
      everyMs: 100,
    });
    assert.equal(pod.name, annsBox);
    assert.equal(pod.namespace, `compute-${annsId}-${annsBox}`);
    assert.equal(pod.node, nodeName());
    assert.ok(pod.cpu_usage >= 0 && pod.cpu_usage <= pod.cpu_capacity * 1.1);
    assert.equal(pod.cpu_capacity, 2000);
    assert.equal(pod.memory_capacity, 512 * 2 ** 20);
    assert.equal(pod.disk_capacity, 5 * 2 ** 30);
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
    await until(() => both.events.length >= 4, { timeoutMs: 60_000 });
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
    await until(() => nodes.events.length >= 2 && own.events.length >= 2, { timeoutMs: 60_000 });
    strictNodes.parse(nodes.events[0]?.data);
    assert.deepEqual(
      strictPods.parse(own.events[0]?.data).pods.map(({ name }) => name),
      [bobsBox],
    );
    await until(() => nodes.comments.includes(': ping'), { timeoutMs: 60_000, what: 'a ping' });
  });

  test('an event id that is known is not sent again; a forged or huge one counts as none', async (t) => {
    const first = await sse(t, `${url()}/sse/pod-metrics`, { token: ann });
    const last = await until(() => first.events.at(-1), { timeoutMs: 60_000 });
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
    const next = await until(() => again.events[0], { timeoutMs: 60_000 });
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
    const added = await troupe(['routes', 'add', 'app.test', '/', '127.0.0.1:9', '--json', '--data', data], { env });
    assert.equal(added.code, 0, added.stderr);
    await database.db.run(
      `insert into domain_mappings (id, user_id, domain, container_id, target_port, status, verify_token, pending_since, verified_at)
       values ('mmmmmmmmmmmm', $1, 'www.example.test', $2, 80, 'verified', 'token', now(), now())`,
      [annsId, annsBox],
    );
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
    const statusOf = (id: string) => graph.nodes.find((node) => node.id === id)?.status;
    assert.deepEqual([statusOf('mapping:mmmmmmmmmmmm'), statusOf(`container:${annsBox}`)], ['verified', 'running']);
    const edges = new Set(graph.edges.map(({ from, to, kind }) => `${from} ${kind} ${to}`));
    const { id: route } = z.object({ id: z.coerce.string() }).parse(JSON.parse(added.stdout));
    const node = graph.nodes.find(({ kind }) => kind === 'node');
    assert.equal(node?.status, 'serving');
    for (const edge of [
      ...['service:gateway matches mapping:mmmmmmmmmmmm', `mapping:mmmmmmmmmmmm http container:${annsBox}`],
      ...[`service:gateway matches route:${route}`, `engine:docker runs container:${annsBox}`],
      ...[
        'service:monitor messages bus:nats',
        'service:monitor sql storage:postgresql',
        'service:compute api engine:docker',
      ],
      ...['service:monitor supervises actor:monitor', 'actor:monitor supervises actor:monitor/collector'],
    ])
      assert.ok(edges.has(edge), edge);
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
    // Both things that `cluster.pods` is about: want of memory, and a start after an end that nobody asked for.
    await runIn(bobsBox, 'tail -c 900000000 /dev/zero');
    await runIn(annsBox, 'kill -TERM 1').catch(() => undefined);
    const told = z.array(
      z.looseObject({
        name: z.string(),
        oomKilled: z.boolean().default(false),
        restartCount: z.coerce.number().default(0),
      }),
    );
    await until(
      async () => {
        const published = told.parse((await latest('cluster.pods', 'troupe.ClusterPods')).object.pods);
        const of = (id: string) => published.find(({ name }) => name === id);
        return of(bobsBox)?.oomKilled === true && of(annsBox)?.oomKilled === false && of(annsBox)?.restartCount === 1;
      },
      { timeoutMs: 90_000, everyMs: 500, what: 'the message tells of memory and restarts' },
    );

    const stream = await sse(t, `${url()}/sse/pod-metrics`, { token: ann });
    await nats.kill();
    const before = stream.events.length;
    await until(() => stream.events.length >= before + 3, { timeoutMs: 60_000, what: 'snapshots without a broker' });
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
    for (const [base, text] of await numbers(platform)) {
      const checked = await promtool(text);
      assert.deepEqual(checked, { code: 0, output: '' }, base);
    }
  });

  test('the Grafana dashboard asks only for numbers that the services show, and by labels that they have', async () => {
    await get('/cluster-info', admin);
    const shown = new Map<string, Set<string>>();
    for (const [, text] of await numbers(platform))
      for (const line of text.split('\n')) {
        const [, name, labels = ''] = /^([a-z_][a-z0-9_]*)(?:\{(.*)\})? /.exec(line) ?? [];
        if (name === undefined) continue;
        const known = shown.get(name) ?? new Set();
        for (const [, label = ''] of labels.matchAll(/([a-z_]+)="/g)) known.add(label);
        shown.set(name, known);
      }
    const dashboard = JSON.parse(await readFile(join(projectRoot, 'deploy/grafana/troupe.json'), 'utf8'));
    const panel = z.object({ title: z.string(), targets: z.array(z.object({ expr: z.string() })) });
    const panels = z.object({ panels: z.array(panel) }).parse(dashboard).panels;
    const names = panels.flatMap(({ targets }) => targets.flatMap(({ expr }) => askedOf(expr).names));
    assert.ok(new Set(names).size >= 10);
    for (const { title, targets } of panels)
      for (const { expr } of targets) {
        const { names, labels } = askedOf(expr);
        assert.ok(names.length > 0, expr);
        for (const name of names) {
          const known = shown.get(name);
          // A counter by labels has no line before its first event.
          if (known === undefined) assert.fail(`${title}: nothing shows ${name}`);
          for (const label of labels) assert.ok(known.has(label), `${title}: ${name} has no label ${label}`);
        }
      }
  });
});

/** What each service shows at `/metrics`, by its address. */
async function numbers({ ready: { urls } }: RunningPlatform): Promise<(readonly [string, string])[]> {
  const gateway = `http://127.0.0.1:${new URL(urls.http).port}`;
  const bases = [urls.auth, urls.compute, urls.net, urls.monitor, urls.notify, gateway];
  return Promise.all(
    bases.map(async (base) => {
      const response = await fetch(`${base}/metrics`);
      assert.equal(response.status, 200, base);
      return [base, await response.text()] as const;
    }),
  );
}

/** The numbers of a PromQL expression, and the labels by which it tells their series apart. */
function askedOf(expr: string): { names: string[]; labels: string[] } {
  const names = expr.match(/\b(?:troupe|process|nodejs)_[a-z0-9_]+/g) ?? [];
  const grouped = [...expr.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, list = '']) => list.split(/, */));
  const matched = [...expr.matchAll(/([a-z_]+) ?(?:=~|!~|!=|=)"/g)].map(([, label = '']) => label);
  return { names, labels: [...grouped, ...matched] };
}

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
