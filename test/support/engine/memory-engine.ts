import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { Duplex, PassThrough } from 'node:stream';
import {
  type BuiltInImage,
  type ContainerSpec,
  type ContainerState,
  type ContainerUsage,
  dataGone,
  type Engine,
  EngineError,
  type EnsureImageOptions,
  type ExecOptions,
  type LogOptions,
  type LogStream,
  type OnceOutcome,
  ofSuccessor,
  type PrivateNetwork,
  type RegistryAuth,
  successorId,
  type Workload,
} from '../../../proto/ports/engine.ts';
import type { RunningCommand, ShellEnd } from '../../../proto/ports/shell.ts';
import { checkedMountPaths } from '../../../transports/engines/common/confinement.ts';
import { parseImageReference } from '../../../transports/engines/common/image-reference.ts';
import { afterStamp } from '../../../transports/engines/common/log-lines.ts';
import { memoryFiles } from './memory-files.ts';

/** Answers a connection made by `dial`: gets the container's end of it. */
export type PortHandler = (stream: Duplex) => void;

/** The calls that can be made to fail. */
export type FailingCall =
  | 'check'
  | 'ensureImage'
  | 'isBuilt'
  | 'create'
  | 'start'
  | 'join'
  | 'beginSuccessor'
  | 'promote'
  | 'endOthers'
  | 'runOnce'
  | 'renewKeys'
  | 'stop'
  | 'remove'
  | 'inspect'
  | 'list'
  | 'logs'
  | 'dial'
  | 'exec'
  | 'run';

/** A process begun by `exec`, as it sees itself. */
export interface MemoryProcess {
  readonly id: string;
  readonly options: ExecOptions;
  /** Its terminal: what is typed comes out, what is written is printed. Closes when the other side hangs up. */
  readonly terminal: Duplex;
  /** The terminal's size now. */
  size(): { cols: number; rows: number };
  exit(code: number): void;
}

/** A command begun by `run`, as it sees itself. */
export interface MemoryCommand {
  readonly id: string;
  readonly words: readonly string[];
  readonly stdin: PassThrough;
  readonly stdout: PassThrough;
  readonly stderr: PassThrough;
  exit(code: number): void;
  /** Called when the other side ends it. */
  onHangUp: () => void;
}

/** A command that is run once, as it sees itself. */
export interface MemoryOnce {
  readonly spec: ContainerSpec;
  readonly workload: Workload;
  readonly network: PrivateNetwork | undefined;
  readonly signal: AbortSignal;
}

/** What a memory engine begins with. */
export interface MemoryEngineOptions {
  /** Images that can be "pulled". The base image always can. */
  readonly images?: readonly string[];
  /** Images that it "builds". */
  readonly builtIns?: readonly BuiltInImage[];
  /** Who may pull: without it, everybody. The base image needs nobody. */
  readonly mayPull?: (image: string, auth: RegistryAuth | undefined) => boolean;
  /** What `exec` begins. Default: the image has no shell. */
  readonly onExec?: (process: MemoryProcess, engine: MemoryEngine) => void;
  /** What `run` begins. Default: the image has no shell. */
  readonly onRun?: (command: MemoryCommand, engine: MemoryEngine) => void;
  /** What a started container does. Default: listens on port 22 with an SSH greeting. */
  readonly onStart?: (id: string, engine: MemoryEngine) => void;
  /** What `Engine.hasSshServer` says. Default true. */
  readonly hasSshServer?: boolean;
  /** What `Engine.keepsFiles` says. Default true. */
  readonly keepsFiles?: boolean;
  /** What `Engine.resizesRunning` and `Engine.shrinksStorage` say. Default true. */
  readonly resizesRunning?: boolean;
  readonly shrinksStorage?: boolean;
  /** What `Engine.reservedAliases` says. Default none. */
  readonly reservedAliases?: readonly string[];
  /** What `Engine.hasSuccessors` says. Default false: a change of the image stops what runs first. */
  readonly hasSuccessors?: boolean;
  /** What `Engine.sharesMountPaths` says. Default true. */
  readonly sharesMountPaths?: boolean;
  /** What `Engine.aliasLastsMs` says. Default 0. */
  readonly aliasLastsMs?: number;
  /** What comes of a command that is run once. Default: exit code 0. */
  readonly onOnce?: (once: MemoryOnce) => OnceOutcome | Promise<OnceOutcome>;
}

