import { createHash } from 'node:crypto';
import { EngineError } from '../../../proto/ports/engine.ts';

/** The labels by which everything of the platform is known. */
export const labels = {
  installation: 'troupe.dev/installation',
  container: 'troupe.dev/container',
  user: 'troupe.dev/user',
  /** On namespaces: `kept` when only the data is left of a container. */
  state: 'troupe.dev/state',
  managedBy: 'app.kubernetes.io/managed-by',
} as const;

/** What a container was asked to be, on its namespace: what cannot be read from a pod that is not there. */
export const SPEC_ANNOTATION = 'troupe.dev/spec';

/** On the namespace: `"running"` since its start, or how it ended when stopped: what tells a stop from a loss. */
export const RUN_ANNOTATION = 'troupe.dev/run';

/** On the pod: a hash of the keys in it; absent while they are being changed. */
export const KEYS_ANNOTATION = 'troupe.dev/keys';

/** Names within a container's namespace. */
export const names = {
  pod: 'container-0',
  container: 'container',
  prepare: 'prepare',
  claim: 'data',
  secret: 'ssh-keys',
  /** What the node pulls the image with, where it needs something. */
  pull: 'registry',
  /** The variables of the workload. */
  environment: 'environment',
  service: 'container',
  policy: 'container',
} as const;

/** Labels and selectors of one installation. */
export type KubeNaming = ReturnType<typeof kubeNaming>;

/** Throws EngineError `refused` when `installation` is not 1 to 32 of `[a-z0-9-]`, first and last not `-`. */
export function kubeNaming(installation: string) {
  if (!/^[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?$/.test(installation)) {
    throw new EngineError('refused', `"${installation}" cannot name an installation.`);
  }
  return {
    installation,
    namespace: (userId: string, id: string) => `compute-${checkedId(userId)}-${checkedId(id)}`,
    labelsOf: (userId: string, id: string): Readonly<Record<string, string>> => ({
      [labels.managedBy]: 'troupe',
      [labels.installation]: installation,
      [labels.container]: checkedId(id),
      [labels.user]: checkedId(userId),
    }),
    /** A label selector for what is ours, or what is ours of one container. */
    selector: (id?: string) =>
      `${labels.installation}=${installation},${labels.container}${id === undefined ? '' : `=${checkedId(id)}`}`,
    /** The platform's id from an object's labels, when they are of this installation. */
    idOf: (found: Readonly<Record<string, string>> | null | undefined): string | undefined =>
      found?.[labels.installation] === installation ? found[labels.container] : undefined,
  };
}

/** The folder of a mount path in the container's claim: the same path finds the same data again. */
export function folderOf(mountPath: string): string {
  return createHash('sha256').update(mountPath).digest('hex').slice(0, 12);
}

/** Ids go into names and selectors: anything but a part of a DNS label is refused. */
function checkedId(id: string): string {
  if (!/^[a-z0-9](?:[a-z0-9-]{0,24}[a-z0-9])?$/.test(id)) {
    throw new EngineError('refused', 'This is not a container id.');
  }
  return id;
}
