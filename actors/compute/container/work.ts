/** The pieces of work on the engine, run beside the mailbox of the container's actor. Each is safe to repeat. */
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { builtInName } from '../../../proto/built-in-images.ts';
import {
  type ContainerState,
  type Engine,
  EngineError,
  type EnsureImageOptions,
  type PrivateNetwork,
  type Workload,
} from '../../../proto/ports/engine.ts';
import type { ShardLease } from '../../../proto/ports/placement.ts';
import { type ContainerRow, containerById, noteKeysApplied } from '../../../storage/compute/containers.ts';
import { settingsOf } from '../../../storage/compute/settings.ts';
import { keysOfContainer } from '../../../storage/compute/ssh-keys.ts';
import { fenced } from '../../../storage/fenced.ts';
import { SealError } from '../../../storage/seal.ts';
import { mustHold } from '../../service/placement.ts';
import type { ComputeDeps } from '../deps.ts';
import { imageOf, isOwnImage } from '../image-rules.ts';
import { COMPUTE_CONTAINER } from '../placed.ts';
import { hostnameOf } from '../views.ts';
import { workloadOf } from '../workload-rules.ts';
import { lastLog } from './evidence.ts';
import { releaseAtStart } from './release.ts';
import { MAX_CRASHES, type Step, specOf, WORKLOAD_READY_MS } from './rules.ts';

/** A piece of work: a step, or a first look at what there is. */
export type Work = Exclude<Step, 'settled' | 'image' | 'health' | 'predecessor'> | 'observe';

/** What work tells the actor. All but `building`, `making`, `accepted` and `progress` end it. */
export type Report =
  | { readonly type: 'accepted' }
  /** How far the image is, for its owner. */
  | { readonly type: 'progress'; readonly line: string }
  /** The engine builds the image, or the release command runs, which may take longer than a start. */
  | { readonly type: 'building' }
  /** The image is there, and the engine makes the container: with what it keeps, it may copy for half an hour. */
  | { readonly type: 'making' }
  /** What there is, and what the row says by now. */
  | {
      readonly type: 'observed';
      readonly actual: ContainerState | undefined;
      readonly row: ContainerRow | undefined;
      /** Of a workload that has crashed too often, or has a way back: the end of its log. */
      readonly log?: readonly string[];
    }
  /** `keysRevision`: the keys it was told. */
  | { readonly type: 'started' | 'keyed'; readonly keysRevision: number }
  | {
      readonly type: 'ready';
      readonly address: string | null;
      readonly externalAddress: string | null;
      readonly startedAt: number | null;
      /** Of the image that it was made of. */
      readonly digest?: string;
    }
  /** `startedAt`, `upForMs`: of the start that was probed. */
  | { readonly type: 'not-ready'; readonly startedAt: number | null; readonly upForMs: number }
  | { readonly type: 'done' }
  | { readonly type: 'removed' }
  | { readonly type: 'failed'; readonly error: unknown };

/** How long SSH may take to greet once it took the connection. */
const PROBE_TIMEOUT_MS = 2000;
const UNHEARD_MS = 1000;
/** One probe asks again and again for so long, less and less often. */
const PROBE_FOR_MS = 1000;
const FIRST_PAUSE_MS = 10;
const LONGEST_PAUSE_MS = 200;
/** What a workload without an SSH server must outlast to be running. */
const WORKLOAD_STANDS_MS = 500;

type OwnEngine = Pick<
  Engine,
  | 'create'
  | 'join'
  | 'start'
  | 'stop'
  | 'remove'
  | 'renewKeys'
  | 'inspect'
  | 'ensureImage'
  | 'isBuilt'
  | 'baseImage'
  | 'beginSuccessor'
  | 'promote'
  | 'endOthers'
  | 'runOnce'
>;

/**
 * The engine, whose changes throw PlacementError `fenced` once another node may look after the container. It cannot
 * check that itself: a process that was frozen must find out before it goes on with what it was about to do.
 */
