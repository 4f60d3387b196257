/** A pod that takes the place of another, in a cluster whose pods are said to run: what is written, and what a crash leaves. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { z } from 'zod';
import type { ContainerSpec, Engine } from '../../proto/ports/engine.ts';
import { successorId } from '../../proto/ports/engine.ts';
import { kubernetesEngine } from '../../transports/engines/kubernetes/engine.ts';
import { rejectsWith } from '../support/engine/conformance-suite.ts';
import { silentLog } from '../support/engine/docker-under-test.ts';
import { type Cluster, startCluster } from '../support/kubernetes/cluster.ts';
import { type FakeNode, startFakeNode } from '../support/kubernetes/fake-node.ts';
import { applyAll, kubeconfigOf, manifestsOf } from '../support/kubernetes/manifests.ts';
import { skipWithoutKubernetes } from '../support/kubernetes/programs.ts';
import { until } from '../support/until.ts';

const keys = ['ssh-ed25519 AAAA'];
const specOf = (id: string, change: Partial<ContainerSpec> = {}): ContainerSpec => ({
  ...{ id, userId: 'u1', hostname: 'box.example.com', image: 'x.test/y:1', cpus: 0.5, memoryMb: 128, storageGb: 1 },
  ...{ mountPaths: [], authorizedKeys: keys },
  ...change,
});
const names = z.object({ items: z.array(z.object({ metadata: z.object({ name: z.string() }) })) });
const service = z.object({ spec: z.object({ selector: z.record(z.string(), z.string()) }) });
const annotated = z.object({ metadata: z.object({ annotations: z.record(z.string(), z.string()) }) });

describe('a successor in a cluster', { skip: skipWithoutKubernetes(), timeout: 900_000 }, () => {
  let cluster: Cluster;
  let node: FakeNode;
  let engine: Engine;
  let kubeconfig: string;
  const open = () =>
    kubernetesEngine({
      ...{ access: { kubeconfig }, installation: 'test', baseImage: 'x.test/y:1', log: silentLog },
    });
  const pathIn = (id: string, rest = ''): string => `/api/v1/namespaces/compute-u1-${id}${rest}`;
  const pods = async (id: string, selector = ''): Promise<string[]> => {
    const { json } = await cluster.call('GET', pathIn(id, `/pods?labelSelector=${encodeURIComponent(selector)}`));
    return names.parse(json).items.map(({ metadata }) => metadata.name);
  };
  /** The pods to which the outside is led, or who asks for an alias. */
  const led = async (id: string, name = 'container'): Promise<string[]> => {
    const { selector } = service.parse((await cluster.call('GET', pathIn(id, `/services/${name}`))).json).spec;
    const words = Object.entries(selector).map(([name, value]) => `${name}=${value}`);
    return pods(id, words.join(','));
  };
  const annotations = async (id: string) =>
    annotated.parse((await cluster.call('GET', pathIn(id))).json).metadata.annotations;
  const patch = (path: string, body: object) => cluster.call('PATCH', path, body, 'application/merge-patch+json');
  const begun = async (id: string): Promise<ContainerSpec> => {
    await engine.create(specOf(id));
    await engine.start(id, keys);
    const next = specOf(id, { image: 'x.test/y:2' });
    await engine.beginSuccessor(next, keys, undefined, undefined);
    return next;
  };

  before(async () => {
    cluster = await startCluster({ withoutNode: true });
    const rights = /^(Namespace|ServiceAccount|ClusterRole|ClusterRoleBinding)$/;
    await applyAll(
      cluster,
      manifestsOf('example').filter(({ kind }) => rights.test(kind)),
    );
    kubeconfig = await kubeconfigOf(cluster, 'troupe-core');
    node = startFakeNode(cluster);
    engine = open();
  });
  after(async () => {
    await engine?.close();
    await node?.close();
    await cluster?.stop();
  });

  test('takes the place of a pod that a former version made, in one step, and the service follows', async () => {
    await engine.create(specOf('a'));
    await engine.start('a', keys);
    await patch(pathIn('a', '/pods/container-0'), { metadata: { labels: { 'troupe.dev/pod': null } } });
    assert.deepEqual(await led('a'), ['container-0']);
    await engine.beginSuccessor(specOf('a', { image: 'x.test/y:2' }), keys, undefined, undefined);
    assert.deepEqual([await pods('a'), await led('a')], [['container-0', 'container-1'], ['container-0']]);
    const [before, next] = [await engine.inspect('a'), await engine.inspect(successorId('a'))];
    assert.deepEqual([before?.phase, next?.phase, next?.id], ['running', 'running', successorId('a')]);
    await engine.promote('a', undefined);
    assert.deepEqual([await pods('a'), await led('a')], [['container-0', 'container-1'], ['container-1']]);
    const { 'troupe.dev/pod': pod, 'troupe.dev/spec': spec = '' } = await annotations('a');
    assert.equal(pod, 'container-1');
    assert.match(spec, /"image":"x\.test\/y:2"/);
    await engine.endOthers('a', 1);
    assert.deepEqual(await pods('a'), ['container-1']);
    // Nothing is kept: there is no claim that two nodes could not both mount.
    const claims = names.parse((await cluster.call('GET', pathIn('a', '/persistentvolumeclaims'))).json);
    assert.deepEqual(claims.items, []);
    await engine.stop('a', 1);
    assert.deepEqual(await pods('a'), []);
    await engine.create(specOf('a', { image: 'x.test/y:2', mountPaths: ['/root'] }));
    assert.equal(names.parse((await cluster.call('GET', pathIn('a', '/persistentvolumeclaims'))).json).items.length, 1);
    await engine.remove('a');
  });

  test('is found by the next platform, whichever step the one before came to', async (t) => {
    const second = open();
    t.after(() => second.close());
    const next = await begun('b');
    const present = await second.inspect('b');
    // Begun: the container is what it was, and another one is beside it.
    assert.equal((await second.list(['b']))[0]?.hasOthers, true);
    await second.endOthers('b', 1);
    assert.deepEqual([await pods('b'), (await second.inspect('b'))?.startedAt], [['container-0'], present?.startedAt]);
    assert.equal((await second.list(['b']))[0]?.hasOthers, undefined);
    // Written, and the service leads to the one before.
    await engine.beginSuccessor(next, keys, undefined, undefined);
    await patch(pathIn('b'), { metadata: { annotations: { 'troupe.dev/pod': 'container-1' } } });
    assert.deepEqual(await led('b'), ['container-0']);
    assert.equal((await second.inspect('b'))?.phase, 'running');
    assert.equal(await second.inspect(successorId('b')), undefined);
    await rejectsWith(second.promote('b', undefined), 'not_found');
    await second.endOthers('b', 1);
    assert.deepEqual([await pods('b'), await led('b')], [['container-1'], ['container-1']]);
    // Another begins where that one ended.
    await second.beginSuccessor(next, keys, undefined, undefined);
    assert.deepEqual(await pods('b'), ['container-1', 'container-2']);
    await second.stop('b', 1);
    assert.deepEqual(await pods('b'), []);
    await second.remove('b');
  });

  test('is promoted by the one who began it, and not in the place of what another began since', async (t) => {
    const second = open();
    t.after(() => second.close());
    const next = await begun('c');
    await second.beginSuccessor(next, keys, undefined, undefined);
    await rejectsWith(engine.promote('c', undefined), 'not_found');
    await second.promote('c', undefined);
    assert.equal((await annotations('c'))['troupe.dev/pod'], 'container-1');
    await engine.remove('c');
  });

  test('has what the container was given meanwhile', async () => {
    await begun('d');
    await engine.create(specOf('d', { storageGb: 2, egress: [] }));
    await engine.promote('d', undefined);
    const { egress, limits } = (await engine.inspect('d')) ?? {};
    assert.deepEqual([egress, limits?.storageGb], [[], 2]);
    assert.match((await annotations('d'))['troupe.dev/spec'] ?? '', /"image":"x\.test\/y:2".*"egress":\[\]/);
    await engine.remove('d');
  });

  test('has the alias lead to it once it is the container, whichever step the platform came to', async (t) => {
    const second = open();
    t.after(() => second.close());
    const web = { owner: 'u1', name: 'shop', alias: 'web', place: 1 };
    const [next, other] = [{ ...web, place: 13 }, specOf('g', { image: 'x.test/y:2' })];
    await engine.create(specOf('g'));
    await engine.join('g', web);
    await engine.start('g', keys);
    await rejectsWith(engine.beginSuccessor(other, keys, undefined, { ...next, alias: 'container' }), 'refused');
    await engine.beginSuccessor(other, keys, undefined, next);
    assert.deepEqual(await led('g', 'web'), ['container-0']);
    assert.deepEqual((await engine.inspect('g'))?.network, web);
    assert.deepEqual((await engine.inspect(successorId('g')))?.network?.alias, null);
    await engine.promote('g', next);
    assert.deepEqual(await led('g', 'web'), ['container-1']);
    assert.deepEqual((await engine.inspect('g'))?.network, next);
    // Another one was written, and the names lead to the one before.
    await engine.beginSuccessor(other, keys, undefined, web);
    await patch(pathIn('g'), { metadata: { annotations: { 'troupe.dev/pod': 'container-2' } } });
    assert.deepEqual(await led('g', 'web'), ['container-1']);
    await second.endOthers('g', 1);
    assert.deepEqual([await pods('g'), await led('g', 'web')], [['container-2'], ['container-2']]);
    // What it was given meanwhile is its own.
    await second.beginSuccessor(other, keys, undefined, web);
    await engine.join('g', { ...next, alias: 'old' });
    await second.promote('g', web);
    assert.deepEqual((await second.inspect('g'))?.network, { ...next, alias: 'old' });
    assert.deepEqual(await led('g', 'old'), ['container-3']);
    await engine.remove('g');
  });

  test('is known from a watch, by which the container and not what is beside it is listed', async () => {
    let looks = 0;
    const watch = engine.watch(() => {
      looks += 1;
    });
    await until(() => looks > 0);
    await begun('e');
    await until(async () => (await engine.list(['e']))[0]?.hasOthers === true, { what: 'a watch tells of it' });
    await until(async () => (await engine.inspect('e'))?.hasOthers === true, { what: 'and whoever looks reads so' });
    assert.equal((await engine.list()).length, 1);
    await engine.promote('e', undefined);
    await engine.endOthers('e', 1);
    await until(async () => {
      const [state] = await engine.list(['e']);
      return state?.phase === 'running' && state.hasOthers === undefined;
    });
    await engine.remove('e');
    await watch.close();
  });

  test('which no node has room for is told with what to do', async () => {
    await engine.create(specOf('f'));
    await engine.start('f', keys);
    await node.close();
    const beginning = engine.beginSuccessor(specOf('f', { image: 'x.test/y:2' }), keys, undefined, undefined);
    await assert.rejects(beginning, {
      code: 'unavailable',
      message: /^No node of the cluster has room for a second pod .*\. Make room, or stop the container, change its/,
    });
    await engine.endOthers('f', 0);
    assert.deepEqual(await pods('f'), ['container-0']);
    await engine.remove('f');
  });
});
