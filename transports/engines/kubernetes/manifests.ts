import { createHash } from 'node:crypto';
import type { ContainerSpec, RegistryAuth, Workload } from '../../../proto/ports/engine.ts';
import { checkedMountPaths, egressBlocks } from '../common/confinement.ts';
import { environmentScript } from '../common/workload.ts';
import type { Found } from './find.ts';
import { folderOf, KEYS_ANNOTATION, type KubeNaming, labels, names, SPEC_ANNOTATION } from './naming.ts';
import { clusterNames } from './network-objects.ts';
import { isOwnImage, keptImage, type OwnImagePlaces } from './own-images.ts';
import { confinedOf, type NodeSettings, podOf } from './pod-frame.ts';
import { runOf } from './pod-workload.ts';
import type { KeptSpec } from './views.ts';

/** What an operator chooses for all containers of a cluster. */
export interface ClusterSettings extends NodeSettings, OwnImagePlaces {
  /** Class of the claims; undefined: the cluster's default. */
  readonly storageClass?: string;
  /** How containers are reached from outside. Default LoadBalancer. */
  readonly serviceType?: 'LoadBalancer' | 'ClusterIP';
  /** The platform's namespace, from which containers are reached; undefined: from anywhere inside the cluster. */
  readonly platformNamespace?: string;
  /** Networks that containers may reach although they are closed by default (common/confinement.ts). */
  readonly egressAllow?: readonly string[];
  /** The domain of the cluster's names. Default `cluster.local`. */
  readonly clusterDomain?: string;
}

/**
 * What is kept of a spec: the keys are in the secret. `before`: what was kept of the container. Throws EngineError for
 * images and mount paths that cannot be.
 */
export function keptSpec(spec: ContainerSpec, before?: Pick<KeptSpec, 'image'>): KeptSpec {
  return {
    image: keptImage(spec.image, before?.image),
    hostname: spec.hostname,
    cpus: spec.cpus,
    memoryMb: spec.memoryMb,
    storageGb: spec.storageGb,
    mountPaths: checkedMountPaths(spec.mountPaths),
    ...(spec.architecture === undefined ? {} : { architecture: spec.architecture }),
    ...(spec.stopGraceSeconds === undefined ? {} : { stopGraceSeconds: spec.stopGraceSeconds }),
    ...(spec.followImage === true ? { pullsAlways: true } : {}),
    ...(spec.egress === undefined ? {} : { egress: [...spec.egress] }),
  };
}

/** A container's namespace. `state`: `kept` where there is no container. */
export function namespaceManifest(
  naming: KubeNaming,
  spec: ContainerSpec,
  kept: KeptSpec,
  state: 'live' | 'kept' = 'live',
): object {
  return {
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: {
      name: naming.namespace(spec.userId, spec.id),
      labels: {
        ...naming.labelsOf(spec.userId, spec.id),
        [labels.state]: state,
        'pod-security.kubernetes.io/enforce': 'baseline',
      },
      annotations: { [SPEC_ANNOTATION]: JSON.stringify(kept) },
    },
  };
}

/** Where an object is applied, and what it is to be. */
interface Applied {
  readonly path: string;
  readonly body: object;
}

/** The service by which the outside reaches a container. `leadsTo`: the pod; undefined: it never had more than one. */
export function serviceManifest(
  naming: KubeNaming,
  { id, userId }: Pick<ContainerSpec, 'id' | 'userId'>,
  { serviceType = 'LoadBalancer' }: ClusterSettings,
  leadsTo: string | undefined,
): Applied {
  const namespace = naming.namespace(userId, id);
  const one = leadsTo === undefined ? {} : { [labels.pod]: leadsTo };
  return {
    path: `/api/v1/namespaces/${namespace}/services/${names.service}`,
    body: {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: names.service, namespace, labels: naming.labelsOf(userId, id) },
      spec: {
        type: serviceType,
        selector: { [labels.container]: id, ...one },
        ports: [{ name: 'ssh', protocol: 'TCP', port: 22, targetPort: 22 }],
      },
    },
  };
}