export function ownEngine({ engine, placement }: ComputeDeps, { id }: ContainerRow, lease: ShardLease): OwnEngine {
  const fence = () => mustHold(placement, COMPUTE_CONTAINER, id, lease);
  const ours = <A extends unknown[], R>(change: (...args: A) => Promise<R>) => {
    return async (...args: A): Promise<R> => {
      fence();
      return change.apply(engine, args);
    };
  };
  return {
    // It may copy for half an hour before it removes what it copied.
    create: ours((spec) => engine.create(spec, fence)),
    join: ours(engine.join),
    start: ours(engine.start),
    stop: ours(engine.stop),
    remove: ours(engine.remove),
    renewKeys: ours(engine.renewKeys),
    beginSuccessor: ours(engine.beginSuccessor),
    promote: ours(engine.promote),
    endOthers: ours(engine.endOthers),
    runOnce: ours(engine.runOnce),
    inspect: engine.inspect.bind(engine),
    ensureImage: engine.ensureImage.bind(engine),
    isBuilt: engine.isBuilt.bind(engine),
    baseImage: engine.baseImage,
  };
}

/**
 * Does one piece of work and returns its last report. Rejects with EngineError, StorageError, PlacementError `fenced`
 * or the signal's reason.
 */
export async function work(
  deps: ComputeDeps,
  { row, lease, crashes }: { readonly row: ContainerRow; readonly lease: ShardLease; readonly crashes: number },
  what: Work,
  signal: AbortSignal,
  progress: (report: Report) => void,
): Promise<Report> {
  const { db } = deps;
  const engine = ownEngine(deps, row, lease);
  switch (what) {
    case 'observe': {
      // In this order: who sees another container in its place reads that one may be (`isPromoting`).
      const actual = await engine.inspect(row.id);
      const now = await containerById(db, row.id);
      const mayBeLast = crashes >= MAX_CRASHES || (now?.formerImage !== undefined && now.status !== 'pending');
      if (!mayBeLast || actual?.phase !== 'exited' || now?.desired !== 'running')
        return { type: 'observed', actual, row: now };
      return { type: 'observed', actual, row: now, log: await ownLastLog(deps, row.id, signal) };
    }
    case 'launch':
      return launch(deps, { row, lease }, signal, progress);
    case 'probe':
      return probe(deps, row, signal);
    case 'resume': {
      const { keys } = await keysOf(deps, row);
      await engine.start(row.id, keys);
      return { type: 'done' };
    }
    case 'adjust': {
      const { keys } = await keysOf(deps, row);
      await engine.create(wantedSpec(deps, row, keys));
      return { type: 'done' };
    }
    case 'join':
      await engine.join(row.id, networkOf(row));
      return { type: 'done' };
    case 'keys': {
      const { keys, revision } = await keysOf(deps, row);
      // With a change that waits, another may begin beside it that reads its environment in the same place.
      await engine.renewKeys(row.id, keys, row.nextImage === undefined ? await runWorkload(deps, row) : undefined);
      await fenced(db, lease, (tx) => noteKeysApplied(tx, row.id, revision));
      return { type: 'keyed', keysRevision: revision };
    }
    case 'restart':
      // Gateways hear of it, and send nothing more to what is about to be told to end.
      await delay(deps.unheardMs ?? UNHEARD_MS, undefined, { signal });
      await engine.stop(row.id, row.stopGrace);
      return { type: 'done' };
    case 'stop':
      await engine.stop(row.id, row.stopGrace);
      return { type: 'done' };
    case 'others':
      await restoreEnvironment(deps, engine, row);
      await engine.endOthers(row.id, row.stopGrace);
      return { type: 'done' };
    case 'remove':
      await engine.remove(row.id);
      return { type: 'removed' };
  }
}

/** How it is run now; undefined: as its image says. */
async function runWorkload({ db, sealKey }: ComputeDeps, { id }: ContainerRow): Promise<Workload | undefined> {
  const settings = await settingsOf(db, id, sealKey);
  return settings && workloadOf(settings).workload;
}

/**
 * What is begun in a container that runs has its own environment again: that of a successor, which is given up, was
 * written to the same place. Never rejects: the next change writes it anew.
 */
