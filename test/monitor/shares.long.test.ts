/** Monitors on one broker: each part of the cluster is measured by one, and the clients of all see everything. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { connect } from '@nats-io/transport-node';
import protobuf from 'protobufjs/light.js';
import { z } from 'zod';
import { sessionTokens } from '../../actors/auth/tokens/issue-tokens.ts';
import { Readings } from '../../actors/monitor/readings.ts';
import { newId } from '../../proto/ids.ts';
import { CLUSTER_LAYOUT } from '../../proto/monitor/cluster.ts';
import { nodesSchema, podsSchema } from '../../proto/monitor/endpoints.ts';
import type { NodeSample } from '../../proto/ports/metrics-source.ts';
import { insertUser } from '../../storage/auth/users.ts';
import { setSetting } from '../../storage/settings.ts';
import { skipWithoutNats, startNats } from '../support/bus/nats-server.ts';
import { firstLine, request, spawnTroupe } from '../support/cluster/platform.ts';
import { testDatabase } from '../support/database/database.ts';
import { tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

const SECRET = 'a secret of the tests, 32 bytes or more';
const INSTALLATION = 'shared';
const REFRESH_MS = 500;

/** Speaks Docker's language for one container, which has statistics every 100 ms. */
async function fakeDocker(t: TestContext, engineId: string, container: string, userId: string) {
  const path = join(await tempDir(t), 'd.sock');
  const Labels = { 'troupe.installation': INSTALLATION, 'troupe.container': container, 'troupe.user': userId };
  const answers: Record<string, unknown> = {
    '/info': { ID: engineId, DockerRootDir: '/' },
    '/version': { Version: '26.0.0', ApiVersion: '1.45', MinAPIVersion: '1.24' },
    '/containers/json': [{ Id: container, Names: [`/troupe-${INSTALLATION}-${container}`], State: 'running', Labels }],
    '/system/df': { Containers: [], Volumes: [] },
    [`/containers/${container}/json`]: {
      Id: container,
      State: { Status: 'running', Running: true, ExitCode: 0, StartedAt: '' },
      Config: {},
      HostConfig: { NanoCpus: 5e8 },
      NetworkSettings: {},
    },
  };
  let open = 0;
  const server = createServer((request, response) => {
    const url = (request.url ?? '').replace(/\?.*/, '').replace(/^\/v[\d.]+/, '');
    response.setHeader('api-version', '1.45');
    if (url === '/events') response.flushHeaders();
    else if (url === `/containers/${container}/stats`) {
      open += 1;
      let second = 0;
      const cpu = (at: number) => ({ cpu_usage: { total_usage: at * 25e7 } });
      const read = (at: number) => new Date(Date.UTC(2026, 0, 1) + at * 1000).toISOString();
      const timer = setInterval(() => {
        second += 1;
        const [cpu_stats, precpu_stats] = [cpu(second), cpu(second - 1)];
        const memory_stats = { usage: 5_000_000, limit: 64_000_000 };
        const preread = second === 1 ? '0001-01-01T00:00:00Z' : read(second - 1);
        response.write(`${JSON.stringify({ read: read(second), preread, cpu_stats, precpu_stats, memory_stats })}\n`);
      }, 100);
      response.once('close', () => {
        open -= 1;
        clearInterval(timer);
      });
    } else response.end(JSON.stringify(answers[url] ?? 'OK'));
  }).listen(path);
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  /** How many measure the container at this moment. */
  return { host: `unix://${path}`, streams: () => open };
}

