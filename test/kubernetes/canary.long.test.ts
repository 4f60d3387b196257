/** What is to be seen in a cluster of the secrets of containers: by other tenants, in events, annotations and logs. */
import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { z } from 'zod';
import { lookAtReplies } from '../support/canary/places.ts';
import { CanaryWorld } from '../support/canary/world.ts';
import { testDatabase } from '../support/database/database.ts';
import { kubernetesUnderTest } from '../support/engine/kubernetes-under-test.ts';
import { tinyImageMissing } from '../support/engine/tiny-image.ts';
import { startRegistry } from '../support/engine/troupe-registry.ts';
import { clusterDomain } from '../support/kubernetes/cluster-names.ts';
import { kubeconfigOf } from '../support/kubernetes/manifests.ts';
import { skipWithoutKubernetes } from '../support/kubernetes/programs.ts';
import { pushFrom } from '../support/kubernetes/revisions.ts';
import { skipWithout } from '../support/require.ts';
import { inReverse } from '../support/suite.ts';
import { freePort } from '../support/temp.ts';
import { until } from '../support/until.ts';

const skip = tinyImageMissing() ?? (skipWithoutKubernetes() || skipWithout('docker-registry'));
/** All that a cluster holds of containers, but for secrets. */
const KINDS = [
  ...['namespaces', 'pods', 'events', 'services', 'endpoints', 'configmaps', 'persistentvolumeclaims', 'nodes'],
  'serviceaccounts',
].map((kind) => `/api/v1/${kind}`);
const secretsView = z.object({
  items: z.array(
    z.object({
      metadata: z.object({ name: z.string(), namespace: z.string() }),
      data: z.record(z.string(), z.string()).default({}),
    }),
  ),
});

