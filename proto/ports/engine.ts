/** The engine that runs containers: what it is told, what it says, and what can go wrong. */
import type { Duplex } from 'node:stream';
import { CodedError } from '../../lib/errors.ts';
import type { Ending } from './ending.ts';
import type { ContainerFiles } from './files.ts';
import type { RunningCommand, Shell } from './shell.ts';

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
  /** Seconds between SIGTERM and SIGKILL, when the engine ends it for reasons of its own. */
  readonly stopGraceSeconds?: number;
  /** Its workload has settings, which each start is told. */
  readonly isConfigured?: boolean;
  /**
   * Networks, `a.b.c.d/n`, of which it reaches what containers may reach at all, and nothing else: with none of them no
   * names either but those of its private network, and what a cluster's DNS answers where that has them. It is reached
   * as ever. Undefined: whatever containers may reach.
   */
  readonly egress?: readonly string[];
}

/** How a workload is run. What is absent is as the image says. */
export interface Workload {
  /** Variables by name, secrets among them. They are in no description that the engine gives of the container. */
  readonly env: Readonly<Record<string, string>>;
  /** In the place of the image's ENTRYPOINT, without whose CMD it is then. */
  readonly entrypoint?: readonly string[];
  /** In the place of the image's CMD. */
  readonly command?: readonly string[];
  /** Where it begins. Made where it is missing. */
  readonly workingDir?: string;
}

/** A container's membership in a private network, where members of it reach each other, and nobody else does. */
export interface PrivateNetwork {
  /** The user. Networks of two users are two, whatever their names. */
  readonly owner: string;
  /** A DNS label. */
  readonly name: string;
  /** By which the others find the container, a DNS label; null: they do not. Unique in the network. */
  readonly alias: string | null;
  /** From 1 to MAX_PLACE + 1 and unique in the network: the container's address in it follows from it. */
  readonly place: number;
}

/** Most members of a private network. There is a place more, for a successor of one of them. */
export const MAX_PLACE = 12;

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
  /** Unix ms of the end of its last run, once it has ended; absent when the engine does not say. */
  readonly endedAt?: number;
  /** Frozen from outside: it counts as running. */
  readonly paused?: boolean;
  /** Where its persistent data is mounted; absent when the engine does not say. */
  readonly mountPaths?: readonly string[];
  /** The private network it is in; null: none; absent when the engine does not say. */
  readonly network?: PrivateNetwork | null;
  /** As in its spec; `any` without it, `unknown` while the engine cannot tell; absent when the engine does not say. */
  readonly egress?: readonly string[] | 'any' | 'unknown';
  /** A successor or a predecessor is beside it; absent when there is none, or the engine does not say. */
  readonly hasOthers?: true;
  /** What it may use; absent when the engine does not say. */
  readonly limits?: {
    readonly cpus: number;
    readonly memoryMb: number;
    /** Absent where storage has no limit that is enforced. */
    readonly storageGb?: number;
  };
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
  /**
   * The container that is to get the image while it runs: where the engine has many machines, the image is made present
   * on that of the container, or the call does nothing when it does not run.
   */
  readonly forContainer?: string;
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

