/** Images of the catalog on Kubernetes: nodes pull them from the platform's registry with what their user may. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { z } from 'zod';
import { catalogAt } from '../../transports/engines/docker/image/sent-images.ts';
import { logIn, request } from '../support/cluster/platform.ts';
import { buildTinyImage, tinyImageMissing } from '../support/engine/tiny-image.ts';
import { skipWithoutKubernetes } from '../support/kubernetes/programs.ts';
import { passwordOf, registryPlatform } from '../support/kubernetes/registry-platform.ts';
import { skipWithout } from '../support/require.ts';
import { publicKey } from '../support/ssh/public-key.ts';
import { until } from '../support/until.ts';

const ADMIN_PASSWORD = 'the admin of this test';
const container = z.object({
  ...{ id: z.string(), status: z.string(), image: z.string() },
  ...{ status_reason: z.string().nullish(), next_image: z.string().optional() },
});
const revisionList = z.object({
  revisions: z.array(z.object({ number: z.number(), image: z.string(), digest: z.string().optional() })),
});
const podSpec = z.object({
  spec: z.object({
    imagePullSecrets: z.array(z.object({ name: z.string() })).default([]),
    containers: z.array(z.object({ image: z.string() })),
  }),
});

test('an image of the catalog is listed, pulled for its user, run with a command beside SSH, and gone back to', {
  skip: tinyImageMissing() ?? (skipWithoutKubernetes() || skipWithout('docker-registry')),
  timeout: 900_000,
}, async (t) => {
  const { cluster, docker, base, platform, urls, host, push } = await registryPlatform(t, ['ann'], (at) => ({
    ...{ ADMIN_PASSWORD, CATALOG_IMAGES: `${at}/library` },
  }));

  // What `troupe image catalog` sends is built for minutes: the tests' image stands for it.
  const catalog = await catalogAt(`${host}/library/`);
  const node = catalog.find(({ name }) => name === 'node') ?? assert.fail('no node');
  const tag = node.reference.slice('troupe.invalid/node:'.length);
  const { repository = '' } = node;
  const send = (reference: string): Promise<void> =>
    push(reference, { repository, tag }, { username: 'admin', password: ADMIN_PASSWORD });
  await send(base.reference);

  const token = await logIn(urls.auth, 'ann', passwordOf('ann'));
  const call = async (method: string, path: string, body?: object) => {
    const answer = await request(method, `${urls.compute}/compute${path}`, { token, ...(body && { body }) });
    assert.equal(answer.status, 200, `${path}: ${JSON.stringify(answer.json)}`);
    return answer.json;
  };
  const listed = z.array(z.looseObject({})).parse((await call('GET', '/images')).list);
  assert.deepEqual(
    listed.slice(1),
    catalog.map(({ name, title, reference }) => ({ name: title, image: reference, source: 'builtin', alias: name })),
    'each once, with nothing said of builds',
  );

  const key = z
    .object({ id: z.number() })
    .parse(await call('POST', '/ssh-keys', { name: 'laptop', public_key: publicKey('ann') }));
  const ask = { name: 'app', ssh_key_ids: [key.id], image: 'node', stateless: true };
  const command = ['sh', '-c', 'echo begun; while :; do sleep 1; done'];
  const { id } = z.object({ id: z.string() }).parse(await call('POST', '/containers', { ...ask, command }));
  const view = async () => container.parse(await call('GET', `/containers/${id}`));
  const settles = (what: string, isSo: (now: Awaited<ReturnType<typeof view>>) => boolean) =>
    until(
      async () => {
        const now = await view();
        assert.notEqual(now.status, 'failed', JSON.stringify(now));
        return now.status === 'running' && now.next_image === undefined && isSo(now) ? now : undefined;
      },
      { timeoutMs: 120_000, everyMs: 200, what },
    );
  const { image } = await settles('it runs', () => true);
  assert.equal(image, node.reference);
  const podOf = async () => {
    const { json } = await cluster.call('GET', `/api/v1/pods?labelSelector=troupe.dev/container=${id}`);
    const { items } = z.object({ items: z.array(podSpec) }).parse(json);
    return items.map(({ spec }) => [spec.containers[0]?.image, spec.imagePullSecrets[0]?.name]);
  };
  assert.deepEqual(await podOf(), [[`${repository}:${tag}`, 'registry']]);

  // One that nobody has sent.
  await call('PATCH', `/containers/${id}`, { image: 'python' });
  const { status_reason: reason = '' } = await settles('python is given up', ({ status_reason: why }) => Boolean(why));
  assert.match(reason ?? '', /not changed to python\..*`troupe image catalog --to 127.*runs on with node\./);

  // The same recipe is built again, with the packages of another day, and the container goes back to the first.
  const revisions = async () => revisionList.parse(await call('GET', `/containers/${id}/revisions`)).revisions;
  const [first] = await revisions();
  assert.match(first?.digest ?? '', /^sha256:/);
  assert.equal(first?.image, node.reference);
  const later = await buildTinyImage('-later', [{ kind: 'directory', path: 'opt', mode: 0o755 }]);
  await later.build(docker.client, () => {}, new AbortController().signal);
  await send(later.reference);
  await call('PATCH', `/containers/${id}`, { command: ['sh', '-c', 'echo other; exit 0'] });
  await until(async () => (await revisions()).length === 2, { timeoutMs: 120_000, everyMs: 200, what: 'a revision' });
  assert.notEqual((await revisions())[0]?.digest, first?.digest);
  await call('PATCH', `/containers/${id}`, { revision: first?.number });
  await until(async () => (await revisions()).length === 3, { timeoutMs: 120_000, everyMs: 200, what: 'a third' });
  const back = await settles('it is back', () => true);
  assert.equal(back.image, node.reference);
  const pods = await podOf();
  assert.ok(
    pods.some(([of]) => of === `${repository}@${first?.digest}`),
    JSON.stringify(pods),
  );
  await call('DELETE', `/containers/${id}`);
  assert.equal(await platform.stop(), 0, platform.log());
});