describe('canaries in a cluster', { skip, timeout: 900_000 }, () => {
  test('are in the secrets of their container alone', async (t) => {
    const ends = inReverse(t);
    const under = await kubernetesUnderTest({ names: true });
    ends.after(() => under.end());
    const { cluster } = under;
    const client = cluster.docker?.client ?? assert.fail('a cluster without a node');
    const { host } = await startRegistry(ends, { port: await freePort() });
    const repo = `${host}/ann/app`;
    for (const tag of ['1', '2']) {
      await client.call('POST', `/images/${under.image}/tag`, { query: { repo, tag } });
      await pushFrom(client, `${repo}:${tag}`);
    }
    const database = await testDatabase();
    ends.after(() => database.close());
    const world = await CanaryWorld.open(ends, {
      ...{ DATABASE_URL: database.url, DEFAULT_IMAGE: under.image, REGISTRY_HOST: host, COMPUTE_ENGINE: 'kubernetes' },
      ...{ KUBECONFIG: await kubeconfigOf(cluster, 'troupe-core'), KUBERNETES_ARCHITECTURE: 'any' },
      KUBERNETES_CLUSTER_DOMAIN: clusterDomain,
    });
    const make = async (name: string, body: object, who: 'ann' | 'bob' = 'ann'): Promise<string> => {
      const { status, json, text } = await world.compute(
        'POST',
        '/containers',
        { name, ssh_key_ids: [await world.key(who)], stateless: true, ...body },
        who,
      );
      assert.ok(status < 300, text);
      return z.string().parse(json.id);
    };
    const change = async (id: string, body: object): Promise<void> => {
      const { status, text } = await world.compute('PATCH', `/containers/${id}`, body);
      assert.ok(status < 300, text);
    };
    const canary = (name: string): string => world.canaries.make(name);
    const told = ['/bin/sh', '-c', 'echo "with $KEY"; echo "$KEY" >&2; exit 7'];

    const app = await make('app', { image: `${repo}:1`, secrets: { KEY: canary('at create') }, release: told });
    await world.until(app, 'its release command fails', ({ status }) => status === 'failed');
    await change(app, { release: ['/bin/sh', '-c', 'echo "$KEY"'] });
    await world.compute('POST', `/containers/${app}/start`);
    await world.until(app, 'it runs', ({ status }) => status === 'running');
    await change(app, { secrets: { KEY: canary('changed'), PROGRAM: canary('a program') } });
    await world.until(app, 'it runs again', ({ status }) => status === 'running');
    await change(app, { image: `${repo}:2`, release: told });
    await world.until(app, 'the image is kept', ({ next_image, status }) => status === 'running' && !next_image);
    // Its node says which program there is not.
    const words = [world.canaries.make('a word', true)];
    await change(app, { secrets: { WORD: words[0] }, image: `${repo}:2`, release: words });
    await world.until(app, 'that is no program', ({ next_image, status }) => status === 'running' && !next_image);
    await change(app, { image: `${repo}:2`, release: ['/bin/sh', '-c', 'sleep 5; echo "$KEY"'] });
    const isRunning = async () => (await cluster.call('GET', `/api/v1/pods?fieldSelector=metadata.name=once`)).json;
    await until(async () => JSON.stringify(await isRunning()).includes('"once"'), { timeoutMs: 60_000 });
    await world.again('kill');
    await world.until(app, 'the image is changed', ({ next_image, image }) => !next_image && `${image}`.endsWith(':2'));
    const crashing = { image: `${repo}:1`, command: told, restart: 'no', secrets: { KEY: canary('of a crash') } };
    const crashed = await make('crashed', crashing);
    await world.until(crashed, 'it has ended', ({ status }) => status === 'stopped' || status === 'failed');
    const missing = { image: `${repo}:none`, secrets: { KEY: canary('without an image') } };
    await make('missing', missing);
    const other = await make('other', {}, 'bob');
    const isThere = async () =>
      (await world.compute('GET', `/containers/${other}`, undefined, 'bob')).json.status === 'running';
    await until(isThere, { what: 'that of another tenant runs', timeoutMs: 60_000 });

    for (const path of [...KINDS, '/apis/networking.k8s.io/v1/networkpolicies', '/apis/events.k8s.io/v1/events'])
      world.search(path, JSON.stringify((await cluster.call('GET', path)).json));
    for (const name of (await readdir(cluster.folder)).filter((each) => each.endsWith('.log')))
      world.search(name, await readFile(join(cluster.folder, name)));
    // What another container sees: itself.
    const inside = 'env; mount; cat /proc/[0-9]*/environ /etc/troupe/* 2>/dev/null; ls /var/run/secrets /run/secrets';
    const found = await client.json(
      'GET',
      '/containers/json',
      z.array(z.object({ Id: z.string(), Names: z.array(z.string()) })),
    );
    const { Id } =
      found.find(({ Names }) => Names.some((one) => /k8s_container_.*/.test(one) && one.includes(other))) ??
      assert.fail('no pod of the other');
    const { Id: exec } = z.object({ Id: z.string() }).parse(
      await client.json('POST', `/containers/${Id}/exec`, z.object({ Id: z.string() }), {
        body: { AttachStdout: true, AttachStderr: true, Tty: true, Cmd: ['sh', '-c', inside] },
      }),
    );
    const seen = (await client.call('POST', `/exec/${exec}/start`, { body: { Detach: false, Tty: true } })).toString();
    assert.doesNotMatch(seen, /serviceaccount/);
    world.search('inside another container', seen);
    await lookAtReplies(world, [app]);
    world.search("the platform's log", world.platform.log());
    const isOwnSettings = /^GET \/compute\/containers\/[a-z0-9]+\/settings as ann \(200\)$/;
    // Words of a command are in the description of its pod, and a node says which program there is not.
    const isInCluster = /^\/apis?\/|^[a-z]+\.log$/;
    const isRight = ({ place, canary: which }: (typeof world.found)[number]): boolean =>
      isOwnSettings.test(place) || (which === 'a word' && isInCluster.test(place));
    assert.deepEqual(
      world.found.filter((one) => !isRight(one)),
      [],
    );
    // Where they have to be, or nothing would be seen anywhere: what is of now, and nothing of before, nor of what
    // came with an image that was given up.
    const { items } = secretsView.parse((await cluster.call('GET', '/api/v1/secrets')).json);
    const held = items.flatMap(({ metadata: { name, namespace }, data }) =>
      world.canaries
        .find(
          '',
          Object.values(data)
            .map((text) => Buffer.from(text, 'base64').toString())
            .join('\n'),
        )
        .map((one) => `${namespace.split('-').at(-1)} ${name} ${one.canary}`),
    );
    assert.deepEqual(
      held.filter((one) => one.startsWith(app)).sort(),
      ['environment', 'ssh-keys'].flatMap((name) => ['a program', 'changed'].map((which) => `${app} ${name} ${which}`)),
    );
    const mayRead = await Promise.all(
      ['troupe-gateway', 'troupe-monitor', 'troupe-core'].map(async (account) => {
        const spec = {
          user: `system:serviceaccount:troupe:${account}`,
          resourceAttributes: { verb: 'get', resource: 'secrets' },
        };
        const body = { apiVersion: 'authorization.k8s.io/v1', kind: 'SubjectAccessReview', spec };
        const path = '/apis/authorization.k8s.io/v1/subjectaccessreviews';
        const { json } = await cluster.call('POST', path, body);
        return z.object({ status: z.object({ allowed: z.boolean() }) }).parse(json).status.allowed;
      }),
    );
    assert.deepEqual(mayRead, [false, false, false]);
  });
});
