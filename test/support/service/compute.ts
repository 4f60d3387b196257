/** The real compute service on a real database, with an engine and shells in this process, called as a transport calls it. */
import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { z } from 'zod';
import type { ComputeDeps } from '../../../actors/compute/deps.ts';
import { startCompute } from '../../../actors/compute/service.ts';
import type { TokenWatch } from '../../../proto/auth/tokens.ts';
import {
  computeSocket,
  createContainer,
  createSshKey,
  getContainer,
  listContainers,
  logs,
  terminal,
} from '../../../proto/compute/endpoints.ts';
import type { AnyEndpoint, Caller, CallOf, Endpoint, ReplyOf } from '../../../proto/endpoint.ts';
import { type ErrorCode, Refusal } from '../../../proto/errors.ts';
import { newId } from '../../../proto/ids.ts';
import { decodeNotification } from '../../../proto/notify/notification.ts';
import type { Bus } from '../../../proto/ports/bus.ts';
import type { Clock } from '../../../proto/ports/clock.ts';
import type { Engine, ImageCatalog } from '../../../proto/ports/engine.ts';
import type { Log } from '../../../proto/ports/log.ts';
import type { Service } from '../../../proto/service.ts';
import { streamStore } from '../../../storage/bus/store.ts';
import { containerById } from '../../../storage/compute/containers.ts';
import type { Db } from '../../../storage/db.ts';
import { start, stats, stop, stopped } from '../../../supervision/index.ts';
import type { Cluster } from '../../../supervision/placement/index.ts';
import { check } from '../../../transports/api/read.ts';
import { embeddedBus } from '../../../transports/bus/embedded.ts';
import { silentLog, testDatabase } from '../database/database.ts';
import { type FakeShells, fakeShells } from '../engine/fake-shells.ts';
import { type MemoryEngine, type MemoryEngineOptions, memoryEngine } from '../engine/memory-engine.ts';
import type { Cleanup } from '../temp.ts';
import { until } from '../until.ts';
import { FakeSocket } from './fake-socket.ts';
import { testHome } from './one-node.ts';

export const REGISTRY = 'registry.test:5000';
export const DOMAIN = 'cloud.test';
export const PLATFORM_KEY = 'ssh-ed25519 PLATFORM platform';

/** A clock that the test moves on. */
export interface MovableClock extends Clock {
  advance(ms: number): void;
}

export function movableClock(): MovableClock {
  let ahead = 0;
  return {
    now: () => Date.now() + ahead,
    advance: (ms) => {
      ahead += ms;
    },
  };
}

/** A log whose lines are kept, as `level message` with their fields. */
export interface KeptLog extends Log {
  readonly lines: { readonly level: string; readonly message: string; readonly fields: object }[];
}

export function keptLog(): KeptLog {
  const lines: KeptLog['lines'] = [];
  const at = (level: string) => (fields: object, message: string) => void lines.push({ level, message, fields });
  const log: KeptLog = {
    lines,
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    child: () => log,
  };
  return log;
}

/** Input of a call as it comes from outside, before any schema. */
export interface Input {
  readonly params?: Record<string, string>;
  readonly query?: Record<string, string>;
  readonly body?: unknown;
  readonly address?: string;
  readonly basic?: { readonly username: string; readonly password: string } | undefined;
}

/** Calls an endpoint: input through its schemas, and the reply through its own, which it must fit without a field too many. */
export async function call<E extends Endpoint>(
  service: Service,
  endpoint: E,
  caller: Caller | undefined,
  input: Input = {},
): Promise<ReplyOf<E>> {
  const reply = await service.call(endpoint, callFrom(endpoint, caller, input));
  if (endpoint.reply !== undefined) assert.deepEqual(endpoint.reply.parse(reply), reply);
  return asReply(endpoint, reply);
}

/** The one cast: the reply was put through exactly this endpoint's schema. */
function asReply<E extends Endpoint>(_endpoint: E, reply: unknown): ReplyOf<E> {
  return reply as ReplyOf<E>;
}

/** Input read as transports/api reads it. Throws Refusal. */
export function callFrom(endpoint: AnyEndpoint, caller: Caller | undefined, input: Input = {}): CallOf<AnyEndpoint> {
  const { params = {}, query = {}, body, address = '192.0.2.1', basic } = input;
  return {
    caller,
    params: endpoint.params === undefined ? params : check(endpoint.params, params, 'path'),
    query: endpoint.query === undefined ? undefined : check(endpoint.query, query, 'query'),
    body: endpoint.body === undefined ? undefined : check(endpoint.body, body, 'body'),
    basic,
    address,
    requestId: 'test',
  };
}

/** Asserts that `work` is refused with `code`, and returns the refusal. */
export async function refused(code: ErrorCode, work: Promise<unknown>): Promise<Refusal> {
  try {
    await work;
  } catch (error) {
    assert.ok(error instanceof Refusal, String(error));
    assert.equal(error.code, code, error.message);
    return error;
  }
  assert.fail(`it was not refused, expected ${code}`);
}

/** Somebody who is logged in; the token lives an hour. */
export function someone(username = 'ann', expiresInSeconds = 3600): Caller {
  return {
    kind: 'session',
    userId: newId(),
    username,
    isAdmin: false,
    tokenId: newId(),
    expiresAt: Math.floor(Date.now() / 1000) + expiresInSeconds,
  };
}

