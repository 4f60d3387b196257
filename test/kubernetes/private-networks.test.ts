/** Names of private networks in a cluster whose platform dies in the middle, or whose objects others remove. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { deleteContainer } from '../../proto/compute/endpoints.ts';
import { updateContainer } from '../../proto/compute/settings.ts';
import { type Engine, EngineError, type PrivateNetwork } from '../../proto/ports/engine.ts';
import { KubeClient } from '../../transports/engines/kubernetes/client.ts';
import { KubeContainers } from '../../transports/engines/kubernetes/containers.ts';
import { kubernetesEngine } from '../../transports/engines/kubernetes/engine.ts';
import { kubeNaming } from '../../transports/engines/kubernetes/naming.ts';
import { silentLog } from '../support/engine/docker-under-test.ts';
import { type Cluster, startCluster } from '../support/kubernetes/cluster.ts';
import { startFakeNode } from '../support/kubernetes/fake-node.ts';
import { skipWithoutKubernetes } from '../support/kubernetes/programs.ts';
import { startGreeter } from '../support/kubernetes/ssh-greeter.ts';
import { pause } from '../support/pause.ts';
import { refused, someone } from '../support/service/calls.ts';
import { openCompute } from '../support/service/compute.ts';
import { until } from '../support/until.ts';

const named = z.object({
  items: z.array(
    z.object({
      metadata: z.object({ name: z.string(), namespace: z.string() }),
      spec: z.object({ externalName: z.string().default('its pod') }),
    }),
  ),
});

/** Writes so often, and then no more. */
class DyingClient extends KubeClient {
  writes = Number.POSITIVE_INFINITY;

  override async call(...asked: Parameters<KubeClient['call']>): Promise<string> {
    if (asked[0] !== 'GET' && this.writes-- <= 0) throw new EngineError('unavailable', 'It died.');
    return super.call(...asked);
  }
}

