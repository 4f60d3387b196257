/**
 * Pulls an image on the node of a container that runs. A cluster pulls for pods only, so a pod is made there that has
 * the image and a program which no image has: its node pulls, and starts nothing. It has none of the labels by which
 * services, policies and watches find containers.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { EngineError, type EnsureImageOptions } from '../../../proto/ports/engine.ts';
import { deleteIfThere, getIfThere, type KubeClient } from './client.ts';
import type { KubeContainers } from './containers.ts';
import { labels, names } from './naming.ts';
import { keptImage, nodeImage, type OwnImagePlaces, pullProblem } from './own-images.ts';
import { type PodView, podView, problemOf } from './views.ts';

const NAME = 'image-pull';
/** Between two looks at the pod, ms. */
const LOOK_MS = 500;
/** Longest pull, ms. */
const PULL_MS = 30 * 60_000;
/** How long a registry may not answer before the pull has failed for now, ms. */
const PASSING_MS = 8000;

/**
 * Makes the image present where container `id` runs; nothing to do when it does not run. Rejects with EngineError as
 * `Engine.ensureImage` does.
 */
export async function pullBeside(
  client: KubeClient,
  containers: KubeContainers,
  places: OwnImagePlaces,
  id: string,
  wanted: string,
  { always, signal, onProgress }: EnsureImageOptions,
): Promise<void> {
  const found = await containers.find(id);
  const { nodeName = '' } = (found && (await containers.pods.of(found)))?.spec ?? {};
  if (found === undefined || nodeName === '') return;
  const { namespace } = found;
  const kept = keptImage(wanted, found.spec.image);
  const hasPullSecret = await containers.starter.ensurePullSecret({ ...found, spec: { ...found.spec, image: kept } });
  const image = nodeImage(kept, places);
  const path = `/api/v1/namespaces/${namespace}/pods/${NAME}`;
  const remove = (): Promise<void> => deleteIfThere(client, path, { gracePeriodSeconds: 0 });
  // One that was left by a platform that ended.
  await remove();
  onProgress?.(`${image} is pulled on the node of the container`);
  try {
    const isAsked = hasPullSecret || always;
    await client.apply(path, pullManifest(namespace, nodeName, image, isAsked, hasPullSecret), podView);
    await untilPulled(() => getIfThere(client, path, podView), image, signal);
  } catch (error) {
    throw error instanceof EngineError ? pullProblem(error, kept, places) : error;
  } finally {
    await remove();
  }
  onProgress?.(`${image} is present`);
}

async function untilPulled(
  look: () => Promise<PodView | undefined>,
  image: string,
  signal: AbortSignal | undefined,
): Promise<void> {
  const begun = Date.now();
  let problemSince: number | undefined;
  let problem: EngineError | undefined;
  for (;;) {
    if (signal?.aborted === true) throw new EngineError('unavailable', 'Given up.', { cause: signal.reason });
    const pod = await look();
    if (pod === undefined) throw new EngineError('unavailable', 'What pulls the image was removed meanwhile.');
    if (isPulled(pod)) return;
    if (pod.status.phase === 'Failed')
      throw new EngineError('unavailable', `The node of the container cannot pull: ${pod.status.message}`);
    const now = problemOf(pod, image);
    // Between two tries a kubelet says only that it waits.
    if (now === undefined) problem = undefined;
    else if (!now.isVague || problem === undefined) problem = now.error;
    problemSince = problem === undefined ? undefined : (problemSince ?? Date.now());
    const isPassing = problem?.code === 'unavailable' || now?.isVague === true;
    if (problem !== undefined && (!isPassing || Date.now() - (problemSince ?? begun) > PASSING_MS)) throw problem;
    if (Date.now() - begun > PULL_MS) throw new EngineError('unavailable', `${image} is not pulled yet.`);
    await delay(LOOK_MS);
  }
}

/** Its node has the image once it tried to start the program. */
function isPulled(pod: PodView): boolean {
  const [status] = pod.status.containerStatuses;
  const { terminated, waiting, running } = status?.state ?? {};
  const isTried = /^(CreateContainerConfigError|CreateContainerError|RunContainerError|CrashLoopBackOff)$/;
  return terminated !== undefined || running !== undefined || isTried.test(waiting?.reason ?? '');
}

function pullManifest(
  namespace: string,
  nodeName: string,
  image: string,
  isAsked: boolean,
  hasPullSecret: boolean,
): object {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: NAME, namespace, labels: { [labels.managedBy]: 'troupe' } },
    spec: {
      nodeName,
      restartPolicy: 'Never',
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      imagePullSecrets: hasPullSecret ? [{ name: names.pull }] : [],
      tolerations: [{ operator: 'Exists' }],
      containers: [
        {
          name: NAME,
          image,
          imagePullPolicy: isAsked ? 'Always' : 'IfNotPresent',
          command: [`/${randomUUID()}`],
          resources: {
            limits: { cpu: '10m', memory: '16Mi', 'ephemeral-storage': '1Mi' },
            requests: { cpu: '0', memory: '0', 'ephemeral-storage': '0' },
          },
          securityContext: {
            allowPrivilegeEscalation: false,
            privileged: false,
            capabilities: { drop: ['ALL'] },
          },
        },
      ],
    },
  };
}
