/** What a real API server does to those who make containers in it. */
import assert from 'node:assert/strict';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { request } from 'node:https';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { z } from 'zod';
import { type ContainerSpec, type Engine, EngineError } from '../../proto/ports/engine.ts';
import type { Log } from '../../proto/ports/log.ts';
import { kubernetesEngine } from '../../transports/engines/kubernetes/engine.ts';
import { rejectsWith } from '../support/engine/conformance-suite.ts';
import { eventually } from '../support/engine/eventually.ts';
import { type Cutter, startCutter } from '../support/kubernetes/breaking-proxy.ts';
import { type Cluster, startCluster } from '../support/kubernetes/cluster.ts';
import { type FakeNode, startFakeNode } from '../support/kubernetes/fake-node.ts';
import { applyAll, kubeconfigOf } from '../support/kubernetes/manifests.ts';
import { skipWithoutKubernetes } from '../support/kubernetes/programs.ts';

const specOf = (id: string, change: Partial<ContainerSpec> = {}): ContainerSpec => ({
  ...{ id, userId: 'u1', hostname: 'box.example.com', image: 'x/y:1', cpus: 0.5, memoryMb: 128, storageGb: 1 },
  ...{ mountPaths: ['/root'], authorizedKeys: ['ssh-ed25519 AAAA'] },
  ...change,
});