/** A database with users, a broker, and processes of `troupe monitor` on both. */
async function setting(t: TestContext) {
  const database = await testDatabase();
  t.after(() => database.close());
  const nats = await startNats(t);
  const [userId, adminId] = [newId(), newId()];
  await insertUser(database.db, { id: userId, username: 'ann', passwordHash: 'none' });
  await insertUser(database.db, { id: adminId, username: 'admin', passwordHash: 'none' });
  await setSetting(database.db, 'installation', INSTALLATION);
  const tokens = sessionTokens(SECRET, 3600, { now: Date.now });
  const { token } = await tokens({ id: userId, username: 'ann', isAdmin: false });
  const { token: admin } = await tokens({ id: adminId, username: 'admin', isAdmin: true });
  const monitor = async (dockerHost: string) => {
    const env = { DATABASE_URL: database.url, JWT_SECRET: SECRET, NATS_URL: nats.url, DOCKER_HOST: dockerHost };
    const flags = ['-addr', '127.0.0.1:0', '-refresh', `${REFRESH_MS}ms`, '--json'];
    const child = spawnTroupe(['monitor', ...flags], env);
    const ended = once(child, 'close');
    let log = '';
    child.stderr.on('data', (chunk: Buffer) => (log += chunk));
    const end = async (signal: 'SIGTERM' | 'SIGKILL') => {
      child.kill(signal);
      await ended;
    };
    t.after(() => end('SIGTERM'));
    const line = await firstLine(child);
    assert.ok(line !== undefined, log);
    const url = `http://127.0.0.1:${z.object({ port: z.number() }).parse(JSON.parse(line)).port}`;
    const get = async (path: string, as: string) => {
      const { status, json } = await request('GET', url + path, { token: as });
      return status === 200 ? json : undefined;
    };
    return {
      end,
      /** Of ann: names of her containers and when they were measured. */
      pods: async () => {
        const { pods, timestamp } = podsSchema.parse((await get('/pod-metrics', token)) ?? EMPTY);
        return { names: pods.map(({ name }) => name).toSorted(), at: Date.parse(timestamp) };
      },
      nodes: async () => nodesSchema.parse((await get('/cluster-info', admin)) ?? EMPTY).nodes,
      processes: async () =>
        podsSchema
          .parse((await get('/pod-metrics', admin)) ?? EMPTY)
          .pods.filter(({ namespace }) => namespace === 'core').length,
    };
  };
  return { nats, userId, monitor };
}
const EMPTY = { timestamp: new Date(0).toISOString(), pods: [], nodes: [] };

/** Hears what is published on a subject, as another program does. */
async function heard(t: TestContext, url: string, subject: string) {
  const connection = await connect({ servers: url });
  t.after(() => connection.close());
  const layout = protobuf.Root.fromJSON(CLUSTER_LAYOUT).lookupType('troupe.ClusterPods');
  const message = z.object({ pods: z.array(z.object({ name: z.string(), namespace: z.string() })) });
  const came: { readonly at: number; readonly containers: string[] }[] = [];
  connection.subscribe(subject, {
    callback: (_error, { data }) => {
      const { pods } = message.parse(layout.toObject(layout.decode(data), { arrays: true }));
      const containers = pods.filter(({ namespace }) => namespace !== 'core').map(({ name }) => name);
      came.push({ at: performance.now(), containers: containers.toSorted() });
    },
  });
  await connection.flush();
  return came;
}

const skip = skipWithoutNats();

test('two monitors of one engine: one measures each container, both show it, one publishes; the other takes over', {
  skip,
}, async (t) => {
  const { nats, userId, monitor } = await setting(t);
  const engine = await fakeDocker(t, 'THE-ENGINE', 'shared1', userId);
  const came = await heard(t, nats.url, 'cluster.pods');
  const first = await monitor(engine.host);
  await until(async () => (await first.pods()).names.includes('shared1'), { what: 'the first measures it' });
  const second = await monitor(engine.host);
  await until(async () => (await second.pods()).names.includes('shared1'), { what: 'the second shows it' });
  assert.equal(engine.streams(), 1);
  await until(async () => (await first.processes()) === 2 && (await second.processes()) === 2, {
    what: 'both show both processes',
  });
  assert.deepEqual([(await first.nodes()).length, (await second.nodes()).length], [1, 1]);
  const before = came.length;
  const since = performance.now();
  await until(() => came.length >= before + 6, { what: 'it is published' });
  assert.ok(performance.now() - since > 4 * REFRESH_MS, 'one of both publishes');
  assert.equal(engine.streams(), 1);

  await first.end('SIGKILL');
  const killed = Date.now();
  const published = came.length;
  await until(async () => engine.streams() === 1 && (await second.pods()).at > killed + 1000, {
    timeoutMs: 8000,
    what: 'the second measures',
  });
  assert.deepEqual((await second.pods()).names, ['shared1']);
  await until(() => came.length > published + 2, { what: 'the second publishes' });
  assert.ok(came.slice(before).every(({ containers }) => containers.length === 1));
  await until(async () => (await second.processes()) === 1, { what: 'the process of the first is gone' });
});

