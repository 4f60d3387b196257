/**
 * The interfaces handed between rooms. An actor never imports a socket, an engine or a clock: `cmd` builds the real
 * one and hands it in under one of these names. Each has one conformance suite under test/, run on every
 * implementation.
 */
import type { Duplex } from 'node:stream';

/** Milliseconds since the Unix epoch; tests hand in one they can move. */
export interface Clock {
  now(): number;
}

/** Structured log. Fields first, then a short sentence. Secrets never go in: redaction is a second defence only. */
export interface Log {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
  /** A log that adds `fields` to every line. */
  child(fields: object): Log;
}

// ---------------------------------------------------------------------------------------------------------------- bus

/** Ends what was begun: a subscription, a watch, a consumer. Resolves once no handler of it runs any more. */
export interface Ending {
  close(): Promise<void>;
}

/** One message as delivered. `data` belongs to the receiver. */
export interface BusMessage {
  readonly subject: string;
  readonly data: Uint8Array;
  /** Where an answer to `request` goes; absent on plain publishes. */
  readonly reply?: string;
}

/** Limits of a stream (interface section 6.1): the oldest messages go first when one is exceeded. */
export interface StreamConfig {
  readonly name: string;
  /** Subject patterns with `*` (one token) and `>` (the rest). */
  readonly subjects: readonly string[];
  readonly maxMessages: number;
  readonly maxBytes: number;
  readonly maxAgeMs: number;
  /** Within this window a repeated `msgId` is acknowledged as a duplicate and not stored again. */
  readonly duplicateWindowMs: number;
}

/** A durable consumer: delivery starts with the oldest message (deliver policy all), each must be acknowledged. */
export interface ConsumerConfig {
  readonly durable: string;
  readonly filter?: string;
  readonly ackWaitMs: number;
  readonly maxDeliver: number;
  /** Most messages handed out and not yet acknowledged. */
  readonly maxAckPending: number;
  /**
   * How many batches the handler may have at once, in order, of a few megabytes; default 1: the next comes when the one
   * before was handled.
   */
  readonly batchesAtOnce?: number;
}

/** A message of a stream. Exactly one of ack, nak or term ends this delivery; none within `ackWaitMs` redelivers it. */
export interface StreamMessage extends BusMessage {
  readonly seq: number;
  /** 1 on the first delivery. */
  readonly deliveryCount: number;
  /** The publisher's id of the message, if it gave one. */
  readonly msgId?: string | undefined;
  /**
   * When the stream took the message, Unix ms. With `seq` it names the message for ever: a broker that lost its store
   * counts anew.
   */
  readonly storedAt?: number;
  ack(): Promise<void>;
  /** Redeliver, not before `delayMs` from now. */
  nak(delayMs?: number): Promise<void>;
  /** Give up: never redeliver, keep as a dead letter with `reason`. */
  term(reason: string): Promise<void>;
}

/** A key-value entry; `revision` rises with every write in the bucket. */
export interface KvEntry {
  readonly key: string;
  readonly value: Uint8Array;
  readonly revision: number;
}

/** A bucket whose entries expire `ttlMs` after their last write. */
export interface Kv {
  get(key: string): Promise<KvEntry | undefined>;
  /** Writes if absent. Returns the revision, or undefined when the key exists. */
  create(key: string, value: Uint8Array): Promise<number | undefined>;
  /** Compare-and-set. Returns the new revision, or undefined when `revision` is not the current one. */
  update(key: string, value: Uint8Array, revision: number): Promise<number | undefined>;
  put(key: string, value: Uint8Array): Promise<number>;
  /** Deletes; with `revision`, only when it is the current one. Returns whether it was deleted. */
  delete(key: string, revision?: number): Promise<boolean>;
  keys(): Promise<string[]>;
}

/**
 * What joins parts and nodes. Core messages (publish, request) are at most once; streams are at least once and survive
 * a restart. Two implementations, one contract suite (design.md, section 3).
 */
