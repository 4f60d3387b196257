import { z } from 'zod';
import type { Ending } from '../../../proto/ports/ending.ts';
import {
  type BuiltInImage,
  type Engine,
  EngineError,
  SSH_SERVERS,
  type Workload,
} from '../../../proto/ports/engine.ts';
import type { Log } from '../../../proto/ports/log.ts';
import { connectTcp, dialAddress } from '../common/dial-tcp.ts';
import { filesByCommands } from '../common/files.ts';
import { endSessionsScript } from '../common/ssh-sessions.ts';
import type { KubeAccess } from './access.ts';
import { ClusterCache } from './cache.ts';
import { KubeClient } from './client.ts';
import { KubeContainers, type KubeContainersOptions } from './containers.ts';
import { isReply } from './errors.ts';
import { execInPod, runCommand, runInPod } from './exec.ts';
import { pullBeside } from './image-pull.ts';
import { readKubeLogs } from './logs.ts';
import { type ClusterSettings, keysText } from './manifests.ts';
import { kubeNaming } from './naming.ts';
import { reservedAliases } from './network-objects.ts';
import { keptImage, nodeImage } from './own-images.ts';
import type { PodPlace } from './pods.ts';
import { KubeUsage } from './usage.ts';
import { digestOf } from './views.ts';
import { defaultKubeWatchTimes, type KubeWatchTimes, watchCluster } from './watch.ts';

/** What an engine on Kubernetes is made from. */
export interface KubernetesEngineOptions {
  readonly access: KubeAccess;
  /** Tells this platform's containers from others' in the same cluster: 1 to 32 of `[a-z0-9-]`. */
  readonly installation: string;
  /** Where the nodes find the image of containers that name none. */
  readonly baseImage: string;
  /** The images of the catalog, which are at `settings.catalogImages`. */
  readonly catalog?: readonly BuiltInImage[];
  readonly log: Log;
  readonly settings?: ClusterSettings;
  /** What nodes pull images with that not everybody may have. */
  readonly pullAuth?: KubeContainersOptions['pullAuth'];
  readonly watchTimes?: KubeWatchTimes;
  /** Pause between two samples of usage, ms. */
  readonly usageEveryMs?: number;
}

const versionAnswer = z.object({ gitVersion: z.string() });

/** Writes the keys anew in a running container, whole or not at all. */
const RENEW_SCRIPT = `
umask 077
printf %s "$1" > /etc/troupe/.authorized_keys && mv -f /etc/troupe/.authorized_keys /etc/troupe/authorized_keys`;

/**
 * `Engine` on a Kubernetes cluster (proto/ports/engine.ts): a namespace for each container, with a pod, a claim, a
 * secret, a service and a network policy; a private network is of labels, policies and services. Does not connect yet:
 * `check` says whether the cluster answers. Throws `refused` for an installation name that cannot be.
 */