test('two monitors, each with an engine of its own: the clients of both see both, until one is dead', {
  skip,
}, async (t) => {
  const { nats, userId, monitor } = await setting(t);
  const engines = [await fakeDocker(t, 'ENGINE-1', 'one', userId), await fakeDocker(t, 'ENGINE-2', 'two', userId)];
  const came = await heard(t, nats.url, 'cluster.pods');
  const monitors = await Promise.all(engines.map(({ host }) => monitor(host)));
  for (const { pods } of monitors)
    await until(async () => (await pods()).names.length === 2, { what: 'both containers are shown' });
  assert.deepEqual(
    engines.map(({ streams }) => streams()),
    [1, 1],
  );
  await until(() => came.at(-1)?.containers.length === 2, { what: 'both are published together' });
  await monitors[0]?.end('SIGKILL');
  const killed = Date.now();
  const left = monitors[1];
  assert.ok(left !== undefined);
  await until(async () => (await left.pods()).names.join() === 'two', {
    timeoutMs: 15_000,
    what: 'what nobody measures is no longer shown',
  });
  await until(async () => (await left.pods()).at > killed, { what: 'the other is measured' });
  await until(() => came.at(-1)?.containers.join() === 'two', { what: 'the other publishes' });
});

test('a machine of which its monitor tells nothing more is shown as unmeasured, beside one that is measured', async () => {
  const node = (name: string): NodeSample => ({
    name,
    cpuMillis: 1,
    cpuCapacityMillis: 1000,
    memoryBytes: 1,
    memoryCapacityBytes: 2,
    diskBytes: 1,
    diskCapacityBytes: 2,
    conditions: [{ type: 'Ready', status: 'True' }],
  });
  const host = {
    name: 'host',
    calls: 0,
    read: async () => ({ nodes: [node('here')] }),
    close: async () => {},
  };
  const readings = new Readings([host], 1);
  let told = 0;
  const refresh = () =>
    readings.refresh(1000, Date.now, {
      onNodes() {
        told += 1;
      },
      onPods() {},
      onFailure: assert.fail,
    });
  readings.heard({ part: 'host there', sample: { nodes: [node('there')] }, at: 1000, refreshMs: 1 });
  await refresh();
  const status = (name: string) => readings.nodes()?.items.find((one) => one.name === name)?.conditions[0]?.status;
  assert.deepEqual([status('here'), status('there')], ['True', 'True']);
  await until(
    async () => {
      await refresh();
      return status('there') === 'Unknown';
    },
    { timeoutMs: 10_000 },
  );
  assert.equal(status('here'), 'True');
  assert.ok((readings.nodes()?.at ?? 0) > 1000, 'the time is that of what is measured');
  assert.ok(told > 1);
});

test('a machine that two monitors see with other disks is one, with the fullest', () => {
  const readings = new Readings([], 1000);
  const sample = (diskBytes: number) => ({
    nodes: [
      {
        name: 'here',
        cpuMillis: 1,
        cpuCapacityMillis: 1000,
        memoryBytes: 1,
        memoryCapacityBytes: 2,
        diskBytes,
        diskCapacityBytes: 10,
        conditions: [],
      },
    ],
  });
  readings.heard({ part: 'host here /', sample: sample(3), at: 1, refreshMs: 1000 });
  readings.heard({ part: 'host here /data', sample: sample(9), at: 1, refreshMs: 1000 });
  assert.deepEqual(
    readings.nodes()?.items.map(({ diskBytes }) => diskBytes),
    [9],
  );
});
