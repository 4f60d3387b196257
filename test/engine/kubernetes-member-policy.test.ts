/** What the network policy of a member of a private network on Kubernetes opens, and which names it has. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { z } from 'zod';
import { EngineError } from '../../proto/ports/engine.ts';
import { kubeNaming } from '../../transports/engines/kubernetes/naming.ts';
import {
  aliasServices,
  begun,
  checkNetwork,
  memberPolicy,
  membershipOf,
  membersIn,
  settled,
} from '../../transports/engines/kubernetes/network-objects.ts';
import { objectView } from '../../transports/engines/kubernetes/views.ts';

const naming = kubeNaming('test');
const shop = { owner: 'u1', name: 'shop', alias: 'db', place: 2 };
const patch = z.object({
  metadata: z.object({
    labels: z.record(z.string(), z.string().nullable()),
    annotations: z.record(z.string(), z.string().nullable()),
  }),
});
const present = <T>([, value]: readonly [string, T]): boolean => value !== null;

/** The namespace of a container after a patch. */
function namespaceOf(id: string, change: object, userId = 'u1') {
  const { labels, annotations } = patch.parse(change).metadata;
  return objectView.parse({
    metadata: {
      name: naming.namespace(userId, id),
      labels: { ...naming.labelsOf(userId, id), ...Object.fromEntries(Object.entries(labels).filter(present)) },
      annotations: Object.fromEntries(Object.entries(annotations).filter(present)),
    },
  });
}

const policy = z.object({
  spec: z.object({
    podSelector: z.object({ matchLabels: z.record(z.string(), z.string()) }),
    policyTypes: z.array(z.string()),
    ingress: z.array(z.unknown()),
    egress: z.array(z.object({ to: z.array(z.unknown()), ports: z.array(z.object({ port: z.int() })).optional() })),
  }),
});
const policyOf = (network: typeof shop | undefined) =>
  policy.parse(memberPolicy(naming, { namespace: 'compute-u1-a', id: 'a', userId: 'u1' }, network).body).spec;

test('a member reaches all ports of the members of its network and nobody else, and is reached by them', () => {
  const { podSelector, policyTypes, ingress, egress } = policyOf(shop);
  const members = {
    namespaceSelector: {
      matchLabels: {
        'troupe.dev/installation': 'test',
        'troupe.dev/user': 'u1',
        'troupe.dev/network': 'shop',
      },
    },
  };
  assert.deepEqual(podSelector.matchLabels, { 'troupe.dev/container': 'a' });
  assert.deepEqual(policyTypes, ['Ingress', 'Egress']);
  assert.deepEqual(ingress, [{ from: [members] }]);
  const [open, dns, ...more] = egress;
  assert.deepEqual(open, { to: [members] });
  assert.deepEqual([dns?.ports?.map(({ port }) => port), more], [[53, 53], []]);
  // The label that it looks for is on namespaces of members of the very network.
  const { labels } = namespaceOf('b', begun(shop)).metadata;
  for (const [name, value] of Object.entries(members.namespaceSelector.matchLabels)) assert.equal(labels[name], value);
});

test('who is in no network has nothing opened, and no label that others look for', () => {
  const { ingress, egress, policyTypes } = policyOf(undefined);
  assert.deepEqual([ingress, egress, policyTypes], [[], [], ['Ingress', 'Egress']]);
  for (const change of [begun(undefined), settled(undefined)])
    assert.equal(namespaceOf('b', change).metadata.labels['troupe.dev/network'], undefined);
});

test('a membership that is under way is told as none that anybody wants', () => {
  assert.deepEqual(membershipOf(namespaceOf('a', settled(shop))), shop);
  assert.equal(membershipOf(namespaceOf('a', settled(undefined))), null);
  for (const change of [begun(shop), begun(undefined)])
    assert.equal(membershipOf(namespaceOf('a', change))?.place, 0, JSON.stringify(change));
  // Somebody took the label away, by which the others let it in, or wrote what nobody reads.
  const { metadata } = namespaceOf('a', settled(shop));
  const { 'troupe.dev/network': _, ...labels } = metadata.labels;
  assert.equal(membershipOf({ metadata: { ...metadata, labels } })?.place, 0);
  const annotations = { 'troupe.dev/membership': '{"name":7' };
  assert.equal(membershipOf({ metadata: { ...metadata, annotations } })?.place, 0);
});

test('a name leads to its own pod, and from the other members to where it is; users are kept apart', () => {
  const namespaces = [
    namespaceOf('a', settled({ ...shop, alias: 'app', place: 1 })),
    namespaceOf('b', settled(shop)),
    namespaceOf('c', settled({ ...shop, name: 'lab', alias: 'own' })),
    namespaceOf('d', settled({ ...shop, owner: 'u2', alias: 'other' }), 'u2'),
  ];
  const members = membersIn(naming, namespaces);
  const names = members.flatMap((member) =>
    aliasServices(naming, member, members, 'cluster.local').map(
      ({ path, externalName = 'its pod' }) => `${path.replace('/api/v1/namespaces/', '')} ${externalName}`,
    ),
  );
  assert.deepEqual(names, [
    'compute-u1-a/services/app its pod',
    'compute-u1-a/services/db db.compute-u1-b.svc.cluster.local',
    'compute-u1-b/services/app app.compute-u1-a.svc.cluster.local',
    'compute-u1-b/services/db its pod',
    'compute-u1-c/services/own its pod',
    'compute-u2-d/services/other its pod',
  ]);
});

test('a name leads to the one pod that is the container, once it had another beside it', () => {
  const { metadata } = namespaceOf('a', settled(shop));
  const annotations = { ...metadata.annotations, 'troupe.dev/pod': 'container-3' };
  const [self] = membersIn(naming, [{ metadata: { ...metadata, annotations } }]);
  assert.ok(self);
  const [own] = aliasServices(naming, self, [self], 'cluster.local');
  assert.deepEqual(own?.selector, { 'troupe.dev/container': 'a', 'troupe.dev/pod': 'container-3' });
});

test('an alias that is still of one member is not yet that of another', () => {
  const aliases = (...changes: readonly object[]): (string | null)[] =>
    membersIn(
      naming,
      changes.map((change, at) => namespaceOf(`c${at}`, change)),
    ).map(({ alias }) => alias);
  assert.deepEqual(aliases(begun(shop), settled(shop)), [null, 'db']);
  assert.deepEqual(aliases(settled(shop), begun({ ...shop, place: 1 })), ['db', null]);
  assert.deepEqual(aliases(settled(shop), begun({ ...shop, name: 'lab' })), ['db', 'db']);
});

test('what cannot be a name of a service, or is one already, is refused', () => {
  checkNetwork(shop);
  checkNetwork({ ...shop, alias: null });
  for (const change of [{ alias: '../x' }, { alias: 'Db' }, { name: 'a/b' }, { name: '' }, { alias: 'container' }])
    assert.throws(() => checkNetwork({ ...shop, ...change }), EngineError, JSON.stringify(change));
});