export function kubernetesEngine(options: KubernetesEngineOptions): Engine {
  const { log } = options;
  const client = new KubeClient(options.access);
  const naming = kubeNaming(options.installation);
  const watches = new Map<Ending, ClusterCache>();
  const cache = () => [...watches.values()][0];
  const { baseImage, pullAuth, catalog = [] } = options;
  const catalogToday = catalog.map(({ reference }) => reference);
  const settings: ClusterSettings = { ...options.settings, baseImage, catalogToday };
  const containers = new KubeContainers(client, naming, { settings, cache, ...(pullAuth && { pullAuth }) });
  // A moment old at most while somebody watches; whoever acts on it looks at the one container first.
  const known = () => cache()?.read();
  const podsOf = () => containers.ownPods(known());
  const usage = new KubeUsage(client, podsOf, naming, log, options.usageEveryMs ?? 15_000);

  /** Resolves with whether they are written. */
  const writeKeys = async (place: PodPlace, keys: readonly string[]): Promise<boolean> => {
    try {
      await runCommand(client, place, ['/bin/sh', '-c', RENEW_SCRIPT, 'sh', keysText(keys)]);
      return true;
    } catch (error) {
      // It ended meanwhile: the next start brings them.
      if (!isReply(error, 404, 500)) throw error;
      return false;
    }
  };
  const start = (id: string, authorizedKeys: readonly string[], workload?: Workload): Promise<void> =>
    containers.start(id, { authorizedKeys, workload }, (found) => writeKeys(found, authorizedKeys));

  return {
    kind: 'kubernetes',
    keepsFiles: false,
    resizesRunning: false,
    shrinksStorage: false,
    reservedAliases,
    hasSuccessors: true,
    // A claim is one node's, and the other pod may be given another.
    sharesMountPaths: false,
    // The DNS of a cluster keeps an answer for five seconds, unless it is told otherwise.
    aliasLastsMs: 10_000,
    fileAccess: filesByCommands((...asked) => runInPod(client, containers, ...asked)),
    baseImage,
    // They were built elsewhere, and the nodes pull them.
    builtIns: catalog,
    isBuilt: async () => undefined,
    check: async () =>
      `Kubernetes ${(await client.json('GET', '/version', versionAnswer, { timeoutMs: 30_000 })).gitVersion}`,
    // The nodes pull; what they say of it comes with the start, unless that is not to fail.
    ensureImage: async (image, imageOptions) => {
      const { signal, forContainer } = imageOptions;
      nodeImage(keptImage(image, undefined), settings);
      if (signal?.aborted === true) throw new EngineError('unavailable', 'Given up.', { cause: signal.reason });
      if (forContainer !== undefined) await pullBeside(client, containers, settings, forContainer, image, imageOptions);
    },
    create: (spec, fence) => containers.create(spec, fence),
    start: async (id, keys, workload) => {
      await start(id, keys, workload);
      usage.usage(id);
    },
    join: async (id, network) => containers.networks.join(await containers.mustFind(id), network),
    beginSuccessor: (...asked) => containers.successors.begin(...asked),
    promote: (id, network) => containers.successors.promote(id, network),
    runOnce: (spec, workload, _network, how) => containers.once.run(spec, workload, how),
    endOthers: async (id, graceSeconds) => {
      const found = await containers.find(id);
      if (found !== undefined) await containers.successors.end(found, graceSeconds);
    },
    renewKeys: async (id, keys, workload) => {
      const place = await containers.mustRun(id);
      await start(id, keys, workload);
      await runCommand(client, place, ['/bin/sh', '-c', endSessionsScript]);
    },
    stop: (id, graceSeconds) => containers.stop(id, graceSeconds),
    remove: async (id, { keepData = false } = {}) => {
      await containers.remove(id, keepData);
      usage.forget(id);
    },
    inspect: (id) => containers.inspect(id),
    list: (ids) => containers.list(cache()?.read(ids), ids),
    watch: (onChange) => {
      const seen = new ClusterCache();
      const times = options.watchTimes ?? defaultKubeWatchTimes;
      const watch = watchCluster(client, naming, log, onChange, times, seen);
      const ending: Ending = {
        close: () => {
          watches.delete(ending);
          return watch.close();
        },
      };
      watches.set(ending, seen);
      return ending;
    },
    logs: (id, logOptions) => readKubeLogs(client, containers, id, logOptions),
    dial: async (id, port, { timeoutMs, signal }) => {
      const begun = Date.now();
      const address = dialAddress(id, port, await containers.inspect(id));
      return connectTcp(address, port, Math.max(1, timeoutMs - (Date.now() - begun)), signal);
    },
    exec: (id, execOptions, signal) => execInPod(client, containers, id, execOptions, signal),
    run: (id, command, signal) => runInPod(client, containers, id, command, signal),
    hasSshServer: async (id) => {
      const place = await containers.mustFind(id);
      // An image without a shell is taken for one without a server.
      const script = 'for one; do [ -x "$one" ] && exit 0; done; exit 3';
      const { code } = await runCommand(client, place, ['/bin/sh', '-c', script, 'sh', ...SSH_SERVERS]);
      return code === 0;
    },
    imageDigest: async (id) => digestOf(await containers.pods.of(await containers.mustFind(id))),
    forgetImages: forgetNone,
    usage: (id) => usage.usage(id),
    close: async () => {
      await Promise.all([...watches.keys()].map((watch) => watch.close()));
      client.close();
      await usage.close();
    },
  };
}

/** The nodes remove images by themselves. */
async function forgetNone(): Promise<readonly string[]> {
  return [];
}
