/** The real compute service on a real database, with an engine and shells in this process, called as a transport calls it. */
import assert from 'node:assert/strict';
import { z } from 'zod';
import type { ComputeDeps } from '../../../actors/compute/deps.ts';
import type { TokenWatch } from '../../../proto/auth/tokens.ts';
import {
  computeSocket,
  createContainer,
  createSshKey,
  getContainer,
  listContainers,
  terminal,
} from '../../../proto/compute/endpoints.ts';
import { execContainer } from '../../../proto/compute/exec.ts';
import { logs } from '../../../proto/compute/logs.ts';
import type { AnyEndpoint, Caller, Endpoint, ReplyOf, Service } from '../../../proto/endpoint.ts';
import { decodeNotification } from '../../../proto/notify/notification.ts';
import type { Engine } from '../../../proto/ports/engine.ts';
import { containerById } from '../../../storage/compute/containers.ts';
import { stats } from '../../../supervision/index.ts';
import { type MovableClock, movableClock } from '../clock.ts';
import { type TestDatabase, testDatabase } from '../database/database.ts';
import type { FailingDb } from '../database/failing-db.ts';
import { type FakeShells, fakeShells } from '../engine/fake-shells.ts';
import { type MemoryEngine, type MemoryEngineOptions, memoryEngine } from '../engine/memory-engine.ts';
import { type KeptLog, keptLog } from '../log.ts';
import { publicKey } from '../ssh/public-key.ts';
import type { Cleanup } from '../temp.ts';
import { until } from '../until.ts';
import { call, type Input } from './calls.ts';
import type { FakeSocket } from './fake-socket.ts';
import { type OpenService, openService } from './open-service.ts';

export const REGISTRY = 'registry.test:5000';
export const PLATFORM_KEY = 'ssh-ed25519 PLATFORM platform';

/** Tokens that a test revokes. */
export interface FakeTokens extends TokenWatch {
  /** Ends all that depends on the token and is watched. */
  revoke(tokenId: string): void;
  /** Watches that are open. */
  readonly watched: number;
}

export function fakeTokens(): FakeTokens {
  const watches = new Set<{ readonly tokenId: string; readonly onEnd: (reason: string) => void }>();
  return {
    get watched() {
      return watches.size;
    },
    revoke(tokenId) {
      for (const one of [...watches]) if (one.tokenId === tokenId) one.onEnd('token revoked');
    },
    watch({ tokenId }, _scope, onEnd) {
      const one = { tokenId, onEnd };
      watches.add(one);
      return () => void watches.delete(one);
    },
  };
}

const PACE = 20;

type Replaced =
  | 'commands'
  | 'commandLingerMs'
  | 'defaultImage'
  | 'registryHost'
  | 'registryAuth'
  | 'lingerMs'
  | 'sshAddress'
  | 'catalog'
  | 'takenPorts'
  | 'unheardMs';

/** What takes the place of the usual parts. */
export interface ComputeOptions extends Partial<Pick<ComputeDeps, Replaced>> {
  readonly engine?: MemoryEngineOptions;
  /** As for nodes. Default 20: what is tried again after seconds is soon. */
  readonly pace?: number;
  /** Stands before the engine, for what its own hands cannot play. */
  readonly wrapEngine?: (engine: MemoryEngine) => Engine;
}

/** One running service and what it stands on; it can be ended and started again. */
export class ComputeUnderTest {
  readonly database: TestDatabase;
  readonly engine: MemoryEngine;
  readonly shells: FakeShells = fakeShells();
  readonly clock: MovableClock = movableClock();
  readonly log: KeptLog = keptLog();
  readonly tokens: FakeTokens = fakeTokens();
  readonly #t: Cleanup;
  readonly #options: ComputeOptions;
  #opened: OpenService | undefined;

  constructor(t: Cleanup, database: TestDatabase, options: ComputeOptions) {
    this.#t = t;
    this.database = database;
    this.engine = memoryEngine(options.engine);
    this.#options = options;
  }

  get #running(): OpenService {
    assert.ok(this.#opened);
    return this.#opened;
  }

  get service(): Service {
    return this.#running.service;
  }

  /** Of the service that was started last. */
  get db(): FailingDb {
    return this.#running.db;
  }

  /** Starts the service, as a cluster of one node. */
  async start(): Promise<void> {
    const { engine: _, wrapEngine, pace = PACE, ...options } = this.#options;
    const { database, clock, log, engine, shells, tokens } = this;
    const parts = { shells, tokens, registryHost: REGISTRY, defaultImage: engine.baseImage, unheardMs: 1000 / pace };
    const overrides = () => ({ ...parts, engine: wrapEngine?.(engine) ?? engine, ...options });
    this.#opened = await openService(this.#t, 'compute', overrides, { database, clock, log, pace });
  }

