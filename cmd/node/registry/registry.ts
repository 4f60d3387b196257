/** The registry that comes along: whether `up` runs one, and what the platform is told of it. */
import { existsSync } from 'node:fs';
import type { RegistryKey } from '../../../actors/auth/registry/registry-key.ts';
import type { StillHolds } from '../../../actors/auth/registry/registry-rights.ts';
import { errorText } from '../../../lib/errors.ts';
import type { HostedRegistry, LocalRegistry } from '../../../proto/ports/local-registry.ts';
import type { Log } from '../../../proto/ports/log.ts';
import { registryHostOf } from '../../../proto/service-paths.ts';
import { freePort } from '../../../transports/http/listen-error.ts';
import type { Environment } from '../../config/config.ts';
import { imageArchitecture } from '../platform-facts.ts';
import { BucketStore } from './bucket/store.ts';
import { collectGarbage, type Pinned } from './collect.ts';
import {
  type RegistryFiles,
  registryBucket,
  registryFiles,
  registryKeyOf,
  writeRegistryFiles,
  writtenPort,
} from './files.ts';
import { endRegistry, keepRegistry, registryProgram, runningRegistry, startRegistry } from './process.ts';
import { roomIn } from './room.ts';
import { folderStore } from './store.ts';
import { ownKeys } from './token-keys.ts';
import { type WatchOptions, watchStore } from './watch.ts';

const LOOPBACK = '127.0.0.1';

/** A registry that is kept running. */
export interface OwnRegistry extends LocalRegistry, Partial<HostedRegistry> {
  /** The environment that attaches it to the platform. */
  readonly environment: Environment;
  /** Ends it. */
  close(): Promise<void>;
}

/** What it is started from. */
interface OwnRegistryOptions {
  readonly environment: Environment;
  readonly dataDir: string;
  readonly domain: string;
  /** Where it is to listen on loopback; 0: on any free port. */
  readonly port: number;
  readonly log: Log;
  readonly onProgress: (line: string) => void;
  /** Asked before each collection. One that rejects puts it off. */
  readonly pinned: Pinned;
  /** Asked before each write. */
  readonly holds: StillHolds;
  /** Asked before each write for how much a user may have; null: as much as all. */
  readonly limitMb: WatchOptions['limitMb'];
}

/**
 * Starts the registry of a data folder, or adopts the one that a killed platform left. One that does not come up is
 * tried again and again, and the platform goes on. Throws CliError for a damaged key.
 */
export async function openOwnRegistry(options: OwnRegistryOptions): Promise<OwnRegistry> {
  const { environment, dataDir, log, onProgress, pinned, holds, limitMb } = options;
  const files = registryFiles(dataDir);
  const host = registryHostOf(options.domain);
  const { key, secret } = await registryKeyOf(files);
  const former = writtenPort(files);
  const isRunning = runningRegistry(files) !== undefined;
  const wanted = options.port === 0 ? (former ?? 0) : options.port;
  const port = isRunning && former !== undefined ? former : await freePort(LOOPBACK, wanted);
  const bucket = registryBucket(environment);
  const config = { port, host, issuer: environment.REGISTRY_ISSUER, secret, bucket };
  const isChanged = writeRegistryFiles(files, key, config);
  if (isRunning && isChanged) await endRegistry(files);
  let last: number | undefined;
  try {
    if (runningRegistry(files) === undefined) {
      // A bucket is listed for it, which may take long: that waits until the registry runs.
      if (bucket === undefined) last = await collect(files, pinned, log);
      await startRegistry(files, port);
    }
    log.info({ pid: runningRegistry(files), port, adopted: isRunning && !isChanged }, 'the image registry runs');
  } catch (error) {
    log.error({ err: error }, 'the image registry does not start');
    onProgress(`the image registry does not start, and is tried again: ${errorText(error)}`);
  }
  const own = {
    host,
    address: `${LOOPBACK}:${port}`,
    architecture: imageArchitecture(),
    environment: { ...environment, REGISTRY_HOST: host, REGISTRY_SIGNING_KEY: key },
  };
  const store = bucket === undefined ? folderStore(files) : new BucketStore(bucket);
  const parts = { environment, files, store, host, port, key, last, pinned, holds, limitMb, log };
  const { parts: seen, close } = watched(parts, bucket === undefined ? () => roomIn(files.folder) : undefined);
  return {
    ...own,
    ...seen,
    close: async () => {
      await close();
      await endRegistry(files);
    },
  };
}

/** What looks after a registry that runs. */
interface StoreParts extends Omit<WatchOptions, 'address' | 'keys'> {
  readonly files: RegistryFiles;
  readonly port: number;
  readonly key: RegistryKey;
}

/** Its users have their room, and what has no name is collected. `room`: of its disk; a bucket always has some. */
function watched({ port, key, files, ...options }: StoreParts, room: HostedRegistry['room'] = async () => 'enough') {
  const keeper = keepRegistry({ files, port, room, log: options.log });
  const watch = watchStore({ ...options, address: { host: LOOPBACK, port }, keys: ownKeys(key) });
  const close = async () => {
    await watch.close();
    await keeper.close();
  };
  return { parts: { room, usage: watch.usage, barrier: watch.barrier, asksHolders: true }, close };
}

/**
 * Gives space back before anybody can write. Resolves with when that was; undefined: it is tried again while the
 * registry runs.
 */
async function collect(files: RegistryFiles, pinned: Pinned, log: Log): Promise<number | undefined> {
  const now = Date.now();
  if (!existsSync(files.store)) return now;
  try {
    log.info(await collectGarbage(folderStore(files), { now, pinned }), 'images without a name were collected');
    return now;
  } catch (error) {
    log.warn({ err: error }, 'images without a name could not be collected');
    return undefined;
  }
}

/** Ends what a killed platform left. Resolves with whether it ran. */
export async function stopOwnRegistry(dataDir: string): Promise<boolean> {
  const files = registryFiles(dataDir);
  return existsSync(files.folder) && endRegistry(files);
}

/** What is there of it on this machine, for the operator. */
export function lookAtRegistry(dataDir: string) {
  const files = registryFiles(dataDir);
  const pid = runningRegistry(files);
  return {
    program: registryProgram(),
    pid,
    address: pid === undefined ? undefined : `${LOOPBACK}:${writtenPort(files)}`,
  };
}
