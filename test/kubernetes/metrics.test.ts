import assert from 'node:assert/strict';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createServer, type ServerResponse } from 'node:http';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { MetricsSource } from '../../proto/ports/metrics-source.ts';
import { kubernetesMetrics } from '../../transports/engines/kubernetes/metrics.ts';
import { silentLog } from '../support/engine/docker-under-test.ts';
import { eventually } from '../support/engine/eventually.ts';
import { tempDir } from '../support/temp.ts';

const labels = (id: string) => ({
  ...{ 'troupe.dev/installation': 'test', 'troupe.dev/container': id, 'troupe.dev/user': 'u1' },
});
const spec = JSON.stringify({ image: 'x', hostname: 'h', cpus: 0.5, memoryMb: 128, storageGb: 1, mountPaths: [] });
const podOf = (id: string, uid: string, state: object, metadata: object = {}) => ({
  metadata: {
    ...{ name: 'container-0', namespace: `compute-u1-${id}`, uid, resourceVersion: uid, labels: labels(id) },
    ...{ annotations: { 'troupe.dev/spec': spec }, ...metadata },
  },
  spec: { nodeName: 'n1' },
  status: {
    phase: 'terminated' in state ? 'Failed' : 'Running',
    containerStatuses: [{ name: 'container', state }],
  },
});
const runs = { running: { startedAt: '2026-01-01T00:00:00Z' } };
const died = (reason: string) => ({ terminated: { exitCode: 137, reason, finishedAt: '2026-01-01T00:01:00Z' } });

/** An API server with one node and the pods it is told of. */
async function fakeCluster(t: TestContext, answers: { metrics?: boolean; kubelet?: boolean; unmeasured?: boolean }) {
  const asked: string[] = [];
  let watching: ServerResponse | undefined;
  const replies: Record<string, () => unknown> = {
    '/api/v1/nodes': () => ({
      items: [
        {
          metadata: { name: 'n1' },
          status: {
            capacity: { cpu: '2', memory: '4Gi', 'ephemeral-storage': '10Gi' },
            conditions: [{ type: 'Ready', status: 'True' }],
          },
        },
      ],
    }),
    '/api/v1/pods': () => ({ metadata: { resourceVersion: '1' }, items: [podOf('a', '1', runs)] }),
    ...(answers.metrics === true && {
      '/apis/metrics.k8s.io/v1beta1/pods': () => ({
        items: [
          {
            metadata: { namespace: answers.unmeasured === true ? 'other' : 'compute-u1-a', name: 'container-0' },
            containers: [{ usage: { cpu: '100m', memory: '10Mi' } }],
          },
        ],
      }),
      '/apis/metrics.k8s.io/v1beta1/nodes': () => ({
        items: [{ metadata: { name: 'n1' }, usage: { cpu: '1', memory: '1Gi' } }],
      }),
    }),
    ...(answers.kubelet === true && {
      '/api/v1/nodes/n1/proxy/stats/summary': () => ({
        node: {
          cpu: { usageNanoCores: 5e8 },
          memory: { workingSetBytes: 2 ** 20 },
          fs: { usedBytes: 1000, capacityBytes: 5000 },
        },
        pods: [
          {
            podRef: { namespace: 'compute-u1-a', name: 'container-0' },
            containers: [
              {
                cpu: answers.unmeasured === true ? {} : { usageNanoCores: 2e8 },
                memory: { workingSetBytes: 2048 },
                rootfs: { usedBytes: 100 },
              },
            ],
            volume: [
              { name: 'data', usedBytes: 200 },
              { name: 'keys', usedBytes: 5 },
            ],
          },
        ],
      }),
    }),
  };
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? '', 'http://x');
    asked.push(url.pathname);
    if (url.searchParams.get('watch') === 'true') {
      watching = response;
      response.writeHead(200).flushHeaders();
      return;
    }
    const reply = replies[url.pathname]?.();
    response.writeHead(reply === undefined ? 404 : 200);
    response.end(JSON.stringify(reply ?? { kind: 'Status', code: 404, message: 'not found' }));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  const url = `http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`;
  const kubeconfig = join(await tempDir(t), 'kubeconfig');
  const one = { name: 'c' };
  await writeFile(
    kubeconfig,
    JSON.stringify({
      'current-context': 'c',
      clusters: [{ ...one, cluster: { server: url, 'insecure-skip-tls-verify': true } }],
      users: [{ ...one, user: { token: 't' } }],
      contexts: [{ ...one, context: { cluster: 'c', user: 'c' } }],
    }),
  );
  const source = kubernetesMetrics({ access: { kubeconfig }, installation: 'test', log: silentLog });
  t.after(() => source.close());
  return {
    source,
    asked,
    tell: (type: string, object: object) => watching?.write(`${JSON.stringify({ type, object })}\n`),
  };
}