export async function restoreEnvironment(
  deps: ComputeDeps,
  engine: Pick<OwnEngine, 'renewKeys'>,
  row: ContainerRow,
): Promise<void> {
  try {
    const { keys } = await keysOf(deps, row);
    await engine.renewKeys(row.id, keys, (await runWorkload(deps, row)) ?? { env: {} });
  } catch (error) {
    // It has ended, and is started with it.
    if (error instanceof EngineError && error.code === 'not_running') return;
    deps.log.warn({ containerId: row.id, err: error }, 'the environment of a container could not be written');
  }
}

/** Who may log in: the platform, and the user's keys while SSH is enabled. */
export async function keysOf({ db, platformKey }: ComputeDeps, { id }: ContainerRow) {
  const { keys, revision } = await keysOfContainer(db, id);
  return { keys: [platformKey, ...keys], revision };
}

export function wantedSpec(deps: ComputeDeps, row: ContainerRow, authorizedKeys: readonly string[]) {
  return specOf(row, {
    image: imageOf(row, deps),
    hostname: hostnameOf(row.id, deps.containersDomain),
    authorizedKeys,
  });
}

async function launch(
  deps: ComputeDeps,
  { row, lease }: { readonly row: ContainerRow; readonly lease: ShardLease },
  signal: AbortSignal,
  progress: (report: Report) => void,
): Promise<Report> {
  const { log } = deps;
  const engine = ownEngine(deps, row, lease);
  const image = imageOf(row, deps);
  const isBuiltHere = builtInName(image) !== undefined;
  const asksAlways = pullsAlways(engine, row, image);
  if (isBuiltHere && (await engine.isBuilt(image)) === false) progress({ type: 'building' });
  const auth = authFor(deps, row, image);
  await engine.ensureImage(image, {
    always: asksAlways,
    signal,
    onProgress: (line) => {
      log.debug({ containerId: row.id, image }, line);
      progress({ type: 'progress', line });
    },
    ...(auth === undefined ? {} : { auth }),
  });
  signal.throwIfAborted();
  const { keys, revision } = await keysOf(deps, row);
  const settings = await settingsOf(deps.db, row.id, deps.sealKey);
  const { workload, isConfigured = false } = settings === undefined ? {} : workloadOf(settings);
  const wanted = {
    ...wantedSpec(deps, row, keys),
    ...(isConfigured ? { isConfigured } : {}),
    ...(asksAlways ? { followImage: true } : {}),
  };
  progress({ type: 'making' });
  await engine.create(wanted);
  if (row.network !== undefined) await engine.join(row.id, networkOf(row));
  if (row.releaseDue && settings?.release) {
    progress({ type: 'building' });
    const tell = (line: string): void => progress({ type: 'progress', line });
    await releaseAtStart(deps, { row, lease, engine, spec: wanted }, settings, signal, tell);
  }
  progress({ type: 'accepted' });
  signal.throwIfAborted();
  await engine.start(row.id, keys, workload);
  // Written with the next status: until then nothing is lost but a repetition.
  return { type: 'started', keysRevision: revision };
}

/** Whether the registry is asked for an image although it is there. */
export function pullsAlways(
  { baseImage }: Pick<Engine, 'baseImage'>,
  { pullPolicy }: Pick<ContainerRow, 'pullPolicy'>,
  image: string,
): boolean {
  // What has its digest is what it was.
  const isFixed = image === baseImage || image.includes('@') || builtInName(image) !== undefined;
  return pullPolicy === 'Always' && !isFixed;
}

/** The engine's form of the private network it is to be in. */
function networkOf({ userId, network }: ContainerRow): PrivateNetwork | undefined {
  return network && { owner: userId, ...network };
}

/** Credentials are shown to the platform's own registry only. */
export function authFor(
  { registryAuth, registryHost }: Pick<ComputeDeps, 'registryAuth' | 'registryHost'>,
  { userId }: Pick<ContainerRow, 'userId'>,
  image: string,
): EnsureImageOptions['auth'] | undefined {
  if (registryAuth === undefined || registryHost === undefined || !image.startsWith(`${registryHost}/`))
    return undefined;
  return () => registryAuth({ userId, image });
}

