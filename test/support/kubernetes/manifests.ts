/** The manifests of deploy/kubernetes as kustomize would make them, as far as they use it, and their way into a cluster. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { z } from 'zod';
import { projectRoot } from '../project.ts';
import type { Cluster } from './cluster.ts';

const objectView = z.looseObject({
  apiVersion: z.string(),
  kind: z.string(),
  metadata: z.looseObject({ name: z.string(), namespace: z.string().optional() }),
});

const patchView = objectView.extend({ $patch: z.literal('delete').optional() });

/** An object of a manifest. */
export type Manifest = z.output<typeof objectView>;

const kustomization = z.object({
  namespace: z.string().optional(),
  resources: z.array(z.string()).default([]),
  components: z.array(z.string()).default([]),
  patches: z.array(z.object({ patch: z.string() })).default([]),
});

const clusterWide = [
  ...['Namespace', 'ClusterRole', 'ClusterRoleBinding'],
  ...['ValidatingAdmissionPolicy', 'ValidatingAdmissionPolicyBinding'],
];
const root = join(projectRoot, 'deploy/kubernetes');

/**
 * All objects of a folder below deploy/kubernetes: its resources, its components with what they change, its own changes, and its
 * namespace on what has one. `more`: components that an operator adds.
 */
export function manifestsOf(folder: string, more: readonly string[] = []): Manifest[] {
  return more.reduce((objects, name) => objectsOf(`components/${name}`, objects), objectsOf(folder, []));
}

/** Those of a text. */
export function manifestsIn(text: string): Manifest[] {
  return yamlIn(text).map((one) => objectView.parse(one));
}

function objectsOf(folder: string, given: readonly Manifest[]): Manifest[] {
  const kustomized = kustomization.parse(yamlOf(join(folder, 'kustomization.yaml'))[0]);
  const { namespace, resources, components, patches } = kustomized;
  const added = resources.flatMap((name) =>
    name.endsWith('.yaml')
      ? yamlOf(join(folder, name)).map((one) => objectView.parse(one))
      : manifestsOf(join(folder, name)),
  );
  let objects = [...given, ...added];
  for (const name of components) objects = objectsOf(join(folder, name), objects);
  for (const { patch } of patches) {
    const { $patch, ...change } = patchView.parse(yamlIn(patch)[0]);
    const isTarget = ({ kind, metadata }: Manifest) => kind === change.kind && metadata.name === change.metadata.name;
    assert.equal(objects.filter(isTarget).length, 1, `${folder}: what is changed is there once`);
    objects = objects.flatMap((one) => {
      if (!isTarget(one)) return [one];
      return $patch === 'delete' ? [] : [objectView.parse(merged(one, change))];
    });
  }
  if (namespace === undefined) return objects;
  return objects.map((one) =>
    clusterWide.includes(one.kind) ? one : { ...one, metadata: { ...one.metadata, namespace } },
  );
}

const record = z.record(z.string(), z.unknown());
const named = z.array(z.looseObject({ name: z.string() }));

/**
 * `change` over `value`, as far as we use kustomize's merging: null removes, lists of named things are merged by their
 * names, the changed ones first, and other lists are only added or, where they were empty, replaced.
 */
function merged(value: unknown, change: unknown): unknown {
  if (Array.isArray(change)) return mergedList(value, change);
  const [before, after] = [record.safeParse(value), record.safeParse(change)];
  if (!before.success || !after.success) return change;
  const result = { ...before.data };
  for (const [key, one] of Object.entries(after.data)) {
    if (one === null) delete result[key];
    else result[key] = merged(result[key], one);
  }
  return result;
}

function mergedList(value: unknown, change: readonly unknown[]): unknown {
  if (value === undefined || (Array.isArray(value) && value.length === 0)) return change;
  const [before, after] = [named.safeParse(value), named.safeParse(change)];
  assert.ok(before.success && after.success, 'a list without names is changed');
  const changed = after.data.map((one) => {
    const found = before.data.find(({ name }) => name === one.name);
    return found === undefined ? one : merged(found, one);
  });
  return [...changed, ...before.data.filter(({ name }) => !after.data.some((one) => one.name === name))];
}

/** The client library's own reader of YAML. What the library makes of it itself leaves out the fields it does not know. */
const reader: unknown = createRequire(createRequire(import.meta.url).resolve('@kubernetes/client-node'))('js-yaml');

function yamlOf(path: string): unknown[] {
  return yamlIn(readFileSync(join(root, path), 'utf8'));
}

function yamlIn(text: string): unknown[] {
  assert.ok(
    typeof reader === 'object' && reader !== null && 'loadAll' in reader && typeof reader.loadAll === 'function',
  );
  return z.array(z.unknown()).parse(reader.loadAll(text));
}

const plurals: Readonly<Record<string, string>> = {
  NetworkPolicy: 'networkpolicies',
  PersistentVolumeClaim: 'persistentvolumeclaims',
  ValidatingAdmissionPolicy: 'validatingadmissionpolicies',
};

/** The path of an object in the API. */
export function pathOf({ apiVersion, kind, metadata }: Manifest): string {
  const group = apiVersion.includes('/') ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
  const namespace = clusterWide.includes(kind) ? '' : `/namespaces/${metadata.namespace ?? 'default'}`;
  return `${group}${namespace}/${plurals[kind] ?? `${kind.toLowerCase()}s`}/${metadata.name}`;
}

/** The objects as this server has them: up to 1.20 disruption budgets are a version behind, and nothing in them differs. */
export async function asServed(cluster: Cluster, objects: readonly Manifest[]): Promise<Manifest[]> {
  const { status } = await cluster.call('GET', '/apis/policy/v1');
  if (status === 200) return [...objects];
  return objects.map((one) => (one.kind === 'PodDisruptionBudget' ? { ...one, apiVersion: 'policy/v1beta1' } : one));
}

/** Server-side apply of each, as the administrator. Throws with the server's sentence. */
export async function applyAll(cluster: Cluster, objects: readonly Manifest[], query = ''): Promise<void> {
  for (const object of objects) {
    const path = `${pathOf(object)}?fieldManager=operator&force=true${query}`;
    const { status, json } = await cluster.call('PATCH', path, object, 'application/apply-patch+yaml');
    assert.ok(status === 200 || status === 201, `${object.kind} ${object.metadata.name}: ${JSON.stringify(json)}`);
  }
}

const issued = z.object({ status: z.object({ token: z.string() }) });

/** A kubeconfig with a token of a service account. */
export async function kubeconfigOf(cluster: Cluster, account: string, namespace = 'troupe'): Promise<string> {
  const path = `/api/v1/namespaces/${namespace}/serviceaccounts/${account}/token`;
  const { json } = await cluster.call('POST', path, {
    apiVersion: 'authentication.k8s.io/v1',
    kind: 'TokenRequest',
    spec: {},
  });
  return cluster.kubeconfigFor(issued.parse(json).status.token, account);
}
