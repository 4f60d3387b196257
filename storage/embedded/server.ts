import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { errorText } from '../../lib/errors.ts';
import { backoffMs } from '../../lib/waiting.ts';
import type { Ending } from '../../proto/ports/ending.ts';
import type { Log } from '../../proto/ports/log.ts';
import { findBinaries } from './binaries.ts';
import { CLUSTER_USER, clusterVersion, ensureCluster, socketDirectory } from './cluster.ts';
import { createDatabase, DATABASE, type EmbeddedConnection, othersConnected } from './connections.ts';
import { existingHome, serverHome } from './home.ts';
import {
  findPostmaster,
  type Postmaster,
  type PostmasterOptions,
  startPostmaster,
  stopPostmaster,
} from './postmaster.ts';
import { claim, exclusively, isIdentityAlive, newIdentity, readIdentity, release, runsIn } from './processes.ts';
import { mayNeedUpgrade, upgradeCluster } from './upgrade.ts';
import { serverUser } from './user.ts';

export { noteGoodStart } from './upgrade.ts';
export { EmbeddedError } from './user.ts';

interface EmbeddedOptions {
  readonly dataDir: string;
  readonly log: Log;
  /** Lines for a person who waits (the first start takes some seconds). */
  readonly onProgress?: (line: string) => void;
  /** What such a person should still read afterwards. Default: `onProgress`. */
  readonly onNotice?: (line: string) => void;
  /** Settings over our own (tests turn fsync off). They hold when this call starts the server, not when it attaches. */
  readonly settings?: Readonly<Record<string, string>>;
  /** The version of a new database, which is not upgraded (tests make old ones). Default: the one Troupe brings. */
  readonly major?: number;
  /** Called when this call has begun to start the server, which takes a moment to take connections. */
  readonly onBegun?: (() => void) | undefined;
}

/**
 * Runs the PostgreSQL of a data directory, or attaches to the one that runs already: a server outlives a killed parent,
 * and every process with the same data directory shares one. Of several starters at once one starts it. Rejects
 * EmbeddedError.
 */
export async function startEmbedded(options: EmbeddedOptions): Promise<EmbeddedServer> {
  const { log, onProgress = () => undefined, onNotice = onProgress } = options;
  const user = await serverUser();
  const home = await serverHome(options.dataDir, user, log);
  const dir = join(home, 'postgres');
  if (options.major === undefined && (await mayNeedUpgrade(home)))
    await exclusively(join(home, LOCK), () => upgradeCluster({ home, user, log, onProgress, onNotice }));
  const binaries = await findBinaries({ home, user, major: (await clusterVersion(dir)) ?? options.major });
  await ensureCluster({ home, binaries, user, log, onProgress });
  const server = new EmbeddedServer(home, log, {
    dir,
    socketDir: await socketDirectory(home, user),
    binaries,
    user,
    startLog: join(home, 'postgres-start.log'),
    settings: options.settings ?? {},
    onBegun: options.onBegun,
  });
  await server.begin();
  return server;
}

const LOCK = 'postgres.lock';
const WATCH_MS = 200;
const STOP_GRACE_MS = 30_000;
const BACKOFF = { minMs: 100, maxMs: 10_000 };

export class EmbeddedServer {
  readonly #log: Log;
  readonly #options: PostmasterOptions;
  readonly #lockFile: string;
  readonly #ownerFile: string;
  readonly #identity = newIdentity();
  readonly #exitHandlers = new Set<(event: { restarting: boolean }) => void>();
  readonly #ending = new AbortController();
  #postmaster: Postmaster | undefined;
  #owner = false;
  #watching: Promise<void> = Promise.resolve();
  #stopped: Promise<boolean> | undefined;

  constructor(home: string, log: Log, options: PostmasterOptions) {
    this.#log = log;
    this.#options = options;
    this.#lockFile = join(home, LOCK);
    this.#ownerFile = join(home, 'postgres.owner');
  }

  /** Whether this process looks after the server: it restarts it when it dies, and may stop it. */
  get owner(): boolean {
    return this.#owner;
  }

  get connection(): EmbeddedConnection {
    const { socketDir, port } = this.#postmaster ?? { socketDir: this.#options.socketDir, port: 5432 };
    return { socketDir, port, user: CLUSTER_USER, database: DATABASE };
  }

