/** deploy/kubernetes against a real API server: what it would take, and that its rights are enough and none is too many. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { cp, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { z } from 'zod';
import { type Cluster, startCluster } from '../support/kubernetes/cluster.ts';
import { serveMetrics } from '../support/kubernetes/fake-metrics.ts';
import { type FakeNode, startFakeNode } from '../support/kubernetes/fake-node.ts';
import {
  applyAll,
  asServed,
  kubeconfigOf,
  type Manifest,
  manifestsIn,
  manifestsOf,
} from '../support/kubernetes/manifests.ts';
import { skipWithoutKubernetes } from '../support/kubernetes/programs.ts';
import {
  connectionsScenario,
  containersScenario,
  kubeletScenario,
  measurementsScenario,
  type Scenario,
} from '../support/kubernetes/scenarios.ts';
import { projectRoot } from '../support/project.ts';
import { skipWithout } from '../support/require.ts';
import { tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

const patience = { timeoutMs: 60_000, everyMs: 50 };
const skip = skipWithoutKubernetes();
const components = ['database-roles', 'kubelet-stats', 'own-namespaces', 'registry', 'registry-s3'].map(
  (name) => `components/${name}`,
);

test('the image takes with it what the command line reads', () => {
  const lines = readFileSync(join(projectRoot, 'deploy/Dockerfile'), 'utf8').split('\n');
  const copied = lines.flatMap((line) => {
    const [, from] = /^COPY (?!--from)(.+) \S+$/.exec(line) ?? [];
    return from === undefined ? [] : from.split(' ');
  });
  for (const path of copied) assert.ok(existsSync(join(projectRoot, path)), `there is no ${path}`);
  const { include } = z
    .object({ include: z.array(z.string()) })
    .parse(JSON.parse(readFileSync(join(projectRoot, 'tsconfig.json'), 'utf8')));
  for (const folder of include) assert.ok(copied.includes(folder), `${folder} is not built`);
});

test('the example asks for no right to kubelets, and each service gets the secrets it needs and no others', () => {
  const objects = manifestsOf('example');
  assert.ok(!JSON.stringify(objects).includes('nodes/proxy'));
  const secrets = Object.fromEntries(
    objects
      .filter(({ kind }) => kind === 'Deployment' || kind === 'DaemonSet')
      .map((one) => {
        const [container] = sourcesSchema.parse(one).spec.template.spec.containers;
        return [one.metadata.name, container?.envFrom.flatMap(({ secretRef }) => secretRef?.name ?? []).sort()];
      }),
  );
  assert.deepEqual(secrets, {
    'troupe-core': ['troupe-core', 'troupe-keys'],
    'troupe-gateway': ['troupe-gateway', 'troupe-keys'],
    'troupe-monitor': ['troupe-monitor'],
    'troupe-notify': ['troupe-keys', 'troupe-notify'],
  });
});

test('what gives the services their roles in the database runs before core, as the owner, and opens nothing sealed', () => {
  const core = manifestsOf('example').find(
    ({ kind, metadata }) => kind === 'Deployment' && metadata.name === 'troupe-core',
  );
  const [container, ...more] = initSchema.parse(core).spec.template.spec.initContainers;
  assert.deepEqual(more, []);
  const [database, roles, ...services] = container?.args ?? [];
  assert.deepEqual([database, roles, services.pop()], ['database', 'roles', '--apply']);
  const alone = manifestsOf('base')
    .filter(({ kind, metadata }) => /^(Deployment|DaemonSet)$/.test(kind) && metadata.name !== 'troupe-core')
    .map(({ metadata }) => metadata.name.replace('troupe-', ''));
  assert.deepEqual(services.sort(), alone.sort());
  assert.deepEqual(container?.envFrom, [{ secretRef: { name: 'troupe-core' } }]);
  assert.deepEqual(container.securityContext, { allowPrivilegeEscalation: false, readOnlyRootFilesystem: true });
});

test('the admission policy speaks of the account that runs containers, and of its own namespaces', () => {
  const [policy, binding, ...more] = manifestsOf('components/own-namespaces');
  assert.deepEqual(
    [policy?.kind, binding?.kind, more.length],
    ['ValidatingAdmissionPolicy', 'ValidatingAdmissionPolicyBinding', 0],
  );
  assert.match(JSON.stringify(policy), /system:serviceaccount:troupe:troupe-core/);
  assert.match(JSON.stringify(policy), /compute-/);
});

test('the registry is asked by the gateways and core alone, and core alone has the key of its tokens', () => {
  const plain = manifestsOf('example');
  const objects = manifestsOf('example', ['registry']);
  const find = (kind: string, name: string, of = objects) =>
    of.find((one) => one.kind === kind && one.metadata.name === name);
  const holders = objects.filter((one) => JSON.stringify(one).includes('troupe-registry-key"'));
  assert.deepEqual(
    holders.map(({ metadata }) => metadata.name),
    ['troupe-core'],
  );
  const rest = policySchema.parse(find('NetworkPolicy', 'troupe'));
  assert.deepEqual(rest.spec.podSelector.matchExpressions, [
    { key: 'app.kubernetes.io/name', operator: 'NotIn', values: ['troupe-registry'] },
  ]);
  assert.deepEqual(policySchema.parse(find('NetworkPolicy', 'troupe', plain)).spec.podSelector, {});
  const { spec } = policySchema.parse(find('NetworkPolicy', 'troupe-registry'));
  assert.deepEqual(spec.policyTypes, ['Ingress', 'Egress']);
  const ports = z.array(z.object({ ports: z.array(z.object({ port: z.number() })) })).parse(spec.egress);
  assert.deepEqual(
    ports.map((one) => one.ports.map(({ port }) => port)),
    [[5432], [53, 53]],
    'it reaches the database, and asks for its name',
  );
  assert.match(JSON.stringify(spec.ingress), /"values":\["troupe-core","troupe-gateway"\]/);
});

test('the registry listens on loopback, and its front beside it has the same user, the same folder and a role of its own', () => {
  const objects = manifestsOf('example', ['registry']);
  const find = (kind: string, name: string) =>
    objects.find((one) => one.kind === kind && one.metadata.name === name) ?? assert.fail(name);
  assert.match(JSON.stringify(find('ConfigMap', 'troupe-registry')), /addr: 127\.0\.0\.1:5001/);
  const { containers } = podSchema.parse(find('Deployment', 'troupe-registry')).spec.template.spec;
  const [registry, front, ...more] = containers;
  assert.ok(registry && front);
  assert.deepEqual([registry.name, front.name, more.length], ['registry', 'front', 0]);
  // Both are the pod's user, who owns the files.
  for (const { securityContext } of containers) assert.equal(securityContext.runAsUser, undefined);
  const folders = containers.map(({ volumeMounts }) => volumeMounts.find(({ name }) => name === 'store')?.mountPath);
  const store = front.env.find(({ name }) => name === 'REGISTRY_STORE')?.value;
  assert.deepEqual(folders, [store, store]);
  assert.ok(registry.env.every(({ name }) => name !== 'DATABASE_URL'));
  assert.deepEqual(registry.ports, []);
  const [role] = initSchema
    .parse(find('Deployment', 'troupe-core'))
    .spec.template.spec.initContainers.filter(({ args }) => args.includes('registry'));
  assert.deepEqual(role?.args, ['database', 'roles', 'registry', '--apply']);
  assert.deepEqual(role.envFrom, [{ secretRef: { name: 'troupe-core' } }]);
  const bucket = manifestsOf('example', ['registry', 'registry-s3']);
  const of = bucket.filter(({ kind }) => kind === 'Deployment').map((one) => podSchema.parse(one).spec.template.spec);
  const settings = of.flatMap((one) => one.containers.flatMap(({ env }) => env));
  const settingOf = (name: string) => settings.find((one) => one.name === name)?.value;
  assert.deepEqual([settingOf('REGISTRY_STORE'), settingOf('REGISTRY_FRONT')], ['', 'bucket']);
});

test('with a bucket the registry has no claim, and reaches out', () => {
  const objects = manifestsOf('example', ['registry', 'registry-s3']);
  const text = JSON.stringify(objects);
  assert.ok(!text.includes('PersistentVolumeClaim') && !text.includes('claimName'));
  const policy = objects.find(
    ({ kind, metadata }) => kind === 'NetworkPolicy' && metadata.name === 'troupe-registry-bucket',
  );
  assert.deepEqual(policySchema.parse(policy).spec.egress, [{}]);
});

test('kustomize makes the same of it', { skip: skipWithout('kubectl') }, async (t) => {
  // A copy, whose example has the registry as well.
  const folder = await tempDir(t);
  await cp(join(projectRoot, 'deploy/kubernetes'), folder, { recursive: true });
  const file = join(folder, 'example/kustomization.yaml');
  for (const added of [['registry'], ['registry', 'registry-s3']]) {
    const lines = ['database-roles', ...added].map((name) => `  - ../components/${name}\n`).join('');
    const text = await readFile(file, 'utf8');
    await writeFile(file, text.replace(/(components:\n)(?: {2}- .*\n)+/, `$1${lines}`));
    const { stdout } = await promisify(execFile)('kubectl', ['kustomize', join(folder, 'example')]);
    const key = ({ kind, metadata }: Manifest) => `${kind} ${metadata.name}`;
    const byKey = (objects: readonly Manifest[]) => new Map(objects.map((one) => [key(one), withoutImages(one)]));
    assert.deepEqual(byKey(manifestsIn(stdout)), byKey(manifestsOf('example', added)));
  }
});

test('every manifest is part of its kustomization', () => {
  for (const folder of ['base', ...components]) {
    const path = join(projectRoot, 'deploy/kubernetes', folder);
    const listed = readFileSync(join(path, 'kustomization.yaml'), 'utf8');
    for (const file of readdirSync(path)) {
      if (file !== 'kustomization.yaml') assert.ok(listed.includes(`- ${file}\n`), `${folder}/${file} is not used`);
    }
  }
});

describe('deploy/kubernetes in a cluster', { skip, timeout: 900_000 }, () => {
  let cluster: Cluster;
  let node: FakeNode;
  let metrics: { close(): Promise<void> };
  const namespaces = new Set<string>();
  const objects =
    skip === false ? [...manifestsOf('example', ['registry']), ...manifestsOf('components/kubelet-stats')] : [];

  before(async () => {
    cluster = await startCluster({ withoutNode: true });
    node = startFakeNode(cluster);
    metrics = await serveMetrics(cluster, () => [...namespaces]);
    await cluster.call('POST', '/api/v1/nodes', { apiVersion: 'v1', kind: 'Node', metadata: { name: 'node1' } });
    const first = objects.filter(({ kind }) => kind === 'Namespace' || kind === 'ServiceAccount');
    await applyAll(cluster, first);
  });
  after(async () => {
    await node?.close();
    await metrics?.close();
    await cluster?.stop();
  });

  test('the API server would take every object as it is', async () => {
    const asKnown = await asServed(cluster, objects);
    assert.ok(asKnown.length > 20);
    await applyAll(cluster, asKnown, '&dryRun=All');
    // It does look: a field of another type is refused.
    const [deployment] = asKnown.filter(({ kind }) => kind === 'Deployment');
    assert.ok(deployment);
    await assert.rejects(applyAll(cluster, [{ ...deployment, spec: { replicas: 'many' } }], '&dryRun=All'));
  });

  test('workloads say when they are ready, alive and started, may be drained, and run without privileges', () => {
    const workloads = objects.filter(({ kind }) => /^(Deployment|DaemonSet|StatefulSet)$/.test(kind));
    const budgets = objects.filter(({ kind }) => kind === 'PodDisruptionBudget').map(({ metadata }) => metadata.name);
    assert.ok(workloads.length >= 5);
    for (const { metadata, ...rest } of workloads) {
      const { spec } = workloadSchema.parse(rest).spec.template;
      assert.ok(budgets.includes(metadata.name), `${metadata.name} has no disruption budget`);
      assert.ok(spec.securityContext.runAsNonRoot);
      for (const { securityContext } of spec.containers) {
        assert.deepEqual(
          [securityContext.allowPrivilegeEscalation, securityContext.readOnlyRootFilesystem],
          [false, true],
        );
      }
    }
  });

  const roles: readonly { role: string; account: string; scenario: Scenario }[] = [
    { role: 'troupe-containers', account: 'test-containers', scenario: containersScenario },
    { role: 'troupe-connections', account: 'troupe-gateway', scenario: connectionsScenario },
    { role: 'troupe-measurements', account: 'troupe-monitor', scenario: measurementsScenario },
    { role: 'troupe-kubelet-stats', account: 'test-kubelets', scenario: kubeletScenario },
  ];

  for (const { role, account, scenario } of roles) {
    test(`the rights of ${role} are enough, and each of them is needed`, async (t) => {
      const found = objects.find(({ kind, metadata }) => kind === 'ClusterRole' && metadata.name === role);
      assert.ok(found);
      const parsed = roleSchema.parse(found);
      await applyAll(cluster, bindingOf(role, account));
      const kubeconfig = await kubeconfigOf(cluster, account);
      const applied = async (rules: Rule[]): Promise<void> => {
        await applyAll(cluster, [{ ...found, rules }]);
        await until(() => sees(cluster, account, rules, parsed.rules), { ...patience, what: 'the rights are known' });
      };
      let count = 0;
      const play = async (): Promise<string[]> => {
        count += 1;
        const id = `${role.slice('troupe-'.length, 'troupe-'.length + 3)}${count}`;
        namespaces.add(`compute-u1-${id}`);
        return scenario({ kubeconfig, admin: cluster.kubeconfig, id });
      };
      await applied(parsed.rules);
      assert.deepEqual(await play(), [], 'something is missing');
      for (const [at, rule] of parsed.rules.entries()) {
        for (const resource of rule.resources) {
          for (const verb of rule.verbs) {
            // Asked for by servers from 1.35 on only.
            if (resource === 'pods/exec' && verb === 'create') continue;
            const less = parsed.rules.toSpliced(
              at,
              1,
              { ...rule, resources: rule.resources.filter((one) => one !== resource) },
              { ...rule, resources: [resource], verbs: rule.verbs.filter((one) => one !== verb) },
            );
            await applied(less.filter(({ verbs, resources }) => verbs.length > 0 && resources.length > 0));
            const missed = await play();
            assert.ok(missed.length > 0, `nobody missed ${verb} on ${resource}`);
            t.diagnostic(`without ${verb} on ${resource}: ${missed[0]?.slice(0, 120)}`);
          }
        }
      }
    });
  }
});

const ruleSchema = z.object({
  apiGroups: z.array(z.string()),
  resources: z.array(z.string()),
  verbs: z.array(z.string()),
});
type Rule = z.output<typeof ruleSchema>;
const source = z.object({ secretRef: z.object({ name: z.string() }).optional() });
const sourcesSchema = z.object({
  spec: z.object({
    template: z.object({ spec: z.object({ containers: z.array(z.object({ envFrom: z.array(source) })) }) }),
  }),
});
const initSchema = z.object({
  spec: z.object({
    template: z.object({
      spec: z.object({
        initContainers: z.array(
          z.object({
            args: z.array(z.string()),
            envFrom: z.array(source),
            securityContext: z.object({ allowPrivilegeEscalation: z.boolean(), readOnlyRootFilesystem: z.boolean() }),
          }),
        ),
      }),
    }),
  }),
});
const policySchema = z.object({
  spec: z.object({
    podSelector: z.object({ matchExpressions: z.array(z.unknown()).optional() }),
    policyTypes: z.array(z.string()),
    ingress: z.array(z.unknown()).optional(),
    egress: z.array(z.unknown()).optional(),
  }),
});
const podSchema = z.object({
  spec: z.object({
    template: z.object({
      spec: z.object({
        containers: z.array(
          z.object({
            name: z.string(),
            env: z.array(z.object({ name: z.string(), value: z.string().optional() })).default([]),
            ports: z.array(z.unknown()).default([]),
            securityContext: z.object({ runAsUser: z.number().optional() }),
            volumeMounts: z.array(z.object({ name: z.string(), mountPath: z.string() })),
          }),
        ),
      }),
    }),
  }),
});
const roleSchema = z.object({ rules: z.array(ruleSchema) });
const workloadSchema = z.object({
  spec: z.object({
    template: z.object({
      spec: z.object({
        securityContext: z.object({ runAsNonRoot: z.literal(true) }),
        containers: z.array(
          z.object({
            startupProbe: z.object({}),
            readinessProbe: z.object({}),
            livenessProbe: z.object({}),
            securityContext: z.object({ allowPrivilegeEscalation: z.boolean(), readOnlyRootFilesystem: z.boolean() }),
          }),
        ),
      }),
    }),
  }),
});

/** What an operator names is only in what kustomize makes. */
function withoutImages(one: Manifest): unknown {
  return JSON.parse(JSON.stringify(one).replace(/"image":"[^"]*"/g, '"image":""'));
}

/** The one right an account has. */
function bindingOf(role: string, account: string): Manifest[] {
  const metadata = { name: account, namespace: 'troupe' };
  return [
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata },
    {
      ...{
        apiVersion: 'rbac.authorization.k8s.io/v1',
        kind: 'ClusterRoleBinding',
        metadata: { name: `test-${account}` },
      },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: role },
      subjects: [{ kind: 'ServiceAccount', ...metadata }],
    },
  ];
}

const reviewed = z.object({ status: z.object({ allowed: z.boolean().default(false) }) });

/** Whether the server's authorizer knows exactly `rules` of those of `all`. */
async function sees(cluster: Cluster, account: string, rules: readonly Rule[], all: readonly Rule[]): Promise<boolean> {
  const words = (of: readonly Rule[]): string[] =>
    of.flatMap(({ apiGroups, resources, verbs }) =>
      resources.flatMap((resource) => verbs.map((verb) => `${apiGroups[0] ?? ''} ${resource} ${verb}`)),
    );
  const granted = new Set(words(rules));
  for (const word of words(all)) {
    const [group = '', path = '', verb = ''] = word.split(' ');
    const [resource, subresource = ''] = path.split('/');
    const { json } = await cluster.call('POST', '/apis/authorization.k8s.io/v1/subjectaccessreviews', {
      ...{ apiVersion: 'authorization.k8s.io/v1', kind: 'SubjectAccessReview' },
      spec: {
        user: `system:serviceaccount:troupe:${account}`,
        resourceAttributes: { group, resource, subresource, verb },
      },
    });
    if (reviewed.parse(json).status.allowed !== granted.has(word)) return false;
  }
  return true;
}