export interface Bus {
  publish(subject: string, data: Uint8Array): void;
  /**
   * `queue`: of all subscribers with one queue name, one gets each message. `drains`: closing it first hands out what
   * was on its way to us (a broker that does not answer is waited for at most a second); who sends a request later
   * hears `no_responders`.
   */
  subscribe(
    subject: string,
    handler: (message: BusMessage) => void,
    options?: { queue?: string; drains?: boolean },
  ): Ending;
  /** Rejects with BusError `timeout` or `no_responders`. */
  request(subject: string, data: Uint8Array, timeoutMs: number): Promise<Uint8Array>;
  /** Creates the stream, or changes it to this configuration. Idempotent. */
  ensureStream(config: StreamConfig): Promise<void>;
  /**
   * Stores the message; resolves once it is stored as durably as the broker does. Rejects with BusError `no_stream`
   * when no stream has the subject, and `unavailable` when that could not be done in time: it may be stored all the
   * same, so try again under the same `msgId`, which then may count as a duplicate.
   */
  append(subject: string, data: Uint8Array, options?: { msgId?: string }): Promise<{ seq: number; duplicate: boolean }>;
  /** Hands out messages in batches of at most `maxAckPending`; a handler that throws naks with a delay. */
  consume(
    stream: string,
    config: ConsumerConfig,
    handler: (batch: readonly StreamMessage[]) => Promise<void>,
  ): Promise<Ending>;
  kv(bucket: string, options: { ttlMs: number }): Promise<Kv>;
  close(): Promise<void>;
}

/** What can go wrong on a bus, by code. */
export type BusErrorCode =
  | 'timeout'
  | 'no_responders'
  | 'no_stream'
  | 'closed'
  | 'unavailable' // the broker or the store is away, or overloaded: try again
  | 'refused' // the broker refuses this as it is set up: trying again does not help
  | 'too_large';

/** The one error a Bus rejects with. */
export class BusError extends Error {
  readonly code: BusErrorCode;
  constructor(code: BusErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'BusError';
    this.code = code;
  }
}

// ------------------------------------------------------------------------------------------------------------- engine

/** What a container should be. Idempotent to apply: the same spec twice makes one container. */
export interface ContainerSpec {
  /** The platform's id of the container (proto/ids.ts). */
  readonly id: string;
  readonly userId: string;
  /** Name the container sees as its own. */
  readonly hostname: string;
  /** An image reference, or the engine's base image when it equals `Engine.baseImage`. */
  readonly image: string;
  readonly cpus: number;
  /** What its machine must be, where there is a choice. */
  readonly architecture?: 'arm64' | 'amd64';
  readonly memoryMb: number;
  readonly storageGb: number;
  /** Absolute paths kept across stop, start and re-creation. */
  readonly mountPaths: readonly string[];
  /** Mount paths that held data before: where it is gone, and the container too, `create` rejects `data_gone`. */
  readonly dataPaths?: readonly string[];
  /** OpenSSH public keys that may log in, the platform's own among them. Rewritten at every start. */
  readonly authorizedKeys: readonly string[];
  /**
   * Make a stopped container anew, around the same data, when its image's tag has come to name another image since.
   * Without it, what a container has outside its mount paths is kept.
   */
  readonly followImage?: boolean;
}

/** What a container is, as the engine says. */
export interface ContainerState {
  readonly id: string;
  readonly phase: 'created' | 'running' | 'exited';
  /** Where the host reaches it while it runs, else null. */
  readonly address: string | null;
  /** Where the outside reaches it: empty while it is nowhere; absent when that is `address`, too. */
  readonly externalAddress?: string;
  readonly exitCode: number | null;
  readonly oomKilled: boolean;
  /** How often the engine restarted it since it was last started on purpose. */
  readonly restarts: number;
  /** Unix ms of the last start; null when it never ran. */
  readonly startedAt: number | null;
  /** Frozen from outside: it counts as running. */
  readonly paused?: boolean;
  /** Where its persistent data is mounted; absent when the engine does not say. */
  readonly mountPaths?: readonly string[];
  /** What it may use; absent when the engine does not say. */
  readonly limits?: { readonly cpus: number; readonly memoryMb: number };
}

/** Last sample; zeros until there is one. */
export interface ContainerUsage {
  /** Without the file cache that would be given back. */
  readonly memoryBytes: number;
  /** What the container wrote: its mount paths and its own layer. */
  readonly storageBytes: number;
}

/** What a registry is shown: a user's name and password, or a token it issued (its token protocol's `Bearer`). */
export type RegistryAuth =
  | { readonly username: string; readonly password: string }
  | { readonly registryToken: string };