/** What a namespace holds besides pod and secret. `leadsTo` as of `serviceManifest`. */
export function surroundings(
  naming: KubeNaming,
  spec: ContainerSpec,
  settings: ClusterSettings,
  leadsTo: string | undefined,
): readonly Applied[] {
  return [serviceManifest(naming, spec, settings, leadsTo), policyManifest(naming, spec, settings)];
}

/** The policy of all pods of a container. */
export function policyManifest(naming: KubeNaming, spec: ContainerSpec, settings: ClusterSettings): Applied {
  const namespace = naming.namespace(spec.userId, spec.id);
  const from =
    settings.platformNamespace === undefined
      ? { podSelector: { matchLabels: { 'app.kubernetes.io/part-of': 'troupe' } }, namespaceSelector: {} }
      : { namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': settings.platformNamespace } } };
  return {
    path: `/apis/networking.k8s.io/v1/namespaces/${namespace}/networkpolicies/${names.policy}`,
    body: {
      apiVersion: 'networking.k8s.io/v1',
      kind: 'NetworkPolicy',
      metadata: { name: names.policy, namespace, labels: naming.labelsOf(spec.userId, spec.id) },
      spec: {
        podSelector: { matchLabels: { [labels.container]: spec.id } },
        policyTypes: ['Ingress', 'Egress'],
        ingress: [{ from: [from] }],
        egress: egressOf(spec, settings),
      },
    },
  };
}

/** What a container may reach: of the world what it is let, but not the insides of clusters and clouds, and names. */
function egressOf({ egress }: ContainerSpec, { egressAllow = [] }: ClusterSettings): readonly object[] {
  if (egress?.length === 0) return [];
  const to = egressBlocks(egressAllow, egress).map((ipBlock) => ({ ipBlock }));
  // A rule without destinations would lead everywhere.
  return to.length === 0 ? [clusterNames] : [{ to }, clusterNames];
}

/** The claim of a container's data. */
export function claimManifest(naming: KubeNaming, spec: ContainerSpec, settings: ClusterSettings): object {
  return {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: {
      name: names.claim,
      namespace: naming.namespace(spec.userId, spec.id),
      labels: naming.labelsOf(spec.userId, spec.id),
    },
    spec: {
      accessModes: ['ReadWriteOnce'],
      resources: { requests: { storage: `${spec.storageGb}Gi` } },
      ...(settings.storageClass === undefined ? {} : { storageClassName: settings.storageClass }),
    },
  };
}

/** The secret with the keys that may log in, and the environment that sessions have (common/workload.ts). */
export function secretManifest(
  namespace: string,
  own: Readonly<Record<string, string>>,
  authorizedKeys: readonly string[],
  workload?: Workload,
): object {
  const env = workload === undefined ? {} : { env: environmentScript(workload.env) };
  return secretOf(
    { name: names.secret, namespace, labels: own },
    { authorized_keys: keysText(authorizedKeys), ...env },
  );
}

/** The secret with the variables of a workload. */
export function environmentManifest(
  namespace: string,
  own: Readonly<Record<string, string>>,
  { env }: Pick<Workload, 'env'>,
  name: string = names.environment,
): object {
  return secretOf({ name, namespace, labels: own }, env);
}

function secretOf(metadata: object, texts: Readonly<Record<string, string>>, type = 'Opaque'): object {
  const data = Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, base64(text)]));
  return { apiVersion: 'v1', kind: 'Secret', metadata, type, data };
}

const base64 = (text: string): string => Buffer.from(text).toString('base64');

/** The secret a node pulls with: for the registry of `image` and nothing else. */
export function pullSecretManifest(
  namespace: string,
  own: Readonly<Record<string, string>>,
  image: string,
  auth: Extract<RegistryAuth, { username: string }>,
): object {
  const { username, password } = auth;
  const pair = base64(`${username}:${password}`);
  // Up to the last `/`: kubelets take the entry whose path leads furthest.
  const at = image.slice(0, image.lastIndexOf('/'));
  const config = JSON.stringify({ auths: { [at]: { username, password, auth: pair } } });
  const metadata = { name: names.pull, namespace, labels: own };
  return secretOf(metadata, { '.dockerconfigjson': config }, 'kubernetes.io/dockerconfigjson');
}

/** What tells keys from others: nobody learns them from it. */
export function keysHash(authorizedKeys: readonly string[]): string {
  return createHash('sha256').update(keysText(authorizedKeys)).digest('hex');
}