describe('what goes wrong in a cluster', { skip: skipWithoutKubernetes(), timeout: 900_000 }, () => {
  let cluster: Cluster;
  let cutter: Cutter;
  let node: FakeNode;
  let engine: Engine;
  const said: string[] = [];
  const hear = (fields: object): void => void said.push(JSON.stringify(fields));
  const log: Log = { debug: hear, info: hear, warn: hear, error: hear, child: () => log };
  const pathIn = (id: string, rest: string): string => `/api/v1/namespaces/compute-u1-${id}${rest}`;
  const apply = async (path: string, body: object): Promise<void> => {
    const type = 'application/apply-patch+yaml';
    const { status, json } = await cluster.call('PATCH', `${path}?fieldManager=test&force=true`, body, type);
    assert.ok(status < 300, JSON.stringify(json));
  };

  before(async () => {
    // Without its cache the API server knows of the past what etcd does.
    // With so little room it says 429 to all but administrators.
    const little = ['--max-requests-inflight=1', '--enable-priority-and-fairness=false'];
    cluster = await startCluster({ withoutNode: true, apiServerFlags: ['--watch-cache=false', ...little] });
    cutter = await startCutter(Number(new URL(cluster.server).port));
    const config = await readFile(cluster.kubeconfig, 'utf8');
    const proxied = join(cluster.folder, 'proxied.kubeconfig');
    await writeFile(proxied, config.replace(cluster.server, `https://127.0.0.1:${cutter.port}`));
    node = startFakeNode(cluster);
    engine = kubernetesEngine({
      ...{ access: { kubeconfig: proxied }, installation: 'test', baseImage: 'x/y:1', log },
      watchTimes: { silenceMs: 60_000, firstPauseMs: 20, longestPauseMs: 200 },
    });
  });
  after(async () => {
    await engine?.close();
    await node?.close();
    await cutter?.close();
    await cluster?.stop();
  });

  test('a version that etcd has forgotten (410) is found anew, and all is looked at', async () => {
    const seen: (string | undefined)[] = [];
    const watch = engine.watch((id) => seen.push(id));
    await eventually(() => assert.deepEqual(seen, [undefined]));
    cutter.refuse(true);
    cutter.cut();
    for (let n = 0; n < 3; n++) {
      await apply(`/api/v1/namespaces/noise${n}`, {
        apiVersion: 'v1',
        kind: 'Namespace',
        metadata: { name: `noise${n}` },
      });
    }
    await compact(cluster);
    cutter.refuse(false);
    await eventually(() => assert.ok(seen.length > 1 && seen.at(-1) === undefined, 'not told to look'));
    await eventually(() =>
      assert.ok(
        said.some((line) => /too old|compacted/.test(line)),
        'there was no 410',
      ),
    );
    // What is made while a watch is still about to look at all is not heard of by name.
    let memoryMb = 128;
    await eventually(async () => {
      memoryMb += 1;
      await engine.create(specOf('a', { memoryMb }));
      assert.ok(seen.includes('a'), 'not heard of');
    });
    await watch.close();
    await engine.remove('a');
  });

  test('a quota that is used up (403) is told as it is', async () => {
    await engine.create(specOf('b'));
    const quota = { apiVersion: 'v1', kind: 'ResourceQuota', metadata: { name: 'none', namespace: 'compute-u1-b' } };
    await apply(pathIn('b', '/resourcequotas/none'), { ...quota, spec: { hard: { pods: '0' } } });
    const known = z.object({ status: z.object({ hard: z.object({ pods: z.literal('0') }) }) });
    await eventually(async () => known.parse((await cluster.call('GET', pathIn('b', '/resourcequotas/none'))).json));
    await assert.rejects(engine.start('b', []), (error: unknown) => {
      assert.ok(error instanceof EngineError);
      assert.equal(error.code, 'refused');
      assert.match(error.message, /quota is used up: .*none/);
      return true;
    });
    await engine.remove('b');
  });

  test('a namespace that is still going, held by a finalizer, is waited for', async () => {
    await engine.create(specOf('c'));
    const held = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'held', namespace: 'compute-u1-c' } };
    const path = pathIn('c', '/configmaps/held');
    await apply(path, { ...held, metadata: { ...held.metadata, finalizers: ['example.com/hold'] } });
    await engine.remove('c');
    assert.equal(await engine.inspect('c'), undefined, 'what goes is not there any more');
    let made = false;
    const again = engine.create(specOf('c')).then(() => {
      made = true;
    });
    await eventually(async () =>
      assert.match(
        JSON.stringify((await cluster.call('GET', pathIn('c', ''))).json),
        /NamespaceFinalizersRemaining","status":"True/,
      ),
    );
    assert.equal(made, false);
    await cluster.call('PATCH', path, { metadata: { finalizers: null } }, 'application/merge-patch+json');
    await again;
    assert.equal((await engine.inspect('c'))?.phase, 'created');
    await engine.remove('c');
  });

  test('a claim that cannot shrink (422) stays as it is, and the container comes about', async () => {
    await engine.create(specOf('d', { storageGb: 2 }));
    await engine.create(specOf('d', { storageGb: 1 }));
    const { json } = await cluster.call('GET', pathIn('d', '/persistentvolumeclaims/data'));
    assert.match(JSON.stringify(json), /"storage":"2Gi"/);
    await engine.start('d', []);
    assert.equal((await engine.inspect('d'))?.phase, 'running');
    await engine.remove('d');
  });

  test("what a container writes beside its mounts is limited to its storage_gb: the cluster's own answer", async () => {
    await engine.create(specOf('limited', { storageGb: 3 }));
    await engine.start('limited', []);
    const { json } = await cluster.call('GET', pathIn('limited', '/pods'));
    const limits = z.object({ 'ephemeral-storage': z.literal('3Gi'), memory: z.literal('128Mi') });
    const pod = z.object({
      spec: z.object({ containers: z.array(z.object({ resources: z.object({ limits }) })).min(1) }),
    });
    z.object({ items: z.tuple([pod]) }).parse(json);
    await engine.remove('limited');
  });

  test('a namespace of somebody else with the name of a container is refused, and left alone', async () => {
    const theirs = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'compute-u1-e', labels: { mine: 'yes' } } };
    await apply(pathIn('e', ''), theirs);
    await rejectsWith(engine.create(specOf('e')), 'refused');
    await engine.remove('e');
    const { json } = await cluster.call('GET', pathIn('e', ''));
    assert.match(JSON.stringify(json), /"mine":"yes"/);
    assert.doesNotMatch(JSON.stringify(json), /troupe|deletionTimestamp/);
  });

  test('the outside reaches a container at the address of its service, which may come and change while it runs', async () => {
    const seen: (string | undefined)[] = [];
    const watch = engine.watch((id) => seen.push(id));
    await engine.create(specOf('f'));
    await engine.start('f', []);
    assert.equal((await engine.inspect('f'))?.externalAddress, '');
    const given = async (ingress: object): Promise<void> => {
      seen.length = 0;
      const body = { status: { loadBalancer: { ingress: [ingress] } } };
      await cluster.call('PATCH', pathIn('f', '/services/container/status'), body, 'application/merge-patch+json');
      await eventually(() => assert.ok(seen.includes('f'), 'not heard of'));
    };
    await given({ ip: '192.0.2.7' });
    assert.equal((await engine.inspect('f'))?.externalAddress, '192.0.2.7');
    await given({ hostname: 'lb.example.com' });
    assert.equal((await engine.list()).find(({ id }) => id === 'f')?.externalAddress, 'lb.example.com');
    await engine.stop('f', 1);
    assert.equal((await engine.inspect('f'))?.externalAddress, undefined);
    await watch.close();
    await engine.remove('f');
  });

  test('a container goes to nodes of its architecture, under the baseline of pod security, reached by the platform alone', async () => {
    await engine.create(specOf('g', { architecture: 'arm64' }));
    await engine.start('g', []);
    const pod = JSON.stringify((await cluster.call('GET', pathIn('g', '/pods/container-0'))).json);
    assert.match(pod, /"nodeSelector":\{"kubernetes.io\/arch":"arm64"\}/);
    assert.match(pod, /"automountServiceAccountToken":false/);
    assert.match(pod, /"hostname":"box"/);
    const namespace = JSON.stringify((await cluster.call('GET', pathIn('g', ''))).json);
    assert.match(namespace, /"pod-security.kubernetes.io\/enforce":"baseline"/);
    const policies = '/apis/networking.k8s.io/v1/namespaces/compute-u1-g/networkpolicies/container';
    const policy = JSON.stringify((await cluster.call('GET', policies)).json);
    assert.match(policy, /"policyTypes":\["Ingress","Egress"\]/);
    assert.match(policy, /"except":\["10.0.0.0\/8"/);
    await engine.remove('g');
  });

  test('a pod that somebody else removed is made anew, one that was stopped is not missed', async () => {
    await engine.create(specOf('h'));
    await engine.start('h', []);
    await cluster.call('DELETE', pathIn('h', '/pods/container-0'));
    await eventually(async () => assert.equal(await engine.inspect('h'), undefined));
    await engine.create(specOf('h'));
    await engine.start('h', []);
    // Nobody can write keys into what runs here: those it has are not written again.
    await engine.start('h', []);
    await assert.rejects(engine.start('h', ['ssh-ed25519 BBBB']));
    await assert.rejects(engine.start('h', []), 'what is in it now is not known');
    await engine.stop('h', 1);
    assert.equal((await engine.inspect('h'))?.phase, 'exited');
    await engine.remove('h');
  });

  test('watches whose connections break again and again miss nothing', async () => {
    const watch = engine.watch(() => undefined);
    const listed = async (): Promise<string[]> => (await engine.list()).map(({ id }) => id);
    for (const id of ['i1', 'i2', 'i3', 'i4']) {
      cutter.cut();
      // A connection that broke while something was written says so.
      await eventually(() => engine.create(specOf(id)));
      cutter.cut();
    }
    await eventually(async () => assert.deepEqual((await listed()).filter((id) => id.startsWith('i')).length, 4));
    for (const id of ['i1', 'i2', 'i3', 'i4']) {
      await eventually(() => engine.remove(id));
      cutter.cut();
    }
    await eventually(async () =>
      assert.deepEqual(
        (await listed()).filter((id) => id.startsWith('i')),
        [],
      ),
    );
    await watch.close();
  });

  /** An engine with the token of a service account that may do everything, but is no administrator to the server. */
  const accountEngine = async (
    account: string,
  ): Promise<{ engine: Engine; kubeconfig: string; renew(): Promise<void> }> => {
    const metadata = { name: account, namespace: 'default' };
    const renew = async (): Promise<void> => {
      await applyAll(cluster, [
        { apiVersion: 'v1', kind: 'ServiceAccount', metadata },
        {
          ...{ apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'ClusterRoleBinding', metadata: { name: account } },
          roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'cluster-admin' },
          subjects: [{ kind: 'ServiceAccount', ...metadata }],
        },
      ]);
      await kubeconfigOf(cluster, account, 'default');
    };
    await renew();
    const kubeconfig = join(cluster.folder, `${account}.kubeconfig`);
    const made = kubernetesEngine({ access: { kubeconfig }, installation: 'test', baseImage: 'x/y:1', log });
    // Its right arrives a moment later.
    await eventually(() => made.list());
    return { engine: made, kubeconfig, renew };
  };

  test('a server with too much to do (429) is asked again until it has room', async () => {
    const { engine: crowd, kubeconfig } = await accountEngine('crowd');
    const users = z.object({ users: z.array(z.object({ user: z.object({ token: z.string() }) })) });
    const [user] = users.parse(JSON.parse(await readFile(kubeconfig, 'utf8'))).users;
    const statusOf = (): Promise<number> => getStatus(`${cluster.server}/api/v1/pods`, user?.user.token ?? '');
    try {
      // The server does refuse when asked by many at once.
      await eventually(async () => {
        const statuses = await Promise.all(Array.from({ length: 40 }, statusOf));
        assert.ok(statuses.includes(429), `no 429 among ${[...new Set(statuses)].join()}`);
      });
      const answers = await Promise.all(Array.from({ length: 20 }, () => crowd.inspect('nobody')));
      assert.equal(answers.length, 20);
    } finally {
      await crowd.close();
    }
  });

  test('a token that is not accepted any more (401) is read anew', async () => {
    const { engine: late, renew } = await accountEngine('late');
    try {
      const path = '/api/v1/namespaces/default/serviceaccounts/late';
      await cluster.call('DELETE', path);
      // The server believes a token for some seconds.
      await eventually(() => rejectsWith(late.list(), 'unavailable'));
      await renew();
      await eventually(() => late.list());
    } finally {
      await late.close();
    }
  });

  // The last: the cluster's own controllers do not learn of it.
  test('an authority that changed (CA rotation) is read anew', async () => {
    await engine.list();
    await cluster.apiServer.kill();
    await rm(join(cluster.folder, 'pki'), { recursive: true });
    cluster.apiServer.start();
    await cluster.ready();
    await eventually(() => engine.list());
  });
});

/** The status of a GET. */
function getStatus(url: string, token: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${token}` };
    const sent = request(url, { rejectUnauthorized: false, agent: false, headers }, (response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    });
    sent.on('error', reject);
    sent.end();
  });
}

/** Makes etcd forget all but the present. */
async function compact(cluster: Cluster): Promise<void> {
  const ask = async (path: string, body: object): Promise<unknown> =>
    (await fetch(`${cluster.etcdUrl}/v3/${path}`, { method: 'POST', body: JSON.stringify(body) })).json();
  const { header } = z
    .object({ header: z.object({ revision: z.string() }) })
    .parse(await ask('kv/range', { key: Buffer.from('/').toString('base64') }));
  await ask('kv/compaction', { revision: header.revision, physical: true });
}