export interface EnsureImageOptions {
  /** Ask the registry even when the image is present. */
  readonly always: boolean;
  readonly onProgress?: (line: string) => void;
  readonly signal?: AbortSignal;
  /** Asked when something is pulled, right before it: tokens are short-lived. Undefined pulls as anybody. */
  readonly auth?: () => Promise<RegistryAuth | undefined>;
}

/** A shell, or a command, on a terminal in a container. */
export interface ExecOptions {
  readonly cols: number;
  readonly rows: number;
  /** The terminal's type (terminfo(5)); `xterm-256color` when it is no such name. */
  readonly term: string;
  /** Default: the login shell of root, or `sh`. */
  readonly command?: readonly string[];
}

export interface LogOptions {
  /** Newest lines to begin with; Infinity for all that are kept. */
  readonly tail: number;
  readonly follow: boolean;
  /** Only lines later than this RFC 3339 stamp. */
  readonly since?: string;
  readonly signal: AbortSignal;
}

export type EngineErrorCode =
  | 'unavailable' // the engine cannot be reached, or answered 5xx: try again
  | 'image_not_found' // the image cannot be pulled, and trying again soon will not help
  | 'not_found' // no such container
  | 'not_running'
  | 'data_gone' // what was kept at the container's mount paths is not there any more
  | 'refused' // the engine refuses the request as it stands
  | 'no_listener'; // dial: nothing listens on that port (yet)

/** The one error an Engine rejects with; `message` is fit for a user's eyes. */
export class EngineError extends Error {
  readonly code: EngineErrorCode;
  constructor(code: EngineErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'EngineError';
    this.code = code;
  }
}

/** That the data of mount paths is gone. */
export function dataGone(paths: readonly string[]): EngineError {
  const list = paths.join(', ');
  return new EngineError(
    'data_gone',
    `its data at ${list} is gone: the storage that held it was removed or lost. Have it restored and start the ` +
      'container, or start it with "?discard=true" to begin with empty folders',
  );
}

/**
 * Where containers really run (design.md, section 6). All calls are idempotent: creating what exists, starting what
 * runs, stopping what is stopped and removing what is gone succeed. A container is found by its platform id, by label,
 * so nothing is doubled after a crash between the engine call and the commit.
 */
export interface Engine {
  readonly kind: 'docker' | 'kubernetes' | 'memory';
  /** Whether a container that is made anew with other mount paths, or stopped, has the files it had outside them. */
  readonly keepsFiles: boolean;
  /** The reference under which the built-in base image goes. */
  readonly baseImage: string;
  /** Rejects `unavailable` with what is wrong; resolves with the engine's version for people. */
  check(): Promise<string>;
  /**
   * Makes the image present: built (base image), or pulled. Reports progress. Rejects `image_not_found` with the
   * registry's reason, `unavailable` when it may work later or `signal` aborted.
   */
  ensureImage(image: string, options: EnsureImageOptions): Promise<void>;
  /**
   * `fence` throws once another node may look after the container: asked before what removes anything, and `create`
   * rejects with that.
   */
  create(spec: ContainerSpec, fence?: () => void): Promise<void>;
  /** Writes `authorizedKeys` into the container, then starts it. */
  start(id: string, authorizedKeys: readonly string[]): Promise<void>;
  /**
   * Replaces the authorized keys of a container that runs, and ends the SSH sessions in it that none of them opened.
   * Rejects `not_running`.
   */
  renewKeys(id: string, authorizedKeys: readonly string[]): Promise<void>;
  /** SIGTERM, then SIGKILL after `graceSeconds`. */
  stop(id: string, graceSeconds: number): Promise<void>;
  /** Removes the container and, unless `keepData`, its persistent data. */
  remove(id: string, options?: { keepData?: boolean }): Promise<void>;
  inspect(id: string): Promise<ContainerState | undefined>;
  /** All containers of this installation. */
  list(): Promise<ContainerState[]>;
  /**
   * Calls `onChange(id)` whenever something happened to a container, and `onChange(undefined)` ("look at all") after
   * every (re)connection. Keeps reconnecting with backoff until closed.
   */
  watch(onChange: (id: string | undefined) => void): Ending;
  /** Batches of lines, each `<RFC 3339 nanosecond stamp> <text>` without a newline; ends when the container stops. */
  logs(id: string, options: LogOptions): AsyncIterable<string[]>;
  /** A TCP connection to a port inside the container. Rejects `no_listener` when nobody listens. */
  dial(id: string, port: number, options: { timeoutMs: number; signal?: AbortSignal }): Promise<Duplex>;
  /**
   * A shell on a terminal as root, without SSH: for images that have no SSH server. Needs `/bin/sh` in the image.
   * Rejects `not_found`, `not_running`, `refused` when the image has no shell, and `unavailable` when `signal` aborts
   * before it runs. A command that is not there ends with code 127.
   */
  exec(id: string, options: ExecOptions, signal: AbortSignal): Promise<Shell>;
  /**
   * Whether the image of a container that runs has the program of an SSH server, as far as can be seen: whether to wait
   * for one. Rejects `not_found`, `not_running`.
   */
  hasSshServer(id: string): Promise<boolean>;
  /** Last known usage; never waits. */
  usage(id: string): ContainerUsage;
  close(): Promise<void>;
}

