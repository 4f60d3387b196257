import { z } from 'zod';
import { type ContainerState, EngineError } from '../../../proto/ports/engine.ts';
import { cleanReason } from '../common/calls.ts';
import { parseImageReference, pullError } from '../common/image-reference.ts';
import { names } from './naming.ts';

/** What is kept of a spec, on the namespace. */
export const keptSpecView = z.object({
  image: z.string(),
  hostname: z.string(),
  cpus: z.number(),
  memoryMb: z.number(),
  storageGb: z.number(),
  mountPaths: z.array(z.string()),
  architecture: z.enum(['arm64', 'amd64']).optional(),
  /** The node asks the registry even when it has the image. */
  pullsAlways: z.literal(true).optional(),
  stopGraceSeconds: z.number().optional(),
  egress: z.array(z.string()).optional(),
});
export type KeptSpec = z.output<typeof keptSpecView>;

/** How a container that was stopped ended. */
const endedView = z.object({
  exitCode: z.number().nullable(),
  oomKilled: z.boolean(),
  /** Unix ms. */
  startedAt: z.number().nullable(),
  /** Absent in what former versions wrote. */
  endedAt: z.number().optional(),
});
type Ended = z.output<typeof endedView>;

/** How far a container was when it was last told to start or to stop, on the namespace. */
export const runView = z.union([z.literal('running'), endedView]);
export type Run = z.output<typeof runView>;

const strings = z.record(z.string(), z.string()).default({});

/** What we read of any object. */
export const metadataView = z.object({
  name: z.string(),
  namespace: z.string().default(''),
  uid: z.string().default(''),
  resourceVersion: z.string().default(''),
  deletionTimestamp: z.string().nullish(),
  labels: strings,
  annotations: strings,
});
export const objectView = z.object({ metadata: metadataView });
export type NamespaceView = z.output<typeof objectView>;

const terminated = z.object({
  exitCode: z.number(),
  reason: z.string().default(''),
  message: z.string().default(''),
  startedAt: z.string().nullish(),
  finishedAt: z.string().nullish(),
});
const containerStatus = z.object({
  name: z.string(),
  containerID: z.string().default(''),
  imageID: z.string().default(''),
  restartCount: z.number().default(0),
  state: z
    .object({
      waiting: z.object({ reason: z.string().default(''), message: z.string().default('') }).optional(),
      running: z.object({ startedAt: z.string().nullish() }).optional(),
      terminated: terminated.optional(),
    })
    .default({}),
});

/** What we read of a pod. */
export const podView = z.object({
  metadata: metadataView,
  spec: z.object({ nodeName: z.string().default('') }).prefault({}),
  status: z
    .object({
      phase: z.string().default('Pending'),
      reason: z.string().default(''),
      message: z.string().default(''),
      podIP: z.string().default(''),
      conditions: z
        .array(
          z.object({
            type: z.string(),
            status: z.string(),
            reason: z.string().default(''),
            message: z.string().default(''),
          }),
        )
        .default([]),
      initContainerStatuses: z.array(containerStatus).default([]),
      containerStatuses: z.array(containerStatus).default([]),
    })
    .prefault({}),
});
export type PodView = z.output<typeof podView>;

/** What we read of a service. */
export const serviceView = z.object({
  metadata: metadataView,
  spec: z
    .object({ type: z.string().default('ClusterIP'), externalName: z.string().default(''), selector: strings })
    .prefault({}),
  status: z
    .object({
      loadBalancer: z
        .object({
          ingress: z.array(z.object({ ip: z.string().default(''), hostname: z.string().default('') })).default([]),
        })
        .prefault({}),
    })
    .prefault({}),
});

export type ServiceView = z.output<typeof serviceView>;

/** Where the outside reaches what is behind a service: an address, else a name; empty while it is nowhere. */
export function externalAddressOf(service: ServiceView | undefined): string {
  const [first] = service?.status.loadBalancer.ingress ?? [];
  return first === undefined ? '' : first.ip || first.hostname;
}

/** The status of the workload itself, once there is one. */
export function workloadOf(pod: PodView): z.output<typeof containerStatus> | undefined {
  return pod.status.containerStatuses.find(({ name }) => name === names.container);
}

/** By which digest its registry has the image that a pod runs; undefined while no node says it. */
export function digestOf(pod: PodView | undefined): string | undefined {
  const { imageID = '' } = (pod && workloadOf(pod)) ?? {};
  return /@(sha256:[0-9a-f]{64})$/.exec(imageID)?.[1];
}