/** Keys as sshd reads them, one a line. */
export function keysText(authorizedKeys: readonly string[]): string {
  const lines = authorizedKeys.map((key) => key.replace(/[\r\n]+/g, ' ').trim()).filter((key) => key !== '');
  return lines.map((line) => `${line}\n`).join('');
}

/** Fills what is mounted for the first time with what the image has there. */
export const FILL_SCRIPT = `
set -e
umask 022
while [ $# -gt 1 ]; do
  if [ ! -e "/troupe/data/$1" ]; then
    rm -rf "/troupe/data/.$1"
    mkdir "/troupe/data/.$1"
    if [ -d "$2" ]; then cp -a "$2/." "/troupe/data/.$1/"; fi
    mv "/troupe/data/.$1" "/troupe/data/$1"
  fi
  shift 2
done`;

/**
 * Run before the workload, in its image: puts the keys where sshd's StrictModes wants them (a secret's own folder may
 * be written by all), and fills what is mounted.
 */
const PREPARE_SCRIPT = `
set -e
umask 022
cp /troupe/secret/authorized_keys /troupe/keys/authorized_keys
chmod 0755 /troupe/keys
chmod 0600 /troupe/keys/authorized_keys
if [ -e /troupe/secret/env ]; then
  cp /troupe/secret/env /troupe/keys/env
  chmod 0600 /troupe/keys/env
fi
${FILL_SCRIPT}`;

/** What a workload is made with beside its spec. */
export interface PodOptions {
  /** Keys and data are prepared in it before it starts. */
  readonly prepares: boolean;
  /** The namespace has the secret to pull its image with. */
  readonly hasPullSecret: boolean;
  /** Of the keys it starts with (`keysHash`). */
  readonly keysHash: string;
  /** How it is run; undefined: as its image says. Its variables are in the secret of `environmentManifest`. */
  readonly workload?: Workload | undefined;
}

/** The workload. */
export function podManifest(
  naming: KubeNaming,
  found: Pick<Found, 'namespace' | 'pod' | 'id' | 'userId' | 'spec'>,
  settings: ClusterSettings,
  { prepares, hasPullSecret, keysHash: keys, workload }: PodOptions,
): object {
  const { spec } = found;
  const isStateless = spec.mountPaths.length === 0;
  const confined = confinedOf(spec, settings, hasPullSecret);
  const prepare = {
    name: names.prepare,
    ...confined,
    command: ['/bin/sh', '-c', PREPARE_SCRIPT, 'prepare', ...foldersOf(spec)],
    volumeMounts: [
      { name: 'secret', mountPath: '/troupe/secret', readOnly: true },
      { name: 'keys', mountPath: '/troupe/keys' },
      ...(isStateless ? [] : [{ name: 'data', mountPath: '/troupe/data' }]),
    ],
  };
  return podOf(naming, found, settings, hasPullSecret, {
    annotations: { [KEYS_ANNOTATION]: keys },
    initContainers: prepares ? [prepare] : [],
    containers: [
      {
        name: names.container,
        ...confined,
        ...(workload === undefined ? {} : runOf(workload, isOwnImage(spec.image, settings))),
        volumeMounts: [...dataMounts(spec), { name: 'keys', mountPath: '/etc/troupe' }],
      },
    ],
    volumes: [
      ...(isStateless ? [] : [dataVolume]),
      { name: 'keys', emptyDir: { medium: 'Memory', sizeLimit: '4Mi' } },
      { name: 'secret', secret: { secretName: names.secret, defaultMode: 0o400 } },
    ],
  });
}

/** The volume of a container's data. */
export const dataVolume = { name: 'data', persistentVolumeClaim: { claimName: names.claim } };

/** Where the folders of a volume `data` are mounted. */
export function dataMounts({ mountPaths }: Pick<KeptSpec, 'mountPaths'>): readonly object[] {
  return mountPaths.map((path) => ({ name: 'data', mountPath: path, subPath: folderOf(path) }));
}

/** What `FILL_SCRIPT` is told. */
export function foldersOf({ mountPaths }: Pick<KeptSpec, 'mountPaths'>): readonly string[] {
  return mountPaths.flatMap((path) => [folderOf(path), path]);
}