/** A new Ed25519 key in OpenSSH's form. */
export function publicKey(comment = 'ann@laptop'): string {
  const { x = '' } = generateKeyPairSync('ed25519').publicKey.export({ format: 'jwk' });
  const parts = [Buffer.from('ssh-ed25519'), Buffer.from(x, 'base64url')];
  const blob = Buffer.concat(
    parts.flatMap((part) => {
      const length = Buffer.alloc(4);
      length.writeUInt32BE(part.byteLength);
      return [length, part];
    }),
  );
  return `ssh-ed25519 ${blob.toString('base64')} ${comment}`.trim();
}

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

/** A database of which the test can make every statement fail. */
export interface FailingDb extends Db {
  failure: Error | undefined;
}

export function failingDb(db: Db): FailingDb {
  const guarded = <T>(work: () => Promise<T>): Promise<T> =>
    failing.failure === undefined ? work() : Promise.reject(failing.failure);
  const failing: FailingDb = {
    failure: undefined,
    many: (schema, text, values) => guarded(() => db.many(schema, text, values)),
    one: (schema, text, values) => guarded(() => db.one(schema, text, values)),
    run: (text, values) => guarded(() => db.run(text, values)),
    script: (text) => guarded(() => db.script(text)),
    notify: (channel, payload) => guarded(() => db.notify(channel, payload)),
    ping: () => guarded(() => db.ping()),
    tx: (work, options) => guarded(() => db.tx(work, options)),
    listen: (channel, handler) => db.listen(channel, handler),
    close: () => db.close(),
  };
  return failing;
}

export interface WorldOptions {
  readonly engine?: MemoryEngineOptions;
  readonly defaultImage?: string;
  readonly registryAuth?: ComputeDeps['registryAuth'];
  readonly lingerMs?: number;
  readonly sshAddress?: ComputeDeps['sshAddress'];
  readonly catalog?: ImageCatalog;
  readonly takenPorts?: readonly number[];
  /** Stands before the engine, for what its own hands cannot play. */
  readonly wrapEngine?: (engine: MemoryEngine) => Engine;
}

/** One running service and what it stands on. */
export class World {
  readonly db: FailingDb;
  readonly engine: MemoryEngine;
  readonly shells: FakeShells = fakeShells();
  readonly clock: MovableClock = movableClock();
  readonly log: KeptLog = keptLog();
  readonly tokens: FakeTokens = fakeTokens();
  readonly #options: WorldOptions;
  readonly #realDb: Db;
  #bus: Bus | undefined;
  #home: Cluster | undefined;
  #service: Service | undefined;
  #system = start();

  constructor(db: Db, options: WorldOptions) {
    this.#realDb = db;
    this.db = failingDb(db);
    this.engine = memoryEngine(options.engine);
    this.#options = options;
  }

  get service(): Service {
    assert.ok(this.#service);
    return this.#service;
  }

  /** Starts the service, as a cluster of one node. */
  async start(): Promise<void> {
    this.#system = start({ log: this.log });
    this.#bus = embeddedBus({ store: streamStore(this.#realDb), log: silentLog });
    const parts = { system: this.#system, db: this.#realDb, bus: this.#bus, log: silentLog, roles: ['compute'] };
    this.#home = testHome(parts);
    this.#service = await startCompute(this.#system, {
      db: this.db,
      home: this.#home,
      engine: this.#options.wrapEngine?.(this.engine) ?? this.engine,
      shells: this.shells,
      tokens: this.tokens,
      ...(this.#options.lingerMs === undefined ? {} : { lingerMs: this.#options.lingerMs }),
      ...(this.#options.sshAddress === undefined ? {} : { sshAddress: this.#options.sshAddress }),
      log: this.log,
      clock: this.clock,
      domain: DOMAIN,
      registryHost: REGISTRY,
      ...(this.#options.registryAuth === undefined ? {} : { registryAuth: this.#options.registryAuth }),
      defaultImage: this.#options.defaultImage ?? this.engine.baseImage,
      platformKey: PLATFORM_KEY,
      ...(this.#options.catalog === undefined ? {} : { catalog: this.#options.catalog }),
      ...(this.#options.takenPorts === undefined ? {} : { takenPorts: this.#options.takenPorts }),
    });
    await this.#home.join();
  }

  /** Ends the service; the database and the engine go on. */
  async stop(): Promise<void> {
    await this.#home?.leave();
    stop(this.#system);
    await stopped(this.#system);
    await this.#bus?.close();
  }

  /** How many actors of a kind are alive. */
  alive(kind: string): number {
    return stats(this.#system).kinds[kind]?.alive ?? 0;
  }

  /** How many messages actors of a kind have handled. */
  handled(kind: string): number {
    return stats(this.#system).kinds[kind]?.handled ?? 0;
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

  async connect(endpoint: AnyEndpoint, caller: Caller, input: Input = {}): Promise<FakeSocket> {
    return FakeSocket.open(await this.service.connect(endpoint, callFrom(endpoint, caller, input)));
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

  logs(caller: Caller, id: string, tail?: string, since?: string): Promise<FakeSocket> {
    const query = { ...(tail === undefined ? {} : { tail }), ...(since === undefined ? {} : { since }) };
    return this.connect(logs, caller, { params: { id }, query });
  }
}

/** A world of one test, gone with it. */
export async function openWorld(t: Cleanup, options: WorldOptions = {}): Promise<World> {
  const database = await testDatabase();
  const world = new World(database.db, options);
  t.after(async () => {
    world.db.failure = undefined;
    await world.stop();
    await world.engine.close();
    await database.close();
  });
  await world.start();
  return world;
}

/** Lets everything that is due happen: turns of the event loop, for what must not happen. */
export async function turns(count = 50): Promise<void> {
  for (let i = 0; i < count; i++) await new Promise((resolve) => setImmediate(resolve));
}