const read = (source: MetricsSource) => source.read(AbortSignal.timeout(60_000));

test('CPU and memory come from metrics.k8s.io where it is served, disks from the kubelets, once a minute', async (t) => {
  const { source, asked } = await fakeCluster(t, { metrics: true, kubelet: true });
  const { pods, nodes } = await read(source);
  assert.deepEqual(pods, [
    {
      ...{ name: 'a', namespace: 'compute-u1-a', node: 'n1', userId: 'u1', containerId: 'a' },
      ...{ cpuMillis: 100, cpuCapacityMillis: 500, memoryBytes: 10 * 2 ** 20, memoryCapacityBytes: 128 * 2 ** 20 },
      ...{ diskBytes: 300, restarts: 0, crashedAt: [], oomKills: 0 },
    },
  ]);
  assert.deepEqual(nodes, [
    {
      ...{
        name: 'n1',
        cpuMillis: 1000,
        cpuCapacityMillis: 2000,
        memoryBytes: 2 ** 30,
        memoryCapacityBytes: 4 * 2 ** 30,
      },
      ...{ diskBytes: 1000, diskCapacityBytes: 5000 },
      conditions: [
        { type: 'Ready', status: 'True' },
        { type: 'MetricsAvailable', status: 'True' },
      ],
    },
  ]);
  await read(source);
  assert.equal(asked.filter((path) => path.endsWith('/summary')).length, 1);
  // The pods are listed once, then watched.
  assert.equal(asked.filter((path) => path === '/api/v1/pods').length, 2);
  assert.equal(source.calls, asked.length);
});

test('a container that runs and was not measured yet is not shown with zeros', async (t) => {
  // The kubelet knows it, but no rate of it: it has looked once.
  const kubelets = await fakeCluster(t, { kubelet: true, unmeasured: true });
  assert.deepEqual((await read(kubelets.source)).pods, []);
  const served = await fakeCluster(t, { metrics: true, unmeasured: true });
  assert.deepEqual((await read(served.source)).pods, []);
});

test('without metrics.k8s.io the kubelets tell all, each time', async (t) => {
  const { source, asked } = await fakeCluster(t, { kubelet: true });
  const { pods, nodes } = await read(source);
  assert.deepEqual([pods?.[0]?.cpuMillis, pods?.[0]?.memoryBytes, pods?.[0]?.diskBytes], [200, 2048, 300]);
  assert.deepEqual([nodes?.[0]?.cpuMillis, nodes?.[0]?.memoryBytes], [500, 2 ** 20]);
  await read(source);
  assert.equal(asked.filter((path) => path.endsWith('/summary')).length, 2);
  assert.equal(
    asked.filter((path) => path.startsWith('/apis/metrics')).length,
    2,
    'what is not there is not asked again',
  );
});