/** An Engine in this process, and hands to play the world outside with. */
export interface MemoryEngine extends Engine {
  /** Lets `handler` answer on a port of a container, as long as it runs. */
  listen(id: string, port: number, handler: PortHandler): void;
  /** The workload writes lines. */
  print(id: string, lines: readonly string[], stream?: LogStream): void;
  /** The workload ends by itself. Default exit code 137. */
  crash(id: string, options?: { exitCode?: number; oomKilled?: boolean }): void;
  /** The container is gone, its data is not. */
  lose(id: string): void;
  /** The container is gone, and its data with it. */
  loseData(id: string): void;
  setUsage(id: string, usage: ContainerUsage): void;
  /** The next `times` calls of `call` reject with `error`. */
  fail(call: FailingCall, error: EngineError, times?: number): void;
  /** Holds calls of `call` back until the returned function is called. */
  hold(call: FailingCall): () => void;
  /** Says once more that something happened to a container. */
  tell(id: string): void;
  /** Somebody changes a container from outside. */
  edit(id: string, change: Partial<Pick<ContainerState, 'paused' | 'limits' | 'address' | 'network' | 'egress'>>): void;
  /** The container that another one reaches under a name: one that runs in the same private network. */
  named(from: string, alias: string): string | undefined;
  /** As a lost event stream would: those who watch are told to look at all. */
  reconnect(): void;
  /** The image's name comes to stand for something new, at the registry. */
  publish(image: string): void;
  /** The data of a container by path, while it has one. */
  files(id: string): Map<string, string> | undefined;
  specOf(id: string): ContainerSpec | undefined;
  /** The keys of the last start. */
  keysOf(id: string): readonly string[];
  /** What was named last to `forgetImages`. */
  keptImages(): readonly string[];
  /** How the workload was told to run at the last start. */
  workloadOf(id: string): Workload | undefined;
  /** The seconds of grace of each call that stopped it. */
  gracesOf(id: string): readonly number[];
  /** The names of the calls made, in order, as `call id`. */
  readonly calls: readonly string[];
}

interface Held {
  spec: ContainerSpec;
  /** Which of the contents its image's name has stood for. */
  content: number;
  state: ContainerState;
  keys: readonly string[];
  workload: Workload | undefined;
  log: { stamp: bigint; text: string; stream: LogStream }[];
  readonly ports: Map<number, PortHandler>;
  readonly streams: Set<Duplex>;
  files: Map<string, string>;
  readonly wake: Set<() => void>;
}

const predecessorId = (id: string): string => `${id}.predecessor`;

const base = 'troupe/memory:1';
const baseFull = parseImageReference(base).full;
/** Lines kept of a container's log. */
const keptLines = 10_000;

