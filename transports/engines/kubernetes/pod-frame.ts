/** What all pods of containers have in common. */
import { keptCapabilities } from '../common/confinement.ts';
import type { Found } from './find.ts';
import { type KubeNaming, labels, names, SPEC_ANNOTATION } from './naming.ts';
import { nodeImage, type OwnImagePlaces } from './own-images.ts';
import type { KeptSpec } from './views.ts';

/** What an operator chooses for all pods of a cluster. */
export interface NodeSettings {
  /** Containers run on nodes of any architecture, whatever their type says. Default false. */
  readonly anyArchitecture?: boolean;
  /** Root in a container is nobody on its node. The cluster must have user namespaces for pods. Default false. */
  readonly hasUserNamespaces?: boolean;
}

/** Seconds between SIGTERM and SIGKILL when a pod is told to stop. */
const POD_GRACE_SECONDS = 10;

/** What each program of a pod may use and do, and how its image is pulled. */
export function confinedOf(spec: KeptSpec, places: OwnImagePlaces, hasPullSecret: boolean): object {
  const limits = {
    cpu: `${Math.max(10, Math.round(spec.cpus * 1000))}m`,
    memory: `${spec.memoryMb}Mi`,
    // Its own layer and its log: a kubelet ends a pod that holds more, so that it does not fill the node's disk.
    'ephemeral-storage': `${spec.storageGb}Gi`,
  };
  // What a node has it would give to anybody: an image that takes a right is asked for with it each time.
  const isAsked = hasPullSecret || spec.pullsAlways === true;
  return {
    image: nodeImage(spec.image, places),
    imagePullPolicy: isAsked ? 'Always' : 'IfNotPresent',
    resources: {
      limits,
      // Memory is promised whole, since a node cannot take it back. Nothing is set aside for the layer: most stay
      // small.
      requests: {
        cpu: `${Math.max(10, Math.round(spec.cpus * 250))}m`,
        memory: limits.memory,
        'ephemeral-storage': '0',
      },
    },
    securityContext: {
      allowPrivilegeEscalation: false,
      privileged: false,
      runAsUser: 0,
      capabilities: { drop: ['ALL'], add: keptCapabilities },
    },
  };
}

/** What is in a pod. */
interface PodInsides {
  readonly annotations?: Readonly<Record<string, string>>;
  readonly initContainers: readonly object[];
  readonly containers: readonly object[];
  readonly volumes: readonly object[];
  /** Seconds after which its node ends it. */
  readonly activeDeadlineSeconds?: number;
}

/** What all pods of containers are. Never restarted by Kubernetes: the platform decides. */
export function podOf(
  naming: KubeNaming,
  { namespace, pod, id, userId, spec }: Pick<Found, 'namespace' | 'pod' | 'id' | 'userId' | 'spec'>,
  settings: NodeSettings,
  hasPullSecret: boolean,
  { annotations, ...insides }: PodInsides,
): object {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name: pod,
      namespace,
      labels: { ...naming.labelsOf(userId, id), [labels.pod]: pod },
      annotations: { [SPEC_ANNOTATION]: JSON.stringify(spec), ...annotations },
    },
    spec: {
      // A pod is named by one label.
      hostname: spec.hostname.replace(/\..*/, '').slice(0, 63),
      restartPolicy: 'Never',
      terminationGracePeriodSeconds: spec.stopGraceSeconds ?? POD_GRACE_SECONDS,
      automountServiceAccountToken: false,
      ...(settings.hasUserNamespaces === true ? { hostUsers: false } : {}),
      enableServiceLinks: false,
      imagePullSecrets: hasPullSecret ? [{ name: names.pull }] : [],
      ...(spec.architecture === undefined || settings.anyArchitecture === true
        ? {}
        : { nodeSelector: { 'kubernetes.io/arch': spec.architecture } }),
      securityContext: { seccompProfile: { type: 'RuntimeDefault' } },
      ...insides,
    },
  };
}
