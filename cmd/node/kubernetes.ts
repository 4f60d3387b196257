/** The engine on a Kubernetes cluster, as the environment describes it. */
import { existsSync, readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { delimiter, join } from 'node:path';
import type { PullAuth } from '../../actors/auth/registry/pull-credential.ts';
import type { Engine } from '../../proto/ports/engine.ts';
import type { Log } from '../../proto/ports/log.ts';
import type { MetricsSource } from '../../proto/ports/metrics-source.ts';
import { catalogAt } from '../../transports/engines/docker/image/sent-images.ts';
import type { KubeAccess } from '../../transports/engines/kubernetes/access.ts';
import { kubernetesEngine } from '../../transports/engines/kubernetes/engine.ts';
import { kubernetesMetrics } from '../../transports/engines/kubernetes/metrics.ts';
import { CliError } from '../config/cli-error.ts';
import type { Environment } from '../config/config.ts';

const SERVICE_ACCOUNT = '/var/run/secrets/kubernetes.io/serviceaccount';

/**
 * Makes the engine of COMPUTE_ENGINE=kubernetes, once the cluster has answered. Throws CliError when nothing says which
 * cluster, or which image containers start from, and EngineError `unavailable` when it does not answer.
 */
export async function openKubernetes(
  environment: Environment,
  options: {
    readonly installation: string;
    readonly log: Log;
    readonly onProgress: (line: string) => void;
    /** Only who starts containers needs it. */
    readonly pullAuth?: PullAuth | undefined;
  },
): Promise<Engine> {
  const { installation, log, onProgress, pullAuth } = options;
  if (environment.DEFAULT_IMAGE === undefined) {
    throw new CliError(
      'COMPUTE_ENGINE=kubernetes needs DEFAULT_IMAGE: the image containers start from, in a registry the nodes ' +
        'reach (docs/reference/kubernetes.md).',
    );
  }
  const namespaceFile = join(SERVICE_ACCOUNT, 'namespace');
  const platformNamespace =
    environment.KUBERNETES_NAMESPACE ??
    (existsSync(namespaceFile) ? readFileSync(namespaceFile, 'utf8').trim() : undefined);
  const { CATALOG_IMAGES: catalogImages } = environment;
  const engine = kubernetesEngine({
    access: accessOf(environment),
    installation,
    baseImage: environment.DEFAULT_IMAGE,
    ...(catalogImages === undefined ? {} : { catalog: await catalogAt(catalogImages) }),
    log,
    ...(pullAuth === undefined ? {} : { pullAuth }),
    settings: {
      ...(environment.KUBERNETES_STORAGE_CLASS === undefined
        ? {}
        : { storageClass: environment.KUBERNETES_STORAGE_CLASS }),
      ...(catalogImages === undefined ? {} : { catalogImages }),
      serviceType: environment.KUBERNETES_SERVICE_TYPE,
      anyArchitecture: environment.KUBERNETES_ARCHITECTURE === 'any',
      ...(platformNamespace === undefined ? {} : { platformNamespace }),
      hasUserNamespaces: environment.KUBERNETES_USER_NAMESPACES === 'on',
      egressAllow: environment.EGRESS_ALLOW,
      clusterDomain: environment.KUBERNETES_CLUSTER_DOMAIN,
    },
  });
  try {
    onProgress(`containers run on ${await engine.check()}`);
  } catch (error) {
    await engine.close();
    throw error;
  }
  return engine;
}

/** Makes what measures the cluster's nodes and containers. Throws CliError when nothing says which cluster. */
export function openKubernetesMetrics(
  environment: Environment,
  options: { readonly installation: string; readonly log: Log },
): MetricsSource {
  return kubernetesMetrics({ access: accessOf(environment), ...options });
}

function accessOf({ KUBECONFIG }: Environment): KubeAccess {
  const files = KUBECONFIG?.split(delimiter).filter((file) => file !== '') ?? [];
  const [given] = files;
  if (files.length > 1) throw new CliError('KUBECONFIG must name one file.');
  if (given !== undefined) {
    if (!existsSync(given)) throw new CliError(`KUBECONFIG is ${given}, which is not there.`);
    return { kubeconfig: given };
  }
  if (existsSync(join(SERVICE_ACCOUNT, 'token'))) return { inCluster: true };
  const usual = join(homedir(), '.kube/config');
  if (existsSync(usual)) return { kubeconfig: usual };
  throw new CliError(
    'COMPUTE_ENGINE=kubernetes needs a cluster: set KUBECONFIG, or run in a pod with a service account.',
  );
}