/** `lastLog` of a container; empty where its secrets cannot be opened, from which they could not be told apart. */
async function ownLastLog(
  { engine, db, sealKey }: ComputeDeps,
  id: string,
  signal: AbortSignal,
): Promise<readonly string[]> {
  try {
    const settings = await settingsOf(db, id, sealKey);
    return await lastLog(engine, id, Object.values(settings?.secrets ?? {}), signal);
  } catch (error) {
    if (error instanceof SealError) return [];
    throw error;
  }
}

/** Running means that its SSH port greets, or, for an image that has no SSH server, that its workload stands. */
export async function probe(deps: ComputeDeps, row: ContainerRow, signal: AbortSignal): Promise<Report> {
  const { engine, clock } = deps;
  const until = performance.now() + PROBE_FOR_MS;
  let pause = FIRST_PAUSE_MS;
  let expectsSsh: boolean | undefined;
  for (;;) {
    const answer = await greeting(deps, row, signal);
    if (answer === 'gone') return { type: 'done' };
    if (answer === 'none') expectsSsh ??= await hasSshServer(deps, row);
    // What fails at once should not be told to run; half a second tells.
    if (expectsSsh === false) {
      await delay(WORKLOAD_STANDS_MS, undefined, { signal });
      break;
    }
    if (answer === 'ssh') {
      const found = await engine.inspect(row.id);
      if (found !== undefined && found.address !== null) {
        return ready(deps, row, found);
      }
    }
    if (performance.now() > until) break;
    await delay(pause, undefined, { signal });
    pause = Math.min(LONGEST_PAUSE_MS, pause * 1.3);
  }
  const actual = await engine.inspect(row.id);
  if (actual?.phase !== 'running') return { type: 'done' };
  if (expectsSsh === false) return ready(deps, row, actual);
  const { startedAt } = actual;
  const upForMs = startedAt === null ? 0 : clock.now() - startedAt;
  if (!isOwnImage(row.image) && upForMs >= WORKLOAD_READY_MS) return ready(deps, row, actual);
  return { type: 'not-ready', startedAt, upForMs };
}

/** That it is ready, with what it was made of. */
async function ready(
  { engine }: ComputeDeps,
  row: ContainerRow,
  { address, externalAddress, startedAt }: ContainerState,
): Promise<Report> {
  const digest = row.image === null ? undefined : await engine.imageDigest(row.id);
  const reached = { address, externalAddress: externalAddress ?? null, startedAt };
  return { type: 'ready', ...reached, ...(digest === undefined ? {} : { digest }) };
}

/** Whether SSH is to be waited for. The base image has a server, and others are looked into. */
async function hasSshServer(deps: ComputeDeps, row: ContainerRow): Promise<boolean> {
  const { engine } = deps;
  if (imageOf(row, deps) === engine.baseImage) return true;
  try {
    return await engine.hasSshServer(row.id);
  } catch (error) {
    // The next look at the container says what is wrong.
    if (error instanceof EngineError && error.code !== 'unavailable') return true;
    throw error;
  }
}

/** Whether SSH greets. Rejects only when the engine is away or `signal` aborts. */
async function greeting(
  { engine }: ComputeDeps,
  { id }: ContainerRow,
  signal: AbortSignal,
): Promise<'ssh' | 'none' | 'gone'> {
  try {
    const connection = await engine.dial(id, 22, { timeoutMs: PROBE_TIMEOUT_MS, signal });
    try {
      const timeout = AbortSignal.any([signal, AbortSignal.timeout(PROBE_TIMEOUT_MS)]);
      const [said] = await once(connection, 'data', { signal: timeout });
      return String(said).startsWith('SSH-') ? 'ssh' : 'none';
    } finally {
      // It may still fail while it closes; nobody waits for it any more.
      connection.on('error', () => {});
      connection.destroy();
    }
  } catch (error) {
    signal.throwIfAborted();
    if (!(error instanceof EngineError)) return 'none';
    if (error.code === 'unavailable') throw error;
    return error.code === 'no_listener' ? 'none' : 'gone';
  }
}