/** A stand-in for a real engine that passes the same suite: no sockets, no processes, no timers. */
export function memoryEngine(options: MemoryEngineOptions = {}): MemoryEngine {
  const held = new Map<string, Held>();
  const kept: string[] = [];
  const graces = new Map<string, number[]>();
  const data = new Map<string, Map<string, string>>();
  const usage = new Map<string, ContainerUsage>();
  /** Containers whose data was lost. */
  const lost = new Set<string>();
  const watchers = new Set<(id: string | undefined) => void>();
  const failures = new Map<FailingCall, { error: EngineError; left: number }>();
  const holds = new Map<FailingCall, Promise<void>>();
  /** Contents of images by name: at the registry, and as pulled. */
  const published = new Map<string, number>();
  const present = new Map<string, number>();
  const calls: string[] = [];
  const builtIns = options.builtIns ?? [];
  const pullable = new Set(
    [base, ...builtIns.map(({ reference }) => reference), ...(options.images ?? [])].map(
      (image) => parseImageReference(image).full,
    ),
  );
  let lastStamp = 0n;
  let addresses = 0;

  const pull = async (full: string, { auth, onProgress }: EnsureImageOptions): Promise<void> => {
    const allowed = full === baseFull || (options.mayPull?.(full, await auth?.()) ?? true);
    if (!allowed || !pullable.has(full)) {
      const reason = allowed ? 'not found' : 'unauthorized';
      throw new EngineError('image_not_found', `The image ${full} cannot be pulled: ${reason}`);
    }
    onProgress?.(`${full} is present`);
    present.set(full, published.get(full) ?? 0);
  };
  /** What a name stands for with each of its contents, as a registry would tell. */
  const digestOf = (full: string, content: number) =>
    `sha256:${createHash('sha256').update(`${full} ${content}`).digest('hex')}`;
  const pullByDigest = async (image: string, imageOptions: EnsureImageOptions): Promise<void> => {
    const [name = '', digest] = image.split('@');
    const { full } = parseImageReference(name);
    const contents = Array.from({ length: (published.get(full) ?? 0) + 1 }, (_, at) => at);
    const content = contents.find((one) => digestOf(full, one) === digest);
    if (content === undefined)
      throw new EngineError('image_not_found', `The image ${image} cannot be pulled: not found`);
    const before = present.get(full);
    await pull(full, imageOptions);
    if (before !== undefined) present.set(full, before);
    present.set(parseImageReference(image).full, content);
  };
  const isSameImage = (old: Held, image: string, content: number): boolean => {
    const [before, now] = [old.spec.image.split('@'), image.split('@')];
    return before[0] === now[0] && (before[1] === now[1] || old.content === content);
  };
  const changed = (id: string): void => {
    if (ofSuccessor(id) !== undefined || id === predecessorId(id.split('.')[0] ?? '')) return;
    for (const watcher of [...watchers]) queueMicrotask(() => watchers.has(watcher) && watcher(id));
  };
  const begin = async (call: FailingCall, what = ''): Promise<void> => {
    calls.push(`${call} ${what}`.trim());
    await holds.get(call);
    const failure = failures.get(call);
    if (failure === undefined || failure.left <= 0) return;
    failure.left -= 1;
    throw failure.error;
  };
  const mustHave = (id: string): Held => {
    const one = held.get(id);
    if (one === undefined) throw new EngineError('not_found', `There is no container ${id}.`);
    return one;
  };
  const end = (id: string, exitCode: number, oomKilled: boolean): void => {
    const one = held.get(id);
    if (one === undefined || one.state.phase !== 'running') return;
    one.state = { ...one.state, phase: 'exited', address: null, exitCode, oomKilled, endedAt: Date.now() };
    one.ports.clear();
    for (const stream of one.streams) stream.destroy();
    one.streams.clear();
    for (const wake of [...one.wake]) wake();
    changed(id);
  };
  const drop = (id: string): void => {
    end(id, 137, false);
    if (held.delete(id)) changed(id);
  };

  const stateOf = (id: string): ContainerState | undefined => {
    const state = held.get(id)?.state;
    const isBeside = state?.phase === 'running' && (held.has(successorId(id)) || held.has(predecessorId(id)));
    return isBeside ? { ...state, hasOthers: true } : state;
  };

  const engine: MemoryEngine = {
    kind: 'memory',
    keepsFiles: options.keepsFiles ?? true,
    resizesRunning: options.resizesRunning ?? true,
    shrinksStorage: options.shrinksStorage ?? true,
    reservedAliases: options.reservedAliases ?? [],
    hasSuccessors: options.hasSuccessors ?? false,
    sharesMountPaths: options.sharesMountPaths ?? true,
    aliasLastsMs: options.aliasLastsMs ?? 0,
    baseImage: base,
    builtIns,
    isBuilt: async (reference) => {
      await begin('isBuilt', reference);
      return present.has(parseImageReference(reference).full);
    },
    fileAccess: memoryFiles((id) => mustHave(id).files),
    calls,
    check: async () => {
      await begin('check');
      return 'memory engine 1';
    },
    ensureImage: async (image, imageOptions) => {
      await begin('ensureImage', image);
      const { full } = parseImageReference(image);
      if (imageOptions.signal?.aborted === true) throw new EngineError('unavailable', 'Given up.');
      if (present.has(full) && (!imageOptions.always || full === baseFull)) return;
      await (image.includes('@') ? pullByDigest(image, imageOptions) : pull(full, imageOptions));
    },
    create: async (spec, fence = () => {}) => {
      await begin('create', spec.id);
      try {
        fence();
      } catch (error) {
        calls.push(`fenced ${spec.id}`);
        throw error;
      }
      const paths = checkedMountPaths(spec.mountPaths);
      const { full } = parseImageReference(spec.image);
      const content = present.get(full);
      if (content === undefined)
        throw new EngineError('image_not_found', `The image ${spec.image} is not on this machine.`);
      const old = held.get(spec.id);
      const limits = { cpus: spec.cpus, memoryMb: spec.memoryMb };
      const egress = spec.egress ?? 'any';
      if (old !== undefined) old.state = { ...old.state, egress };
      if (old !== undefined && (engine.resizesRunning || old.state.phase !== 'running'))
        old.state = { ...old.state, limits };
      if (old?.state.phase === 'running') return;
      const missing = paths.filter((path) => spec.dataPaths?.includes(path) && lost.has(spec.id));
      if (old === undefined && missing.length > 0) throw dataGone(missing);
      lost.delete(spec.id);
      saveData(old, data);
      const kept = data.get(spec.id) ?? new Map<string, string>();
      data.set(spec.id, kept);
      const same =
        old !== undefined &&
        checkedMountPaths(old.spec.mountPaths).join() === paths.join() &&
        isSameImage(old, spec.image, content) &&
        !(spec.followImage === true && old.content !== content);
      if (same) {
        old.spec = spec;
        return;
      }
      const isMounted = ([path]: [string, string]): boolean => paths.some((mount) => path.startsWith(`${mount}/`));
      const keepsAll =
        engine.keepsFiles && old !== undefined && isSameImage(old, spec.image, content) && old.content === content;
      const files = new Map([...kept].filter(isMounted));
      for (const [path, text] of old?.files ?? []) if (keepsAll || isMounted([path, text])) files.set(path, text);
      held.set(spec.id, {
        spec,
        content,
        state: {
          id: spec.id,
          phase: 'created',
          address: null,
          exitCode: null,
          oomKilled: false,
          restarts: 0,
          startedAt: null,
          paused: false,
          mountPaths: paths,
          egress,
          limits,
          network: null,
        },
        keys: [],
        workload: old?.workload,
        log: [],
        ports: new Map(),
        streams: new Set(),
        files,
        wake: new Set(),
      });
      changed(spec.id);
    },
    start: async (id, authorizedKeys, workload) => {
      await begin('start', id);
      const one = mustHave(id);
      one.keys = [...authorizedKeys];
      one.files.set('/etc/troupe/authorized_keys', authorizedKeys.map((key) => `${key}\n`).join(''));
      one.workload = workload ?? one.workload;
      one.state = { ...one.state, paused: false };
      if (one.state.phase === 'running') return;
      addresses += 1;
      const address = `10.0.${(addresses >> 8) & 255}.${addresses & 255}`;
      const { endedAt: _, ...before } = one.state;
      one.state = { ...before, phase: 'running', address, exitCode: null, oomKilled: false, startedAt: Date.now() };
      (options.onStart ?? greet)(id, engine);
      changed(id);
    },
    join: async (id, network) => {
      await begin('join', id);
      const one = mustHave(id);
      if (network !== undefined && engine.reservedAliases.includes(network.alias ?? ''))
        throw new EngineError('refused', 'That is no alias here.');
      one.state = { ...one.state, network: network ?? null };
      changed(id);
    },
    beginSuccessor: async (spec, authorizedKeys, workload, network) => {
      await begin('beginSuccessor', spec.id);
      const { id } = spec;
      if (!engine.hasSuccessors || (spec.mountPaths.length > 0 && !engine.sharesMountPaths))
        throw new EngineError('refused', 'It has none.');
      if (mustHave(id).state.phase !== 'running') throw new EngineError('not_running', 'It does not run.');
      drop(successorId(id));
      drop(predecessorId(id));
      await engine.create({ ...spec, id: successorId(id) });
      const made = mustHave(successorId(id));
      made.state = { ...made.state, network: network === undefined ? null : { ...network, alias: null } };
      await engine.start(successorId(id), authorizedKeys, workload);
    },
    promote: async (id, network) => {
      await begin('promote', id);
      const successor = mustHave(successorId(id));
      const present = held.get(id);
      held.delete(successorId(id));
      if (present !== undefined) held.set(predecessorId(id), present);
      successor.state = { ...successor.state, id, network: network ?? null };
      // They share what is at the mount paths.
      for (const [path, text] of present?.files ?? [])
        if (successor.spec.mountPaths.some((mount) => path.startsWith(`${mount}/`))) successor.files.set(path, text);
      held.set(id, { ...successor, spec: { ...successor.spec, id } });
      changed(id);
    },
    runOnce: async (spec, workload, network, { signal }) => {
      await begin('runOnce', spec.id);
      signal.throwIfAborted();
      if (!present.has(parseImageReference(spec.image).full))
        throw new EngineError('image_not_found', `The image ${spec.image} is not on this machine.`);
      const outcome = options.onOnce?.({ spec, workload, network, signal });
      const aborted = once(signal, 'abort').then(() => Promise.reject(signal.reason));
      return Promise.race([outcome ?? { exitCode: 0, oomKilled: false, lines: [] }, aborted]);
    },
    endOthers: async (id, graceSeconds) => {
      await begin('endOthers', id);
      if (held.has(predecessorId(id))) graces.set(id, [...(graces.get(id) ?? []), graceSeconds]);
      drop(predecessorId(id));
      drop(successorId(id));
    },
    renewKeys: async (id, authorizedKeys, workload) => {
      await begin('renewKeys', id);
      const one = mustHave(id);
      if (one.state.phase !== 'running') throw new EngineError('not_running', 'The container is not running.');
      one.keys = [...authorizedKeys];
      if (workload !== undefined) one.workload = workload;
    },
    stop: async (id, graceSeconds) => {
      graces.set(id, [...(graces.get(id) ?? []), graceSeconds]);
      await begin('stop', id);
      drop(predecessorId(id));
      drop(successorId(id));
      end(id, 0, false);
    },
    remove: async (id, { keepData = false } = {}) => {
      await begin('remove', id);
      saveData(held.get(id), data);
      drop(predecessorId(id));
      drop(successorId(id));
      drop(id);
      if (!keepData) data.delete(id);
      usage.delete(id);
    },
    inspect: async (id) => {
      await begin('inspect', id);
      return stateOf(id);
    },
    list: async (ids = [...held.keys()].filter((id) => !id.includes('.'))) => {
      await begin('list');
      return ids.flatMap((id) => stateOf(id) ?? []);
    },
    watch: (onChange) => {
      const watcher = (id: string | undefined): void => onChange(id);
      watchers.add(watcher);
      queueMicrotask(() => watchers.has(watcher) && watcher(undefined));
      return {
        close: async () => {
          watchers.delete(watcher);
        },
      };
    },
    logs: async function* (id, logOptions) {
      await begin('logs', id);
      const one = mustHave(id);
      for (const time of [logOptions.since, logOptions.until]) if (time !== undefined) afterStamp(time);
      yield* follow(one, logOptions);
    },
    dial: async (id, port, { signal }) => {
      await begin('dial', id);
      if (!Number.isInteger(port) || port < 1 || port > 65535)
        throw new EngineError('refused', `${port} is not a port.`);
      const one = mustHave(id);
      if (one.state.phase !== 'running') throw new EngineError('not_running', 'The container is not running.');
      if (signal?.aborted === true) throw new EngineError('unavailable', 'The connection was given up.');
      const handler = one.ports.get(port);
      if (handler === undefined)
        throw new EngineError('no_listener', `Nothing listens on port ${port} of the container.`);
      const [near, far] = duplexPair();
      one.streams.add(near).add(far);
      near.once('close', () => one.streams.delete(near));
      far.once('close', () => one.streams.delete(far));
      handler(far);
      return near;
    },
    exec: async (id, execOptions, signal) => {
      await begin('exec', id);
      const one = mustHave(id);
      if (one.state.phase !== 'running') throw new EngineError('not_running', 'The container is not running.');
      if (signal.aborted) throw new EngineError('unavailable', 'Given up.');
      if (options.onExec === undefined) throw new EngineError('refused', 'The image of this container has no shell.');
      const [near, far] = duplexPair();
      one.streams.add(near).add(far);
      let size = { cols: execOptions.cols, rows: execOptions.rows };
      let end: ShellEnd = { code: null, signal: null };
      const ended = new Promise<ShellEnd>((resolve) => near.once('close', () => resolve(end)));
      far.on('error', () => undefined);
      const process: MemoryProcess = {
        id,
        options: execOptions,
        terminal: far,
        size: () => size,
        exit: (code) => {
          end = { code, signal: null };
          far.end();
        },
      };
      // The end of what it prints is the end of a process.
      near.once('end', () => near.destroy());
      near.once('close', () => one.streams.delete(near));
      far.once('close', () => one.streams.delete(far));
      options.onExec(process, engine);
      return {
        stream: near,
        resize: (cols, rows) => {
          size = { cols, rows };
        },
        close: () => void near.destroy(),
        ended,
      };
    },
    run: async (id, words, signal) => {
      await begin('run', id);
      const one = mustHave(id);
      if (one.state.phase !== 'running') throw new EngineError('not_running', 'The container is not running.');
      if (signal.aborted) throw new EngineError('unavailable', 'Given up.');
      if (options.onRun === undefined) throw new EngineError('refused', 'The image of this container has no shell.');
      return memoryCommand(id, words, one.streams, (command) => options.onRun?.(command, engine));
    },
    forgetImages: async (named) => {
      kept.splice(0, kept.length, ...(await named()));
      return [];
    },
    keptImages: () => kept,
    imageDigest: async (id) => {
      const { spec, content } = mustHave(id);
      const { full } = parseImageReference(spec.image.split('@', 1)[0] ?? '');
      const isBuilt = full === baseFull || builtIns.some(({ reference }) => reference === spec.image);
      return isBuilt ? undefined : digestOf(full, content);
    },
    hasSshServer: async (id) => {
      mustHave(id);
      return options.hasSshServer ?? true;
    },
    usage: (id) => {
      const known = usage.get(id);
      // The first question finds nothing measured, as on a real engine.
      if (known === undefined) usage.set(id, { memoryBytes: 1_048_576, storageBytes: 4096 });
      return known ?? { memoryBytes: 0, storageBytes: 0 };
    },
    close: async () => {
      watchers.clear();
      for (const id of [...held.keys()]) drop(id);
    },
    listen: (id, port, handler) => void mustHave(id).ports.set(port, handler),
    print: (id, lines, stream = 'stdout') => {
      const one = mustHave(id);
      for (const text of lines) {
        const now = BigInt(Date.now()) * 1_000_000n;
        lastStamp = now > lastStamp ? now : lastStamp + 1n;
        one.log.push({ stamp: lastStamp, text, stream });
      }
      one.log.splice(0, Math.max(0, one.log.length - keptLines));
      for (const wake of [...one.wake]) wake();
    },
    crash: (id, { exitCode = 137, oomKilled = false } = {}) => end(id, exitCode, oomKilled),
    lose: (id) => {
      saveData(held.get(id), data);
      drop(id);
    },
    loseData: (id) => {
      drop(id);
      data.delete(id);
      lost.add(id);
    },
    setUsage: (id, value) => void usage.set(id, value),
    fail: (call, error, times = 1) => void failures.set(call, { error, left: times }),
    hold: (call) => {
      let release: () => void = () => undefined;
      holds.set(
        call,
        new Promise((resolve) => {
          release = resolve;
        }),
      );
      return () => {
        holds.delete(call);
        release();
      };
    },
    tell: changed,
    named: (from, alias) => {
      const network = held.get(from)?.state.network;
      const isMember = ({ state }: Held): boolean =>
        state.phase === 'running' &&
        state.network?.owner === network?.owner &&
        state.network?.name === network?.name &&
        state.network?.alias === alias;
      return network ? [...held].find(([, one]) => isMember(one))?.[0] : undefined;
    },
    edit: (id, change) => {
      const one = mustHave(id);
      one.state = { ...one.state, ...change };
      changed(id);
    },
    reconnect: () => {
      for (const watcher of [...watchers]) watcher(undefined);
    },
    publish: (image) => {
      const { full } = parseImageReference(image);
      published.set(full, (published.get(full) ?? 0) + 1);
    },
    files: (id) => held.get(id)?.files,
    specOf: (id) => held.get(id)?.spec,
    keysOf: (id) => held.get(id)?.keys ?? [],
    workloadOf: (id) => held.get(id)?.workload,
    gracesOf: (id) => graces.get(id) ?? [],
  };
  return engine;
}

