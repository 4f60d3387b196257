/** The registry that comes along: whether `up` runs one, and what the platform is told of it. */
import { existsSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import type { RegistryKey } from '../../../actors/auth/registry/registry-key.ts';
import type { StillHolds } from '../../../actors/auth/registry/registry-rights.ts';
import { errorText } from '../../../lib/errors.ts';
import type { HostedRegistry, LocalRegistry, RegistryRoom } from '../../../proto/ports/local-registry.ts';
import type { Log } from '../../../proto/ports/log.ts';
import { LIBRARY } from '../../../proto/repositories.ts';
import { registryHostOf } from '../../../proto/service-paths.ts';
import { freePort } from '../../../transports/http/listen-error.ts';
import type { Environment } from '../../config/config.ts';
import { imageArchitecture } from '../platform-facts.ts';
import { RegistryBarrier } from './barrier.ts';
import { collectGarbage, keepCollected, type Pinned } from './collect.ts';
import {
  type RegistryFiles,
  registryBucket,
  registryFiles,
  registryKeyOf,
  writeRegistryFiles,
  writtenPort,
} from './files.ts';
import { heldFirst } from './holders.ts';
import { pushTokens, tokenHolders } from './may-push.ts';
import { endRegistry, keepRegistry, registryProgram, runningRegistry, startRegistry } from './process.ts';
import { RegistryQuota } from './quota.ts';

const LOOPBACK = '127.0.0.1';

/**
 * Why `up` runs no registry with these settings, as the end of "no image registry is run: ..."; undefined when it may
 * run one. `dockerHost`: the engine, which has to reach this machine's loopback.
 */
export function whyNoRegistry(environment: Environment, dockerHost: string | undefined): string | undefined {
  if (environment.REGISTRY === 'off') return 'REGISTRY is off';
  if (environment.REGISTRY_ADDRESS !== undefined) return `the one at ${environment.REGISTRY_ADDRESS} is used`;
  if (environment.REGISTRY_HOST !== undefined) return `REGISTRY_HOST names ${environment.REGISTRY_HOST}`;
  if (environment.REGISTRY_SIGNING_KEY !== undefined) return 'REGISTRY_SIGNING_KEY is for one of yours';
  if (environment.COMPUTE_ENGINE !== 'docker') return 'the nodes of a cluster would not reach it';
  if (environment.NATS_URL !== undefined) return 'other nodes of the platform would not reach it';
  if (dockerHost?.startsWith('unix://') === false) return 'the Docker Engine is on another machine';
  return undefined;
}

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
}

/**
 * Starts the registry of a data folder, or adopts the one that a killed platform left. One that does not come up is
 * tried again and again, and the platform goes on. Throws CliError for a damaged key.
 */
export async function openOwnRegistry(options: OwnRegistryOptions): Promise<OwnRegistry> {
  const { environment, dataDir, log, onProgress, pinned, holds } = options;
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
  const parts = { environment, files, host, port, key, last, pinned, holds, log };
  const { parts: seen, close } = bucket === undefined ? withStore(parts) : withoutStore(parts);
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
interface StoreParts extends Pick<OwnRegistryOptions, 'environment' | 'pinned' | 'holds' | 'log'> {
  readonly files: RegistryFiles;
  readonly host: string;
  readonly port: number;
  readonly key: RegistryKey;
  /** When its store was collected. */
  readonly last: number | undefined;
}

/** One whose images are on this machine: its users have their room, and what has no name is collected. */
function withStore({ environment, files, host, port, key, last, pinned, holds, log }: StoreParts) {
  const room = async () => {
    const { bavail, blocks, bsize } = await statfs(files.folder);
    return roomOf(bavail * bsize, blocks * bsize);
  };
  const keeper = keepRegistry({ files, port, room, log });
  const barrier = new RegistryBarrier({ host: LOOPBACK, port });
  const collector = keepCollected({ files, barrier, last, log, pinned });
  const { REGISTRY_USER_MB: most, ADMIN_USERNAME: admin, REGISTRY_ISSUER: issuer } = environment;
  const quota = new RegistryQuota({
    files,
    barrier,
    limit: (owner) => (most === 0 || owner === admin || owner === LIBRARY ? undefined : most * 2 ** 20),
    mayPush: pushTokens(key, host, issuer),
    pinned,
    log,
  });
  barrier.admit = heldFirst(tokenHolders(key, host, issuer), holds, quota.admit, log);
  const close = async () => {
    await collector.close();
    await keeper.close();
  };
  return { parts: { room, usage: (username: string) => quota.usage(username), barrier }, close };
}

/** One whose images are elsewhere, and not seen from here. */
function withoutStore({ environment, files, host, port, key, holds, log }: StoreParts) {
  const keeper = keepRegistry({ files, port, room: async () => 'enough', log });
  const barrier = new RegistryBarrier({ host: LOOPBACK, port });
  const holders = tokenHolders(key, host, environment.REGISTRY_ISSUER);
  barrier.admit = heldFirst(holders, holds, async () => ({}), log);
  return { parts: { barrier }, close: () => keeper.close() };
}

/**
 * Gives space back before anybody can write. Resolves with when that was; undefined: it is tried again while the
 * registry runs.
 */
async function collect(files: RegistryFiles, pinned: Pinned, log: Log): Promise<number | undefined> {
  const now = Date.now();
  if (!existsSync(files.store)) return now;
  try {
    log.info(await collectGarbage(files, { now, pinned }), 'images without a name were collected');
    return now;
  } catch (error) {
    log.warn({ err: error }, 'images without a name could not be collected');
    return undefined;
  }
}

/** A twentieth of the disk is kept free, of a small one a gibibyte, of a large one 20. */
const KEPT = { share: 0.05, least: 2 ** 30, most: 20 * 2 ** 30 } as const;

/** What a disk takes with so many bytes free. */
export function roomOf(free: number, total: number): RegistryRoom {
  const kept = Math.min(KEPT.most, Math.max(KEPT.least, total * KEPT.share));
  if (free >= kept) return 'enough';
  return free >= kept / 4 ? 'little' : 'none';
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
