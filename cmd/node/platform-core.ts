/** What all services of `troupe up` are opened from: its options, and the parts that they share. */
import type { Registry } from 'prom-client';
import { type PullAuth, pullAuth } from '../../actors/auth/registry/pull-credential.ts';
import { ensureAdmin } from '../../actors/auth/users/users.ts';
import { NOTIFICATIONS_STREAM } from '../../proto/notify/notification.ts';
import type { Engine } from '../../proto/ports/engine.ts';
import type { HostedRegistry, LocalRegistry } from '../../proto/ports/local-registry.ts';
import type { Log } from '../../proto/ports/log.ts';
import type { MetricsSource } from '../../proto/ports/metrics-source.ts';
import type { DbConnection } from '../../storage/db.ts';
import { timingsOf } from '../../supervision/placement/index.ts';
import type { FrontProxies } from '../../transports/gateway/listeners.ts';
import type { LiveCertificate } from '../../transports/gateway/tls/live-certificate.ts';
import type { Environment, Ports } from '../config/config.ts';
import type { Secrets } from '../config/data-dir.ts';
import { platformKeys } from '../config/platform-keys.ts';
import { directoryOf } from './mapped-hosts.ts';
import { formerNode, openMembership, ROLES } from './membership.ts';
import { CLOCK, openDatabase, openRuntime, type ProcessDatabase, type Runtime } from './runtime.ts';
import type { Teardown } from './shutdown.ts';

/** What the platform is built from. */
export interface PlatformOptions {
  readonly environment: Environment;
  readonly secrets: Secrets;
  readonly database: DbConnection;
  /** Where the process keeps its name in the cluster for the next start: membership.ts. */
  readonly nodeFile?: string | undefined;
  /** Makes the engine; `installation` labels what belongs to this database. */
  readonly engine: (installation: string, pullAuth: PullAuth | undefined) => Promise<Engine>;
  /** Makes what measures its containers; without it only the machine is measured. */
  readonly metrics?: (installation: string) => MetricsSource;
  /** Adds numbers of who starts the platform to its own. */
  readonly onMetrics?: (registry: Registry) => void;
  /** Time between two measurements, ms. Default 5 s. */
  readonly refreshMs?: number;
  /** Folders on the disks that the monitor measures. Default `/`. */
  readonly diskPaths?: readonly string[];
  readonly domain: string;
  /**
   * The registry that has the platform's name, which REGISTRY_HOST of `environment` says; undefined: there is none. Of
   * one that another process keeps, only where it is.
   */
  readonly registry?: (LocalRegistry & Partial<HostedRegistry>) | undefined;
  readonly host: string;
  readonly ports: Ports;
  /** Of the platform's own host names. */
  readonly certificate: Pick<LiveCertificate, 'context' | 'authorityFile'>;
  /** Proxies in front of the gateway and of the services. */
  readonly proxies?: FrontProxies | undefined;
  /** Takes lines of the gateway's access log; undefined: there is none. */
  readonly accessLog: ((line: string) => void) | undefined;
  /** Whether the gateway keeps responses. */
  readonly isCaching: boolean;
  readonly log: Log;
  /** Whether the start was told to stop: waiting for other servers ends then. */
  readonly isLeaving?: () => boolean;
  /** Lines for the person who waits. */
  readonly onProgress: (line: string) => void;
}

/** How long requests in flight may take at the end, ms. */
export const DRAIN_MS = 5000;

/** What all services of the platform are opened from. */
export interface PlatformCore extends ProcessDatabase, Runtime {
  readonly options: PlatformOptions;
  readonly teardown: Teardown;
  /** Labels what belongs to this database. */
  readonly installation: string;
  readonly keys: Awaited<ReturnType<typeof platformKeys>>['keys'];
  readonly engine: Engine;
  readonly membership: Awaited<ReturnType<typeof openMembership>>;
  /**
   * Makes the first administrator when there is none. `generated` is the password if it was generated now: show it at
   * once, it is kept nowhere. Not part of the start: of one that fails nobody would read it, and the next start would
   * find the user there.
   */
  readonly admin: () => Promise<{ readonly username: string; readonly generated: string | null }>;
}

/** What all services need: database, bus, actors, the engine, and this process as a member of the cluster. */
export async function openCore(options: PlatformOptions, teardown: Teardown): Promise<PlatformCore> {
  const { environment, secrets, log, onProgress } = options;
  const former = options.nodeFile === undefined ? undefined : formerNode(options.nodeFile);
  const database = await openDatabase(options.database, { name: 'platform', environment, log, teardown, former });
  const { db, applied } = database;
  if (applied > 0) onProgress(`database brought up to date (${applied} migrations)`);
  const { installation, keys } = await platformKeys(db, secrets.encryptionKey);
  const admin = async () => {
    const { generated } = await ensureAdmin(db, environment.ADMIN_USERNAME, environment.ADMIN_PASSWORD);
    return { username: environment.ADMIN_USERNAME, generated };
  };
  if (environment.ADMIN_PASSWORD !== undefined) await admin();
  const runtime = await openRuntime({
    database,
    environment,
    secret: secrets.jwtSecret,
    name: 'troupe',
    busName: `troupe ${installation}`,
    waitsForBus: true,
    log,
    teardown,
    onProgress,
    isLeaving: options.isLeaving ?? (() => false),
  });
  const { bus, besides, system, metrics } = runtime;
  options.onMetrics?.(metrics.registry);
  const pulls = pullAuth({ db, clock: CLOCK, jwtSecret: secrets.jwtSecret }, environment.REGISTRY_HOST);
  const engine = await options.engine(installation, pulls);
  besides.add('engine', () => engine.close());
  const membership = await openMembership({
    shards: environment.CLUSTER_SHARDS,
    weight: environment.CLUSTER_WEIGHT,
    // Whoever knows no authority orders nothing, and leaves that to the others.
    roles: directoryOf(environment) === undefined ? ROLES : [...ROLES, 'certificates'],
    timings: timingsOf(environment.CLUSTER_HEARTBEAT),
    db,
    nodeFile: options.nodeFile,
    system,
    bus,
    log,
    onProgress,
    isShared: environment.NATS_URL !== undefined,
    isLeaving: options.isLeaving,
    secret: secrets.jwtSecret,
  });
  teardown.add('membership', () => membership.leave());
  await bus.ensureStream(NOTIFICATIONS_STREAM);
  return { ...database, ...runtime, options, teardown, installation, keys, engine, membership, admin };
}
