import { createHash } from 'node:crypto';
import { EngineError } from '../../../proto/ports/engine.ts';

/** The labels by which everything of the platform is known. */
export const labels = {
  installation: 'troupe.dev/installation',
  container: 'troupe.dev/container',
  user: 'troupe.dev/user',
  /** On pods: their own name, by which a service leads to one of two. */
  pod: 'troupe.dev/pod',
  /** On namespaces: `kept` when only the data is left of a container. */
  state: 'troupe.dev/state',
  managedBy: 'app.kubernetes.io/managed-by',
} as const;

/** What a container was asked to be, on its namespace: what cannot be read from a pod that is not there. */
export const SPEC_ANNOTATION = 'troupe.dev/spec';

/** On the namespace: `"running"` since its start, or how it ended when stopped: what tells a stop from a loss. */
export const RUN_ANNOTATION = 'troupe.dev/run';

/** On the namespace: the name of the pod that is the container. Absent until it first has a successor: `names.pod`. */
export const POD_ANNOTATION = 'troupe.dev/pod';

/** On the pod: a hash of the keys in it; absent while they are being changed. */
export const KEYS_ANNOTATION = 'troupe.dev/keys';

/** Names within a container's namespace. */
export const names = {
  /** The first pod. Each that takes the place of another has the next number. */
  pod: 'container-0',
  /** The pod in which a command runs once, and its variables. */
  once: 'once',
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
    /** A label selector for what is ours, also what is not of one container. */
    selectorOfAll: `${labels.installation}=${installation}`,
    /** A label selector for what is ours, or what is ours of one container. */
    selector: (id?: string) =>
      `${labels.installation}=${installation},${labels.container}${id === undefined ? '' : `=${checkedId(id)}`}`,
    /** The platform's id from an object's labels, when they are of this installation. */
    idOf: (found: Readonly<Record<string, string>> | null | undefined): string | undefined =>
      found?.[labels.installation] === installation ? found[labels.container] : undefined,
  };
}

/** The name of the pod that is the container, as the annotations of its namespace say. */
export function podNameOf(annotations: Readonly<Record<string, string>>): string {
  const name = annotations[POD_ANNOTATION];
  return name !== undefined && numberOfPod(name) !== undefined ? name : names.pod;
}

/** The name of the pod that is to take the place of this one. */
export function nextPodName(name: string): string {
  return `container-${(numberOfPod(name) ?? 0) + 1}`;
}

/**
 * The names of the pods that may be beside this one: the one to take its place, the one whose place it took, and the
 * one in which a command runs once.
 */
export function besides(name: string): readonly string[] {
  const number = numberOfPod(name) ?? 0;
  return [nextPodName(name), ...(number === 0 ? [] : [`container-${number - 1}`]), names.once];
}

/** Whether a pod was begun after another, to take its place. */
export function isLaterPod(name: string, than: string): boolean {
  return (numberOfPod(name) ?? 0) > (numberOfPod(than) ?? 0);
}

function numberOfPod(name: string): number | undefined {
  const number = /^container-(0|[1-9]\d{0,8})$/.exec(name)?.[1];
  return number === undefined ? undefined : Number(number);
}

/** The folder of a mount path in the container's claim: the same path finds the same data again. */
export function folderOf(mountPath: string): string {
  return createHash('sha256').update(mountPath).digest('hex').slice(0, 12);
}

/** Ids go into names and selectors: anything but a part of a DNS label is refused. */
export function checkedId(id: string): string {
  if (!/^[a-z0-9](?:[a-z0-9-]{0,24}[a-z0-9])?$/.test(id)) {
    throw new EngineError('refused', 'This is not a container id.');
  }
  return id;
}