/** Whether a pod has come to its end, and will not run again. */
export function hasEnded(pod: PodView): boolean {
  if (workloadOf(pod)?.state.running !== undefined) return false;
  return (
    pod.status.phase === 'Failed' || pod.status.phase === 'Succeeded' || workloadOf(pod)?.state.terminated !== undefined
  );
}

/** Whether the image has nothing that could prepare it. */
export function hasNoShell(pod: PodView): boolean {
  const over = pod.status.initContainerStatuses.find(({ name }) => name === names.prepare)?.state.terminated;
  return over !== undefined && (/^(ContainerCannotRun|StartError)$/.test(over.reason) || over.exitCode === 127);
}

/** A container in the platform's words. Without a `pod` it is not started; `ended` tells of its last run, if any. */
export function stateOf(
  id: string,
  spec: KeptSpec,
  pod: PodView | undefined,
  ended: Ended | undefined,
): ContainerState {
  const { cpus, memoryMb, storageGb, mountPaths } = spec;
  const egress = spec.egress ?? ('any' as const);
  const wanted = { mountPaths, egress, limits: { cpus, memoryMb, storageGb } };
  if (pod === undefined && ended !== undefined) {
    const { endedAt, ...how } = ended;
    const when = endedAt === undefined ? {} : { endedAt };
    return { id, phase: 'exited', address: null, restarts: 0, paused: false, ...how, ...when, ...wanted };
  }
  const workload = pod === undefined ? undefined : workloadOf(pod);
  const running = workload?.state.running;
  const over = pod !== undefined && hasEnded(pod) ? (workload?.state.terminated ?? undefined) : undefined;
  const phase = running !== undefined ? 'running' : pod !== undefined && hasEnded(pod) ? 'exited' : 'created';
  const startedAt = Date.parse(running?.startedAt ?? over?.startedAt ?? '');
  const endedAt = Date.parse(over?.finishedAt ?? '');
  return {
    id,
    phase,
    address: phase === 'running' && pod?.status.podIP ? pod.status.podIP : null,
    exitCode: phase === 'exited' ? (over?.exitCode ?? 137) : null,
    oomKilled: over?.reason === 'OOMKilled',
    restarts: workload?.restartCount ?? 0,
    startedAt: phase !== 'created' && Number.isFinite(startedAt) ? startedAt : null,
    ...(phase === 'exited' && Number.isFinite(endedAt) ? { endedAt } : {}),
    paused: false,
    ...wanted,
  };
}

/** What keeps a pod from running. `isVague`: the cluster said more before. */
interface PodProblem {
  readonly error: EngineError;
  readonly isVague: boolean;
}

/** How the sentence begins that no node can take a pod. */
export const NO_ROOM = 'No node of the cluster has room for it';

const VAGUE = /^back-off pulling image "[^"]*"$/i;

/** What keeps a pod from running, in words for its user; undefined while nothing is known to be wrong. */
export function problemOf(pod: PodView, image: string): PodProblem | undefined {
  const all = [...pod.status.initContainerStatuses, ...pod.status.containerStatuses];
  const plain = (error: EngineError): PodProblem => ({ error, isVague: false });
  for (const { state, name } of all) {
    const { reason = '', message = '' } = state.waiting ?? {};
    const said = cleanReason(message) || reason;
    if (/^(ErrImageNeverPull|ImageInspectError|InvalidImageName)$/.test(reason)) {
      return plain(new EngineError('image_not_found', `The image ${image} cannot be pulled: ${said}`));
    }
    if (/^(ErrImagePull|ImagePullBackOff|RegistryUnavailable)$/.test(reason)) {
      return { error: pullError(parseImageReference(image), said), isVague: VAGUE.test(said) || said === reason };
    }
    if (/^(CreateContainerConfigError|CreateContainerError|RunContainerError)$/.test(reason)) {
      return plain(new EngineError('refused', `The container cannot be started: ${said}`));
    }
    const failed = name === names.prepare ? state.terminated : undefined;
    if (failed !== undefined && failed.exitCode !== 0) {
      const why = cleanReason(failed.message) || failed.reason || `exit code ${failed.exitCode}`;
      return plain(new EngineError('refused', `The container's data cannot be prepared: ${why}`));
    }
  }
  const scheduled = pod.status.conditions.find(({ type }) => type === 'PodScheduled');
  if (scheduled?.status === 'False' && scheduled.reason === 'Unschedulable') {
    return plain(new EngineError('unavailable', `${NO_ROOM}: ${cleanReason(scheduled.message)}`));
  }
  return undefined;
}