/** A command whose other end is in this process. */
function memoryCommand(
  id: string,
  words: readonly string[],
  streams: Set<Duplex>,
  begin: (command: MemoryCommand) => void,
): RunningCommand {
  const [stdin, stdout, stderr] = [new PassThrough(), new PassThrough(), new PassThrough()];
  let code: number | null = null;
  const closed = [stdout, stderr].map((output) => new Promise((resolve) => output.once('close', resolve)));
  for (const stream of [stdin, stdout, stderr]) {
    stream.on('error', () => undefined);
    streams.add(stream);
    stream.once('close', () => streams.delete(stream));
  }
  const command: MemoryCommand = {
    id,
    words,
    stdin,
    stdout,
    stderr,
    exit: (status) => {
      code = status;
      stdout.end();
      stderr.end();
    },
    onHangUp: () => undefined,
  };
  begin(command);
  return {
    stdin,
    stdout,
    stderr,
    ended: Promise.all(closed).then(() => ({ code, signal: null })),
    close: () => {
      if (code === null && !stdout.destroyed) command.onHangUp();
      for (const stream of [stdin, stdout, stderr]) stream.destroy();
    },
  };
}

/** What an image with sshd does, as far as a client without a key can tell. */
function greet(id: string, engine: MemoryEngine): void {
  engine.print(id, ['Server listening on 0.0.0.0 port 22.']);
  engine.listen(id, 22, (stream) => {
    stream.on('error', () => undefined);
    stream.resume();
    stream.write('SSH-2.0-memory\r\n');
  });
}