/** How long a command that is run once may take. */
export interface RunOnceOptions {
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/** What came of a command that was run once. */
export interface OnceOutcome {
  /** Null: it did not end in time, and was killed. */
  readonly exitCode: number | null;
  readonly oomKilled: boolean;
  /** Of what it said, the last 20, as `logs` has them. */
  readonly lines: readonly string[];
}

/** Longest text of one line of a log, in bytes; it may be cut a character before. */
export const MAX_LINE_BYTES = 64 * 1024;

export interface LogOptions {
  /** Newest lines to begin with; Infinity for all that are kept. */
  readonly tail: number;
  readonly follow: boolean;
  /** Only lines later than this RFC 3339 stamp. */
  readonly since?: string;
  /** Only lines earlier than this RFC 3339 stamp: of those that `tail` counted. Not with `follow`. */
  readonly until?: string;
  /** Only lines of this output: of those that `tail` counted. */
  readonly stream?: LogStream;
  readonly signal: AbortSignal;
}

/** An output of a workload. */
export type LogStream = 'stdout' | 'stderr';

export type EngineErrorCode =
  | 'unavailable' // the engine cannot be reached, or answered 5xx: try again
  | 'image_not_found' // the image cannot be pulled, and trying again soon will not help
  | 'not_found' // no such container
  | 'not_running'
  | 'data_gone' // what was kept at the container's mount paths is not there any more
  | 'refused' // the engine refuses the request as it stands
  | 'no_listener'; // dial: nothing listens on that port (yet)

/** The one error an Engine rejects with; `message` is fit for a user's eyes. */
export class EngineError extends CodedError<EngineErrorCode> {}

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
 * Where containers really run. All calls are idempotent: creating what exists, starting what
 * runs, stopping what is stopped and removing what is gone succeed. A container is found by its platform id, by label,
 * so nothing is doubled after a crash between the engine call and the commit.
 */
export interface Engine {
  readonly kind: 'docker' | 'kubernetes' | 'memory';
  /** Whether a container that is made anew with other mount paths, or stopped, has the files it had outside them. */
  readonly keepsFiles: boolean;
  /** Whether `create` gives one that runs other processors and memory. Without it, they count from its next start. */
  readonly resizesRunning: boolean;
  /** Whether its storage can become smaller. */
  readonly shrinksStorage: boolean;
  /** What it cannot give as an alias in a private network (`join`). */
  readonly reservedAliases: readonly string[];
  /** Whether it has successors (`beginSuccessor`). */
  readonly hasSuccessors: boolean;
  /** Whether a container with mount paths can have one, too: both have the same files there. */
  readonly sharesMountPaths: boolean;
  /** For how long after a promotion somebody may still come to the predecessor who asked for it by its alias before. */
  readonly aliasLastsMs: number;
  readonly fileAccess: ContainerFiles;
  /** The reference under which the built-in base image goes. */
  readonly baseImage: string;
  /** Those that it has beside the base image. */
  readonly builtIns: readonly BuiltInImage[];
  /** Whether one of `builtIns` is built already; undefined: it builds none. Rejects with EngineError. */
  isBuilt(reference: string): Promise<boolean | undefined>;
  /** Rejects `unavailable` with what is wrong; resolves with the engine's version for people. */
  check(): Promise<string>;
  /**
   * Makes the image present: built (base image, `builtIns`), or pulled. Reports progress. Rejects `image_not_found`
   * with the registry's reason, `unavailable` when it may work later or `signal` aborted.
   */
  ensureImage(image: string, options: EnsureImageOptions): Promise<void>;
  /**
   * `fence` throws once another node may look after it: asked before each removal; `create` rejects with that. The
   * `egress` of a container that runs is the new one once the call resolves, also for connections that it has open.
   */
  create(spec: ContainerSpec, fence?: () => void): Promise<void>;
  /**
   * Writes `authorizedKeys` into the container, then starts it. One that was made as configured is told its `workload`,
   * whenever it does not run; without it, it runs as at its last start. Rejects `refused` when the image does not allow
   * for the settings.
   */
  start(id: string, authorizedKeys: readonly string[], workload?: Workload): Promise<void>;
  /**
   * Puts a container, running or not, into a private network under a name, or into none; it is in no other from then
   * on. It goes on running, and is in it again whenever it is started. A network is made for its first member and
   * removed with its last. Rejects `not_found`, `unavailable`, and `refused` for one of `reservedAliases`.
   */
  join(id: string, network: PrivateNetwork | undefined): Promise<void>;
  /**
   * Makes a second container of `spec` beside the one of its id that runs, and starts it: its successor, in `network`
   * from its start on, whose alias stays that of the one that runs. Both have the same files at the mount paths. Others
   * that are there are ended first. It is known as `successorId` to `inspect`, `dial`, `run`, `logs` and
   * `hasSshServer`, and nowhere else. Rejects as `create`, `join` and `start`, and `refused` where there is none, or
   * none with mount paths.
   */
  beginSuccessor(
    spec: ContainerSpec,
    authorizedKeys: readonly string[],
    workload: Workload | undefined,
    network: PrivateNetwork | undefined,
  ): Promise<void>;
  /**
   * The successor is the container from now on. The one before, its predecessor, runs on, and is known to nobody.
   * `network`: as it was begun with. Its alias leads to one of the two at each moment, and then to the successor alone.
   * Rejects `not_found` when there is no successor, and as `join`.
   */
  promote(id: string, network: PrivateNetwork | undefined): Promise<void>;
  /**
   * Runs the workload's `command` to its end in a container of `spec` of its own, beside the one of its id, with the
   * same limits, and what it may reach; `network`: where it is under no name. It has the files at the mount paths of
   * `spec`. The container is removed then, also when `signal` aborts, with whose reason the call rejects. One that was
   * left is removed by the next call, `endOthers`, `stop` and `remove`. Rejects as `create`, `join` and `start`,
   * and `unavailable` when it was removed meanwhile.
   */
  runOnce(
    spec: ContainerSpec,
    workload: Workload,
    network: PrivateNetwork | undefined,
    options: RunOnceOptions,
  ): Promise<OnceOutcome>;
  /** Ends a predecessor as `stop` does, and a successor at once, and removes them. `stop` and `remove` do the same. */
  endOthers(id: string, graceSeconds: number): Promise<void>;
  /**
   * Replaces the keys of one that runs, and ends SSH sessions that none of them opened. What is begun in it from then
   * on has the environment of `workload`; undefined: what it had, where the engine keeps that. Rejects `not_running`.
   */
  renewKeys(id: string, authorizedKeys: readonly string[], workload?: Workload): Promise<void>;
  /** SIGTERM, then SIGKILL after `graceSeconds`. */
  stop(id: string, graceSeconds: number): Promise<void>;
  /** Removes the container and, unless `keepData`, its persistent data. */
  remove(id: string, options?: { keepData?: boolean }): Promise<void>;
  inspect(id: string): Promise<ContainerState | undefined>;
  /**
   * All containers of this installation, or those of `ids` that there are. Rejects `unavailable` while the engine is
   * known to be away, also when `ids` is empty.
   */
  list(ids?: readonly string[]): Promise<ContainerState[]>;
  /**
   * Calls `onChange(id)` whenever something happened to a container, and `onChange(undefined)` ("look at all") after
   * every (re)connection. Keeps reconnecting with backoff until closed.
   */
  watch(onChange: (id: string | undefined) => void): Ending;
  /**
   * Batches of lines, each `<RFC 3339 nanosecond stamp> <text>` without a newline; ends when the container stops. A
   * text of more than MAX_LINE_BYTES goes on in another line with the same stamp.
   * Rejects `refused` when asked for one output where the outputs are not told apart.
   */
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
   * A command as root without a terminal: its input, and its two outputs apart. Needs `/bin/sh` in the image. Rejects
   * as `exec` does; a command that is not there ends with code 127.
   */
  run(id: string, command: readonly string[], signal: AbortSignal): Promise<RunningCommand>;
  /**
   * Whether the image of a container that runs has the program of an SSH server, as far as can be seen: whether to wait
   * for one. Rejects `not_found`, `not_running`.
   */
  hasSshServer(id: string): Promise<boolean>;
  /**
   * The digest `sha256:...` by which its registry has the image that a container was made of; undefined when that is
   * not known, as of what was built. Rejects `not_found`.
   */
  imageDigest(id: string): Promise<string | undefined>;
  /**
   * Removes the images that are here by their digest alone, but those that `named` resolves with, as
   * `name:tag@sha256:...`: it is asked once what is here is known. Resolves with the names of those that are gone. What
   * a container is made of stays.
   */
  forgetImages(named: () => Promise<readonly string[]>): Promise<readonly string[]>;
  /** Last known usage; never waits. */
  usage(id: string): ContainerUsage;
  close(): Promise<void>;
}

/** What the successor of a container is known as (`Engine.beginSuccessor`). */
export function successorId(id: string): string {
  return `${id}${SUCCESSOR}`;
}

/** Whose successor an id names; undefined: a container's own id. */
export function ofSuccessor(id: string): string | undefined {
  return id.endsWith(SUCCESSOR) ? id.slice(0, -SUCCESSOR.length) : undefined;
}

/** For how long a predecessor still serves what it had begun. */
export const PREDECESSOR_MS = 30_000;

/** No id has a dot. */
const SUCCESSOR = '.successor';

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

/** An image of the platform that the engine builds when it is first asked for, or that was built for it elsewhere. */
export interface BuiltInImage {
  /** By which users choose it, such as `node`. */
  readonly name: string;
  /** What people read, with its version. */
  readonly title: string;
  /** `troupe.invalid/<name>:<hash of the recipe>` (proto/built-in-images.ts). */
  readonly reference: string;
  /** Where it is pulled from, `host/path/<name>`; absent where it is built. */
  readonly repository?: string;
}

/** Images that users have beside the built-in ones. */
export interface ImageCatalog {
  /** Full references (`{registry_host}/<repo>:<tag>`) this user may pull, sorted. Rejects without an answer. */
  list(user: { readonly userId: string; readonly username: string }): Promise<readonly string[]>;
}