  async begin(): Promise<void> {
    await this.#ensureRunning();
    await createDatabase(this.connection);
    this.#watching = this.#watch();
  }

  /**
   * Calls `handler` when the server ended although nobody here stopped it; `restarting` tells whether it comes back.
   */
  onExit(handler: (event: { restarting: boolean }) => void): Ending {
    const own = (event: { restarting: boolean }) => handler(event);
    this.#exitHandlers.add(own);
    return {
      close: async () => {
        this.#exitHandlers.delete(own);
      },
    };
  }

  /**
   * Lets go of the server. An owner also shuts it down, unless other troupe processes are connected; with `force`
   * (owner only) even then. Close your own Db first. Resolves with whether the server was stopped. Idempotent.
   */
  stop(options: { force?: boolean } = {}): Promise<boolean> {
    this.#stopped ??= this.#stop(options.force ?? false);
    return this.#stopped;
  }

  async #stop(force: boolean): Promise<boolean> {
    this.#ending.abort();
    await this.#watching;
    if (!this.#owner) return false;
    return exclusively(this.#lockFile, async () => {
      const running = await findPostmaster(this.#options.dir);
      const used = running !== undefined && !force && (await othersConnected(this.connection));
      if (used) this.#log.info({}, 'other processes use the database; it keeps running');
      // Given up before the server ends: whoever sees it end then knows that this was on purpose.
      await release(this.#ownerFile, this.#identity);
      if (running === undefined || used) return false;
      await stopPostmaster(running, this.#options.dir, STOP_GRACE_MS);
      return true;
    });
  }

  async #ensureRunning(): Promise<void> {
    await exclusively(this.#lockFile, async () => {
      this.#postmaster = await startPostmaster(this.#options);
      this.#owner ||= await claim(this.#ownerFile, this.#identity);
    });
    this.#log.info({ pid: this.#postmaster?.pid, owner: this.#owner }, 'database server running');
  }

  /** Looks after the server until stop(): an owner restarts it, others take over from an owner that died. */
  async #watch(): Promise<void> {
    let failures = 0;
    let upSince = Date.now();
    while (await this.#pause(WATCH_MS)) {
      if (this.#postmaster !== undefined && runsIn(this.#postmaster.pid, this.#options.dir)) {
        if (Date.now() - upSince > 60_000) failures = 0;
        continue;
      }
      const owner = await readIdentity(this.#ownerFile);
      // No owner file: the owner stopped the server on purpose.
      const restarting = owner !== undefined;
      if (this.#postmaster !== undefined) {
        this.#log.warn({ restarting }, 'the database server ended');
        for (const handler of this.#exitHandlers) handler({ restarting });
        this.#postmaster = undefined;
      }
      if (!restarting) return;
      if (owner !== this.#identity && isIdentityAlive(owner)) {
        this.#postmaster = await findPostmaster(this.#options.dir);
        continue;
      }
      if (failures > 0 && !(await this.#pause(backoffMs(failures, BACKOFF)))) return;
      failures = Math.min(failures + 1, 10);
      try {
        await this.#ensureRunning();
        upSince = Date.now();
      } catch (error) {
        this.#log.error({ error: errorText(error, 'unknown') }, 'cannot restart the database');
      }
    }
  }

  /** Resolves with false once stop() was called. The timer does not keep the process alive. */
  async #pause(ms: number): Promise<boolean> {
    const { signal } = this.#ending;
    await sleep(ms, undefined, { signal, ref: false }).catch(() => undefined);
    return !signal.aborted;
  }
}

/** What is there of a database: the version that made it, and where its server takes connections while one runs. */
interface FoundEmbedded {
  readonly major: number;
  readonly connection: EmbeddedConnection | undefined;
}

/** Undefined when the folder has no database. Rejects EmbeddedError `not_a_cluster` for a damaged one. */
export async function findEmbedded(dataDir: string): Promise<FoundEmbedded | undefined> {
  const home = await existingHome(dataDir);
  if (home === undefined) return undefined;
  const dir = join(home, 'postgres');
  const major = await clusterVersion(dir);
  if (major === undefined) return undefined;
  const running = await findPostmaster(dir);
  if (running === undefined) return { major, connection: undefined };
  const { socketDir, port } = running;
  return { major, connection: { socketDir, port, user: CLUSTER_USER, database: DATABASE } };
}