  /** Ends the service; the database and the engine go on. */
  stop(): Promise<void> {
    return this.#running.end();
  }

  /** How many actors of a kind are alive. */
  alive(kind: string): number {
    return stats(this.#running.system).kinds[kind]?.alive ?? 0;
  }

  /** How many messages actors of a kind have handled. */
  handled(kind: string): number {
    return stats(this.#running.system).kinds[kind]?.handled ?? 0;
  }

  call<E extends Endpoint>(endpoint: E, caller: Caller, input: Input = {}): Promise<ReplyOf<E>> {
    return call(this.service, endpoint, caller, input);
  }

  /** A by-id call. */
  on<E extends Endpoint>(endpoint: E, caller: Caller, id: string): Promise<ReplyOf<E>> {
    return this.call(endpoint, caller, { params: { id } });
  }

  /** Adds a key and returns its id. */
  async key(caller: Caller, text = publicKey()): Promise<number> {
    return (await this.call(createSshKey, caller, { body: { name: 'laptop', public_key: text } })).id;
  }

  /** Creates a container with a key of its own and returns its id. */
  async create(caller: Caller, body: Record<string, unknown> = {}): Promise<string> {
    const ssh_key_ids = body.ssh_key_ids ?? [await this.key(caller)];
    return (await this.call(createContainer, caller, { body: { name: 'box', ...body, ssh_key_ids } })).id;
  }

  /** The same, and waits until it runs. */
  async running(caller: Caller, body: Record<string, unknown> = {}): Promise<string> {
    const id = await this.create(caller, body);
    await this.reaches(caller, id, 'running');
    return id;
  }

  /** Waits until a container runs, no image waits, and its health is as wanted; its view. */
  healthBecomes(caller: Caller, id: string, wanted: string) {
    return until(
      async () => {
        const view = await this.view(caller, id);
        return view.status === 'running' && view.next_image === undefined && view.health === wanted ? view : undefined;
      },
      { what: `it runs and is ${wanted}`, timeoutMs: 60_000 },
    );
  }

  view(caller: Caller, id: string) {
    return this.on(getContainer, caller, id);
  }

  async list(caller: Caller) {
    return (await this.call(listContainers, caller)).containers;
  }

  /** Waits until the container has a status, and returns its view. */
  async reaches(caller: Caller, id: string, status: string, timeoutMs = 15_000) {
    let last = '';
    try {
      return await until(
        async () => {
          const view = await this.view(caller, id);
          last = `${view.status} ${(await this.reason(id)) ?? ''}`;
          return view.status === status ? view : undefined;
        },
        { timeoutMs },
      );
    } catch (error) {
      throw new Error(`${id} is ${last}, not ${status}`, { cause: error });
    }
  }

  /** Why the container is as it is, as its row says; null for no special reason. */
  async reason(id: string): Promise<string | null | undefined> {
    return (await containerById(this.db, id))?.statusReason;
  }

  /** The notifications on their way to a user, as `title: message`, oldest first. */
  async notices(userId: string): Promise<string[]> {
    const rows = await this.db.many(
      z.object({ data: z.instanceof(Buffer) }),
      'select data from outbox where subject = $1 order by id',
      [`notify.${userId}`],
    );
    return rows.map(({ data }) => decodeNotification(data)).map(({ title, message }) => `${title}: ${message}`);
  }

  connect(endpoint: AnyEndpoint, caller: Caller, input: Input = {}): Promise<FakeSocket> {
    return this.#running.connect(endpoint, caller, input);
  }

  /** A connection to /compute/ws that has its list. */
  async updates(caller: Caller): Promise<FakeSocket> {
    const socket = await this.connect(computeSocket, caller);
    await until(() => socket.texts.length > 0, { what: 'the list' });
    return socket;
  }

  terminal(caller: Caller, id: string, session?: string): Promise<FakeSocket> {
    return this.connect(terminal, caller, { params: { id }, ...(session === undefined ? {} : { query: { session } }) });
  }

  exec(caller: Caller, id: string, query: Input['query'] & object): Promise<FakeSocket> {
    return this.connect(execContainer, caller, { params: { id }, query });
  }

  logs(caller: Caller, id: string, tail?: string, since?: string): Promise<FakeSocket> {
    const query = { ...(tail === undefined ? {} : { tail }), ...(since === undefined ? {} : { since }) };
    return this.connect(logs, caller, { params: { id }, query });
  }
}

/** The service of one test, gone with it. */
export async function openCompute(t: Cleanup, options: ComputeOptions = {}): Promise<ComputeUnderTest> {
  const database = await testDatabase();
  const compute = new ComputeUnderTest(t, database, options);
  t.after(async () => {
    await compute.stop();
    await compute.engine.close();
    await database.close();
  });
  await compute.start();
  return compute;
}
