/** What the network policy of a container on Kubernetes lets out. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { z } from 'zod';
import type { ContainerSpec } from '../../proto/ports/engine.ts';
import { keptSpec, surroundings } from '../../transports/engines/kubernetes/manifests.ts';
import { kubeNaming } from '../../transports/engines/kubernetes/naming.ts';

const policy = z.object({
  kind: z.literal('NetworkPolicy'),
  spec: z.object({
    policyTypes: z.array(z.string()),
    ingress: z.array(z.unknown()),
    egress: z.array(
      z.object({
        to: z.array(z.record(z.string(), z.unknown())),
        ports: z.array(z.object({ port: z.int() })).optional(),
      }),
    ),
  }),
});

const spec = (egress?: readonly string[]): ContainerSpec => ({
  id: 'box',
  userId: 'u1',
  hostname: 'box',
  image: 'troupe/base:1',
  cpus: 1,
  memoryMb: 128,
  storageGb: 1,
  mountPaths: [],
  authorizedKeys: [],
  ...(egress === undefined ? {} : { egress }),
});

function policyOf(egress?: readonly string[]): z.output<typeof policy>['spec'] {
  const found = surroundings(kubeNaming('test'), spec(egress), {}, undefined).find(({ path }) =>
    path.includes('networkpolicies'),
  );
  return policy.parse(found?.body).spec;
}

test('a network policy lets out nothing, a list with names, or what all containers reach', () => {
  const [world, dns, ...more] = policyOf().egress;
  assert.deepEqual(more, []);
  assert.equal(dns?.ports?.[0]?.port, 53);
  assert.equal(world?.ports, undefined);
  const closed = policyOf([]);
  assert.deepEqual(closed.egress, []);
  // Without the type, no rule would mean no limit.
  assert.deepEqual(closed.policyTypes, ['Ingress', 'Egress']);
  assert.equal(closed.ingress.length, 1);
  assert.deepEqual(policyOf(['203.0.113.0/24']).egress, [{ to: [{ ipBlock: { cidr: '203.0.113.0/24' } }] }, dns]);
  // A list of what is closed to all: a rule without destinations would lead everywhere.
  assert.deepEqual(policyOf(['10.0.0.0/8']).egress, [dns]);
});

test('what a container reaches is kept with its namespace', () => {
  assert.deepEqual(keptSpec(spec([])).egress, []);
  assert.equal('egress' in keptSpec(spec()), false);
});