describe('private networks on Kubernetes', { skip: skipWithoutKubernetes(), timeout: 900_000 }, () => {
  let cluster: Cluster;
  let engine: Engine;
  before(async () => {
    cluster = await startCluster({ withoutNode: true });
    engine = kubernetesEngine({
      ...{ access: { kubeconfig: cluster.kubeconfig }, installation: 'test', baseImage: 'x/y:1', log: silentLog },
      settings: { serviceType: 'ClusterIP' },
    });
  });
  after(async () => {
    await engine?.close();
    await cluster?.stop();
  });

  const create = (userId: string, id: string): Promise<void> =>
    engine.create({
      ...{ id, userId, hostname: 'box', image: 'x/y:1', cpus: 0.5, memoryMb: 128, storageGb: 1 },
      ...{ mountPaths: [], authorizedKeys: [] },
    });
  const memberOf = (owner: string, alias: string | null, place: number): PrivateNetwork => ({
    ...{ owner, name: 'shop', alias, place },
  });
  /** Who finds whom, in the containers of a user: `a db -> b`. */
  const namesOf = async (userId: string): Promise<string[]> => {
    const selector = `troupe.dev/leads-to,troupe.dev/user=${userId}`;
    const { json } = await cluster.call('GET', `/api/v1/services?labelSelector=${encodeURIComponent(selector)}`);
    const short = (text: string): string => text.replace(`compute-${userId}-`, '');
    return named
      .parse(json)
      .items.map(({ metadata, spec }) => {
        const [, to = spec.externalName] = /^[^.]+\.([^.]+)\.svc\./.exec(spec.externalName) ?? [];
        return `${short(metadata.namespace)} ${metadata.name} -> ${short(to)}`;
      })
      .toSorted();
  };
  const before3 = async (userId: string): Promise<void> => {
    for (const [at, id] of ['a', 'b', 'c'].entries()) {
      await create(userId, id + userId);
      if (id !== 'c') await engine.join(id + userId, memberOf(userId, id === 'b' ? 'db' : null, at + 1));
    }
  };

  /** What a platform was doing when it died: by a name, the membership of `b` or `c` that is wanted. */
  const deeds: readonly { what: string; of: 'b' | 'c'; alias?: string; names: (u: string) => string[] }[] = [
    {
      what: 'joins',
      of: 'c',
      alias: 'web',
      names: (u) => [
        ...[`a${u} db -> b${u}`, `a${u} web -> c${u}`, `b${u} db -> its pod`],
        ...[`b${u} web -> c${u}`, `c${u} db -> b${u}`, `c${u} web -> its pod`],
      ],
    },
    {
      what: 'has another alias',
      of: 'b',
      alias: 'store',
      names: (u) => [`a${u} store -> b${u}`, `b${u} store -> its pod`],
    },
    { what: 'leaves', of: 'b', names: () => [] },
  ];
  for (const [number, { what, of, alias, names }] of deeds.entries())
    test(`one that ${what} is done by whoever comes after a crash at any of its writes`, async (t) => {
      let crashes = 0;
      for (let writes = 0, isOver = false; !isOver; writes += 1) {
        const user = `u${number}n${writes}`;
        await before3(user);
        const client = new DyingClient({ kubeconfig: cluster.kubeconfig });
        const dying = new KubeContainers(client, kubeNaming('test'));
        const id = of + user;
        const found = await dying.mustFind(id);
        const wanted = alias === undefined ? undefined : memberOf(user, alias, of === 'b' ? 2 : 3);
        client.writes = writes;
        isOver = await dying.networks.join(found, wanted).then(
          () => true,
          () => false,
        );
        client.close();
        if (!isOver) crashes += 1;
        const told = (await engine.inspect(id))?.network ?? null;
        // Only what is done is told as done: the reconciler joins it until then.
        if (isOver) assert.deepEqual(told, wanted ?? null);
        else assert.notDeepEqual(told, wanted ?? null, `after ${writes} writes`);
        await engine.join(id, wanted);
        assert.deepEqual((await engine.inspect(id))?.network, wanted ?? null);
        assert.deepEqual(await namesOf(user), names(user).toSorted(), `after ${writes} writes`);
        for (const one of ['a', 'b', 'c']) await engine.remove(one + user);
      }
      assert.ok(crashes >= 3, String(crashes));
      t.diagnostic(`${crashes} crashes`);
    });

  test('who is removed is found by nobody, and one that is made anew around its data joins again', async () => {
    await before3('u7');
    await engine.remove('bu7', { keepData: true });
    assert.deepEqual(await namesOf('u7'), []);
    await create('u7', 'bu7');
    assert.equal((await engine.inspect('bu7'))?.network, null);
    await engine.join('bu7', memberOf('u7', 'db', 2));
    assert.deepEqual(await namesOf('u7'), ['au7 db -> bu7', 'bu7 db -> its pod']);
    // Other settings of it leave it where it is.
    await create('u7', 'bu7');
    assert.deepEqual((await engine.inspect('bu7'))?.network, memberOf('u7', 'db', 2));
    await engine.remove('bu7');
    assert.deepEqual(await namesOf('u7'), []);
    await engine.remove('bu7');
  });

  test('all who join, change and leave at the same time end with the names of those who are in it', async () => {
    const ids = ['a', 'b', 'c', 'd', 'e'];
    for (const id of ids) await create('u8', id + 8);
    const networks = ids.map((id, at) => memberOf('u8', `is-${id}`, at + 1));
    await Promise.all(ids.map((id, at) => engine.join(id + 8, networks[at])));
    assert.equal((await namesOf('u8')).length, 25);
    await Promise.all([
      engine.join('a8', undefined),
      engine.remove('b8'),
      engine.join('c8', memberOf('u8', 'is-a', 3)),
      engine.join('d8', { ...memberOf('u8', 'is-d', 4), name: 'lab' }),
    ]);
    // Whose alias was not free yet when it joined finds it so by now.
    await engine.join('c8', memberOf('u8', 'is-a', 3));
    assert.deepEqual(await namesOf('u8'), [
      ...['c8 is-a -> its pod', 'c8 is-e -> e8', 'd8 is-d -> its pod', 'e8 is-a -> c8', 'e8 is-e -> its pod'],
    ]);
  });

  test('what users ask the platform for becomes names, and the platform mends them', async (t) => {
    const greeter = await startGreeter();
    t.after(() => greeter.close());
    const node = startFakeNode(cluster, greeter.address);
    t.after(() => node.close());
    const platform = kubernetesEngine({
      ...{ access: { kubeconfig: cluster.kubeconfig }, installation: 'platform', baseImage: 'x/y:1', log: silentLog },
      settings: { serviceType: 'ClusterIP' },
    });
    t.after(() => platform.close());
    const compute = await openCompute(t, { wrapEngine: () => platform, defaultImage: 'x/y:1' });
    const ann = someone('ann');
    const change = (id: string, body: object) => compute.call(updateContainer, ann, { params: { id }, body });
    const db = await compute.running(ann, { network: 'shop', alias: 'db' });
    const app = await compute.running(ann, { network: 'shop' });
    const found = async (...names: string[]): Promise<void> => {
      let seen: string[] = [];
      const isSo = async (): Promise<boolean> => {
        seen = await namesOf(ann.userId);
        return isDeepStrictEqual(seen, names.toSorted());
      };
      await until(isSo, { timeoutMs: 60_000 }).catch(() => assert.deepEqual(seen, names.toSorted()));
    };
    await found(`${app} db -> ${db}`, `${db} db -> its pod`);
    await refused('invalid_request', change(app, { alias: 'container' }));
    await refused('conflict', change(app, { alias: 'db' }));
    const { status } = await change(db, { alias: 'store' });
    assert.equal(status, 'running');
    await found(`${app} store -> ${db}`, `${db} store -> its pod`);
    await change(app, { alias: 'app' });
    const all = [`${app} app -> its pod`, `${app} store -> ${db}`, `${db} app -> ${app}`, `${db} store -> its pod`];
    await found(...all);
    // What is different right after it was mended is let be: its actor looks once more after the change.
    await pause(1000, 'fault');
    await cluster.call('DELETE', `/api/v1/namespaces/compute-${ann.userId}-${app}/services/store`);
    await found(...all);
    await change(app, { network: null });
    await found(`${db} store -> its pod`);
    await change(app, { network: 'shop' });
    await found(`${app} store -> ${db}`, `${db} store -> its pod`);
    await compute.on(deleteContainer, ann, db);
    await found();
  });

  test('a name that somebody removes or adds is noticed by the watch, and mended', async () => {
    await before3('u9');
    const seen: (string | undefined)[] = [];
    const watch = engine.watch((id) => seen.push(id));
    const placeTold = async (): Promise<number | undefined> =>
      (await engine.list(['au9'])).find(({ id }) => id === 'au9')?.network?.place;
    const told = (place: number): Promise<unknown> =>
      until(async () => (await placeTold()) === place, { what: `place ${place} is told`, timeoutMs: 60_000 });
    try {
      await told(1);
      await cluster.call('DELETE', '/api/v1/namespaces/compute-u9-au9/services/db');
      await told(0);
      assert.ok(seen.includes('au9'));
      assert.equal((await engine.inspect('au9'))?.network?.place, 0);
      await engine.join('au9', memberOf('u9', null, 1));
      assert.deepEqual((await engine.inspect('au9'))?.network, memberOf('u9', null, 1));
      await told(1);
      assert.deepEqual(await namesOf('u9'), ['au9 db -> bu9', 'bu9 db -> its pod']);
      // One that an older node left when it removed a container.
      const labels = { 'troupe.dev/installation': 'test', 'troupe.dev/user': 'u9' };
      await cluster.call('POST', '/api/v1/namespaces/compute-u9-au9/services', {
        ...{ apiVersion: 'v1', kind: 'Service' },
        metadata: {
          name: 'gone',
          labels: { ...labels, 'troupe.dev/leads-to': 'x', 'troupe.dev/asked-by': 'au9' },
        },
        spec: { type: 'ExternalName', externalName: 'gone.compute-u9-x.svc.cluster.local' },
      });
      await told(0);
      await engine.join('au9', memberOf('u9', null, 1));
      await told(1);
      assert.deepEqual(await namesOf('u9'), ['au9 db -> bu9', 'bu9 db -> its pod']);
    } finally {
      await watch.close();
    }
  });
});