function saveData(one: Held | undefined, data: Map<string, Map<string, string>>): void {
  if (one === undefined) return;
  const mounts = checkedMountPaths(one.spec.mountPaths);
  const kept = data.get(one.spec.id) ?? new Map<string, string>();
  for (const [path, text] of one.files) if (mounts.some((mount) => path.startsWith(`${mount}/`))) kept.set(path, text);
  data.set(one.spec.id, kept);
}

async function* follow(one: Held, options: LogOptions): AsyncGenerator<string[]> {
  const { signal, stream } = options;
  const since = options.since ?? '';
  const until = options.until ?? '\u{10ffff}';
  const isWanted = (entry: { stream: LogStream }): boolean => stream === undefined || entry.stream === stream;
  const tail = Number.isNaN(options.tail) ? 0 : Math.max(0, options.tail);
  const line = (entry: { stamp: bigint; text: string }): string => `${stampText(entry.stamp)} ${entry.text}`;
  let last = one.log.at(-1)?.stamp ?? 0n;
  const first = one.log
    .slice(Math.max(0, one.log.length - tail))
    .filter(isWanted)
    .map(line)
    .filter((text) => text > `${since} \u{10ffff}` && text < until);
  if (first.length > 0 && !signal.aborted) yield first;
  while (options.follow && !signal.aborted) {
    const news = one.log.filter((entry) => entry.stamp > last);
    last = news.at(-1)?.stamp ?? last;
    if (news.length > 0) yield news.filter(isWanted).map(line);
    else if (one.state.phase !== 'running') return;
    else {
      await new Promise<void>((resolve) => {
        const wake = (): void => {
          one.wake.delete(wake);
          signal.removeEventListener('abort', wake);
          resolve();
        };
        one.wake.add(wake);
        signal.addEventListener('abort', wake);
      });
    }
  }
}

function stampText(nanos: bigint): string {
  const iso = new Date(Number(nanos / 1_000_000_000n) * 1000).toISOString().slice(0, 19);
  return `${iso}.${String(nanos % 1_000_000_000n).padStart(9, '0')}Z`;
}

/** Two ends of one connection in this process, with backpressure. The destruction of either end closes the other. */
export function duplexPair(): [Duplex, Duplex] {
  /** By reading end: what lets its writer go on. */
  const waiting = new Map<Duplex, () => void>();
  const make = (peer: () => Duplex): Duplex =>
    new Duplex({
      read() {
        const goOn = waiting.get(this);
        waiting.delete(this);
        goOn?.();
      },
      write(chunk: Buffer, _encoding, done) {
        if (peer().push(chunk)) done();
        else waiting.set(peer(), done);
      },
      final(done) {
        peer().push(null);
        done();
      },
      destroy(error, done) {
        // After both ends said goodbye, the peer may still have bytes to read.
        if (!(this.readableEnded && this.writableFinished)) queueMicrotask(() => peer().destroy());
        done(error);
      },
    });
  const near: Duplex = make(() => far);
  const far: Duplex = make(() => near);
  return [near, far];
}
