/**
 * The registry front: the only way to a registry of a cluster, for however many gateways there are. So there is one
 * barrier, and one that knows what is written.
 */
import type { Registry } from 'prom-client';
import { pastBarrier } from '../../../../actors/gateway/barrier.ts';
import { ERRORS } from '../../../../proto/errors.ts';
import type { GatewayDecider } from '../../../../proto/gateway/gateway-decider.ts';
import type { ProxyDecision, ProxyReply, ProxyRequest } from '../../../../proto/gateway/traffic.ts';
import type { RegistryRoom } from '../../../../proto/ports/local-registry.ts';
import type { Environment } from '../../../config/config.ts';
import { readNumbers } from '../../../observability/metrics.ts';
import { metricsAccess } from '../../../observability/pages.ts';
import type { RegistryBarrier } from '../barrier.ts';
import { BucketStore } from '../bucket/store.ts';
import type { RegistryBucket } from '../files.ts';
import { roomIn } from '../room.ts';
import { folderStore } from '../store.ts';
import { type WatchOptions, watchHolders, watchStore } from '../watch.ts';
import { FullDisk } from './full-disk.ts';
import { answersOf } from './questions.ts';

/**
 * How long the registry may still work for clients of a front that was killed, ms: their connections broke, so it reads
 * nothing more of them.
 */
const FORMER_MS = 10_000;
/** How long the registry may take to say that it is there, ms. */
const ANSWER_MS = 2000;

/** What it is built from. */
export interface FrontOptions extends Omit<WatchOptions, 'store' | 'last' | 'between' | 'formerMs'> {
  readonly environment: WatchOptions['environment'] & Pick<Environment, 'METRICS_TOKEN'>;
  /** The folder of the images; undefined: they are in a bucket. */
  readonly store: string | undefined;
  /** That bucket; undefined, as `store`: they are not seen from here. */
  readonly bucket?: RegistryBucket | undefined;
  /** Shown at `/metrics`. */
  readonly metrics: Registry;
  /** What the disk takes. Default: what that of `store` does. */
  readonly room?: () => Promise<RegistryRoom>;
}

/** See above. */
interface RegistryFront extends Pick<GatewayDecider, 'decide'> {
  readonly barrier: RegistryBarrier;
  /** From here on `/readyz` says that it is leaving. */
  drain(): void;
  /** Ends a collection under way. */
  close(): Promise<void>;
}

/** Opens it. */
export function openFront(options: FrontOptions): RegistryFront {
  const { store, address, keys, host, metrics, log } = options;
  const { barrier, close, room, usage } = watched(options, store);
  const answer = answersOf({ keys, host, room, usage, log });
  const mayRead = metricsAccess(options.environment.METRICS_TOKEN);
  const number = readNumbers(metrics, 'troupe_registry');
  number('writes_held', 'Writes that wait until the store was collected', () => barrier.held);
  number('quiet_seconds', 'For how long nobody has written', () => barrier.quietMs / 1000);
  let isLeaving = false;

  const readiness = async (): Promise<ProxyReply> => {
    if (isLeaving) return text(503, 'this process was told to end');
    if (!(await answers(address))) return text(503, 'the registry does not answer');
    return text(200, 'ready');
  };
  const page = (request: ProxyRequest): ProxyReply | Promise<ProxyReply> | undefined => {
    const { method, target } = request;
    // Pages of this process are not for clients of gateways.
    if (method !== 'GET' || request.field('x-forwarded-for') !== undefined) return undefined;
    if (target === '/healthz') return text(200, 'ok');
    if (target === '/readyz') return readiness();
    if (target !== '/metrics') return answer(request);
    const refused = mayRead({ header: (name) => request.field(name), remoteAddress: request.address });
    if (refused !== undefined) return text(ERRORS[refused.code].status, refused.message);
    return metrics.metrics().then((body) => ({ status: 200, contentType: metrics.contentType, body }));
  };
  return {
    barrier,
    decide: (request): ProxyDecision | Promise<ProxyDecision> => {
      const own = page(request);
      if (own !== undefined) return own instanceof Promise ? own.then((reply) => ({ reply })) : { reply: own };
      return pastBarrier(barrier, request, { forward: address, target: request.target, isService: true });
    },
    drain: () => {
      isLeaving = true;
    },
    close,
  };
}

/** What watches over writes, and what is known of the images where they are seen. */
function watched(options: FrontOptions, folder: string | undefined) {
  const { log, bucket } = options;
  const former = { last: undefined, formerMs: FORMER_MS };
  if (folder === undefined) {
    if (bucket === undefined) {
      return {
        barrier: watchHolders({ ...options, ...former }),
        close: async () => {},
        room: undefined,
        usage: undefined,
      };
    }
    const { barrier, close, usage } = watchStore({ ...options, ...former, store: new BucketStore(bucket) });
    return { barrier, close: () => close(), room: undefined, usage };
  }
  const files = { store: folder };
  const room = options.room ?? (() => roomIn(folder));
  const disk = new FullDisk({ files, room, log });
  const watch = watchStore({ ...options, ...former, store: folderStore(files), between: disk.before });
  const close = async () => {
    await watch.close();
    await disk.close();
  };
  return { barrier: watch.barrier, close, room, usage: watch.usage };
}

/** As the probes of its manifest ask. */
async function answers({ host, port }: FrontOptions['address']): Promise<boolean> {
  try {
    const response = await fetch(`http://${host}:${port}/`, { signal: AbortSignal.timeout(ANSWER_MS) });
    await response.body?.cancel();
    return response.ok;
  } catch {
    return false;
  }
}

const text = (status: number, sentence: string): ProxyReply => ({ status, body: `${sentence}\n` });