test('where nobody tells, numbers are zero and the node says that they are not measured', async (t) => {
  const { source } = await fakeCluster(t, {});
  const { pods, nodes } = await read(source);
  assert.deepEqual([pods?.[0]?.cpuMillis, pods?.[0]?.memoryCapacityBytes], [0, 128 * 2 ** 20]);
  assert.deepEqual([nodes?.[0]?.memoryBytes, nodes?.[0]?.diskCapacityBytes], [0, 10 * 2 ** 30]);
  assert.ok(nodes?.[0]?.conditions.some(({ type, status }) => type === 'MetricsAvailable' && status === 'False'));
});

test('crashes, restarts and memory kills are counted from the watch, stops are not', async (t) => {
  const { source, tell } = await fakeCluster(t, { kubelet: true });
  await read(source);
  const becomes = (wanted: object) =>
    eventually(async () => {
      const [{ restarts, crashedAt, oomKills } = { restarts: -1, crashedAt: [], oomKills: -1 }] =
        (await read(source)).pods ?? [];
      assert.deepEqual({ restarts, crashes: crashedAt.length, oomKills }, wanted);
    });
  tell('MODIFIED', podOf('a', '1', died('OOMKilled')));
  tell('MODIFIED', podOf('a', '1', died('OOMKilled')));
  await becomes({ restarts: 0, crashes: 1, oomKills: 1 });
  tell('DELETED', podOf('a', '1', died('OOMKilled'), { deletionTimestamp: 'x' }));
  tell('ADDED', podOf('a', '2', runs));
  await becomes({ restarts: 1, crashes: 1, oomKills: 1 });
  // Told to end: it goes, and what was counted of it with it.
  tell('MODIFIED', podOf('a', '2', runs, { deletionTimestamp: 'x' }));
  tell('MODIFIED', podOf('a', '2', died('Error'), { deletionTimestamp: 'x' }));
  tell('DELETED', podOf('a', '2', died('Error'), { deletionTimestamp: 'x' }));
  await eventually(async () => assert.deepEqual((await read(source)).pods, []));
});

test('of two pods of a container the one that was there is measured, until it goes', async (t) => {
  const { source, tell } = await fakeCluster(t, { kubelet: true });
  const beside = { name: 'container-1' };
  const seen = async () => (await read(source)).pods?.map(({ cpuMillis, crashedAt }) => [cpuMillis, crashedAt.length]);
  assert.deepEqual(await seen(), [[200, 0]]);
  tell('ADDED', podOf('a', '2', runs, beside));
  tell('MODIFIED', podOf('a', '2', died('Error'), beside));
  tell('ADDED', podOf('b', '9', died('Error')));
  // What ends before it has the place is no crash of the container.
  await eventually(async () =>
    assert.deepEqual((await seen())?.sort(), [
      [0, 1],
      [200, 0],
    ]),
  );
  tell('DELETED', podOf('a', '2', died('Error'), beside));
  tell('ADDED', podOf('a', '3', runs, beside));
  tell('MODIFIED', podOf('a', '1', runs, { deletionTimestamp: 'x' }));
  tell('MODIFIED', podOf('a', '1', died('Error'), { deletionTimestamp: 'x' }));
  tell('DELETED', podOf('a', '1', died('Error'), { deletionTimestamp: 'x' }));
  // Not measured yet: it comes with its first numbers.
  await eventually(async () => assert.deepEqual(await seen(), [[0, 1]]));
  tell('MODIFIED', podOf('a', '3', died('Error'), beside));
  await eventually(async () =>
    assert.deepEqual(await seen(), [
      [0, 1],
      [0, 1],
    ]),
  );
});

test('while the pods are not known, a read says what keeps them from being so', async (t) => {
  const { source } = await fakeCluster(t, {});
  const elsewhere = kubernetesMetrics({
    access: { kubeconfig: join(await tempDir(t), 'none') },
    ...{ installation: 'test', log: silentLog, watchTimes: { silenceMs: 1000, firstPauseMs: 5, longestPauseMs: 10 } },
  });
  t.after(() => elsewhere.close());
  await assert.rejects(elsewhere.read(AbortSignal.timeout(500)), /credentials of the cluster cannot be read/);
  await source.close();
  await assert.rejects(read(source));
});
