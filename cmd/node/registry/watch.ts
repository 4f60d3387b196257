/** What watches over writes to a registry: who pushes, how much room they have, and when its store is collected. */
import type { StillHolds } from '../../../actors/auth/registry/registry-rights.ts';
import type { UpstreamAddress } from '../../../proto/gateway/traffic.ts';
import type { RegistryUsage } from '../../../proto/ports/local-registry.ts';
import type { Log } from '../../../proto/ports/log.ts';
import { LIBRARY } from '../../../proto/repositories.ts';
import type { Environment } from '../../config/config.ts';
import { RegistryBarrier } from './barrier.ts';
import { type CollectTimes, keepCollected, type Pinned } from './collect.ts';
import { heldFirst } from './holders.ts';
import type { ImageStore } from './image-store.ts';
import { pushTokens, tokenHolders } from './may-push.ts';
import { type Admit, RegistryQuota, type RoomOf } from './quota.ts';
import type { TokenKeys } from './token-keys.ts';

/** What it works with. */
export interface WatchOptions {
  readonly environment: Pick<Environment, 'REGISTRY_USER_MB' | 'ADMIN_USERNAME' | 'REGISTRY_ISSUER'>;
  readonly store: ImageStore;
  /** The registry's own listener. */
  readonly address: UpstreamAddress;
  /** As images name it. */
  readonly host: string;
  /** Of its tokens. */
  readonly keys: TokenKeys;
  /** When its store was collected; undefined: that is not known. */
  readonly last: number | undefined;
  /** Asked before each collection. One that rejects puts it off. */
  readonly pinned: Pinned;
  /** Asked before each write. */
  readonly holds: StillHolds;
  /** How often it is asked again while a write goes on, ms. Default: each minute. */
  readonly heldAgainMs?: number | undefined;
  /** MiB that a user alone may have; null: as many as the environment says. Asked at each write. */
  readonly limitMb: (username: string) => Promise<number | null>;
  readonly log: Log;
  /** Asked between the holder and the room of a user. */
  readonly between?: ((then: Admit) => Admit) | undefined;
  /** For how long writes that somebody else let in before may go on, ms. Default: there are none. */
  readonly formerMs?: number | undefined;
  readonly times?: CollectTimes | undefined;
}

/** Writes to a registry whose images are seen from here. */
interface StoreWatch {
  readonly barrier: RegistryBarrier;
  /** What a user has. Rejects when that cannot be told now. */
  readonly usage: (username: string) => Promise<RegistryUsage>;
  /** Ends a collection under way. */
  close(): Promise<void>;
}

/** Begins to watch over a store: its users have their room, and what has no name is collected. */
export function watchStore(options: WatchOptions): StoreWatch {
  const { environment, store, address, host, keys, last, pinned, log, times, between = (then) => then } = options;
  const { REGISTRY_ISSUER: issuer } = environment;
  const barrier = new RegistryBarrier(address, { formerMs: options.formerMs });
  const collector = keepCollected({ store, barrier, last, log, pinned, times });
  const quota = new RegistryQuota({
    store,
    barrier,
    limit: roomOf(environment, options.limitMb),
    mayPush: pushTokens(keys, host, issuer),
    pinned,
    log,
  });
  const { holds, heldAgainMs: againMs } = options;
  const holderOf = tokenHolders(keys, host, issuer);
  barrier.admit = heldFirst({ holderOf, holds, log, againMs }, between(quota.admit));
  return { barrier, usage: (username) => quota.usage(username), close: () => collector.close() };
}

/** The limit of each user: their own, or that of all. */
function roomOf(
  { REGISTRY_USER_MB: most, ADMIN_USERNAME: admin }: WatchOptions['environment'],
  limitMb: WatchOptions['limitMb'],
): RoomOf {
  return async (owner) => {
    if (owner === admin || owner === LIBRARY) return undefined;
    const mb = (await limitMb(owner)) ?? (most === 0 ? undefined : most);
    return mb === undefined ? undefined : mb * 2 ** 20;
  };
}

/** The barrier of a registry whose images are not seen from here: it asks for who pushes alone. */
export function watchHolders({
  environment,
  address,
  host,
  keys,
  holds,
  heldAgainMs: againMs,
  log,
}: Omit<WatchOptions, 'store'>): RegistryBarrier {
  const barrier = new RegistryBarrier(address);
  const holderOf = tokenHolders(keys, host, environment.REGISTRY_ISSUER);
  barrier.admit = heldFirst({ holderOf, holds, log, againMs }, async () => ({}));
  return barrier;
}