/** Where images have their SSH server. */
export const SSH_SERVERS: readonly string[] = [
  '/usr/sbin/sshd',
  '/usr/local/sbin/sshd',
  '/usr/bin/sshd',
  '/sbin/sshd',
  '/usr/sbin/dropbear',
  '/usr/local/sbin/dropbear',
  '/usr/bin/dropbear',
];

/** Images that users have beside the built-in one. */
export interface ImageCatalog {
  /**
   * References in full (`{registry_host}/<repo>:<tag>`) that this user may pull, sorted. Rejects when the registry does
   * not answer.
   */
  list(user: { readonly userId: string; readonly username: string }): Promise<readonly string[]>;
}

// -------------------------------------------------------------------------------------------------------------- shell

/** How a shell ended. Both are null when it was closed from this side, or its connection was lost. */
export interface ShellEnd {
  /** Exit status of the shell; null when a signal ended it. */
  readonly code: number | null;
  /** `SIGHUP` and the like; null when it exited. */
  readonly signal: string | null;
}

/** A running shell in a container: bytes in and out, a window size, and an end with a reason. */
export interface Shell {
  /**
   * What the shell prints, and what is typed into it. Ends when the shell does; is destroyed with an EngineError
   * `unavailable` when the connection is lost. Reading slowly slows the shell down.
   */
  readonly stream: Duplex;
  /** Whole numbers 1..1000; others are brought into that range. */
  resize(cols: number, rows: number): void;
  /** Hangs up: the shell gets SIGHUP and the connection ends. Idempotent. */
  close(): void;
  /** Resolves, and never rejects, when the shell is over and its output was read, or when it was closed. */
  readonly ended: Promise<ShellEnd>;
  /** For a shell that is kept in its container and outlives its connection. */
  readonly kept?: KeptShell;
}

/** How a shell is kept: the connection may be lost, left and opened anew, from any process. */
export interface ShellKeeping {
  /**
   * Letters and digits, at most 64. Who opens one of the same name in the same container is in the same shell, and
   * takes it from who was there.
   */
  readonly name: string;
  /** How long it waits when nobody looks. */
  readonly lingerMs: number;
  /** How long it may live, whether or not somebody looks; may be infinite. */
  readonly lifeMs: number;
}

/**
 * The other half of a shell that is kept. Somebody looks when it is opened: what was printed last comes first, 64 KiB
 * or all that was not said to be seen, if that is more. The shell pauses when 256 KiB were not, and when 32 KiB were
 * printed while nobody looks.
 */
export interface KeptShell {
  /**
   * Somebody else looks: what was printed last comes again. What the stream holds unread is emitted during the call,
   * and is to be dropped: it will come again.
   */
  look(times: Pick<ShellKeeping, 'lingerMs' | 'lifeMs'>): void;
  /** Nobody looks any more: nothing comes until somebody does. */
  wait(): void;
  /** So many bytes more of what came are with whoever looks. */
  seen(bytes: number): void;
  /** Ends the connection and lets the shell wait. Idempotent. */
  leave(): void;
  /** Whether its stream closed because another connection took it over. */
  readonly isTaken: boolean;
}

/** Opens shells in containers: through their SSH with the platform's key, or through the engine. */
export interface Shells {
  /**
   * Rejects with EngineError: `no_listener` without an SSH server, `not_running`, `refused` when the key is not
   * accepted. With `keeping` the shell is kept where the container can; it is a plain one where it cannot.
   */
  open(
    containerId: string,
    size: { cols: number; rows: number; term: string },
    signal: AbortSignal,
    keeping?: ShellKeeping,
  ): Promise<Shell>;
}
