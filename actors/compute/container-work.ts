/** The pieces of work on the engine, run beside the mailbox of the container's actor. Each is safe to repeat. */
import { once } from 'node:events';
import { type ContainerState, EngineError, type EnsureImageOptions } from '../../proto/ports.ts';
import type { ContainerRow } from '../../storage/compute/containers.ts';
import { keysOfContainer } from '../../storage/compute/ssh-keys.ts';
import { STOP_GRACE_SECONDS, type Step, specOf, WORKLOAD_READY_MS } from './container-rules.ts';
import type { ComputeDeps } from './deps.ts';
import { hostnameOf } from './views.ts';

/** A piece of work: a step, or a first look at what there is. */
export type Work = Exclude<Step, 'settled'> | 'observe';

/** What work tells the actor. All but `accepted` and `progress` end it. */
export type Report =
  | { readonly type: 'accepted' }
  /** How far the image is, for its owner. */
  | { readonly type: 'progress'; readonly line: string }
  | { readonly type: 'observed'; readonly actual: ContainerState | undefined }
  | { readonly type: 'ready'; readonly address: string | null }
  | { readonly type: 'not-ready' }
  | { readonly type: 'done' }
  | { readonly type: 'removed' }
  | { readonly type: 'failed'; readonly error: unknown };

const PROBE_TIMEOUT_MS = 2000;

/** Does one piece of work and returns its last report. Rejects with EngineError, StorageError or the signal's reason. */
export async function work(
  deps: ComputeDeps,
  row: ContainerRow,
  what: Work,
  signal: AbortSignal,
  progress: (report: Report) => void,
): Promise<Report> {
  switch (what) {
    case 'observe':
      return { type: 'observed', actual: await deps.engine.inspect(row.id) };
    case 'launch':
      await launch(deps, row, signal, progress);
      return { type: 'done' };
    case 'probe':
      return probe(deps, row, signal);
    case 'stop':
      await deps.engine.stop(row.id, STOP_GRACE_SECONDS);
      return { type: 'done' };
    case 'remove':
      await deps.engine.remove(row.id);
      return { type: 'removed' };
  }
}

async function launch(
  deps: ComputeDeps,
  row: ContainerRow,
  signal: AbortSignal,
  progress: (report: Report) => void,
): Promise<void> {
  const { engine, db, log } = deps;
  const image = row.image ?? deps.defaultImage;
  const pullsAlways = row.pullPolicy === 'Always' && image !== engine.baseImage;
  const auth = authFor(deps, row, image);
  await engine.ensureImage(image, {
    always: pullsAlways,
    signal,
    onProgress: (line) => {
      log.debug({ containerId: row.id, image }, line);
      progress({ type: 'progress', line });
    },
    ...(auth === undefined ? {} : { auth }),
  });
  signal.throwIfAborted();
  const authorizedKeys = [deps.platformKey, ...(await keysOfContainer(db, row.id))];
  const spec = specOf(row, { image, hostname: hostnameOf(row.id, deps.domain), authorizedKeys });
  await engine.create(pullsAlways ? { ...spec, followImage: true } : spec);
  progress({ type: 'accepted' });
  signal.throwIfAborted();
  await engine.start(row.id, authorizedKeys);
}

/** Credentials are shown to the platform's own registry only. */
function authFor(
  { registryAuth, registryHost }: ComputeDeps,
  { userId }: ContainerRow,
  image: string,
): EnsureImageOptions['auth'] | undefined {
  if (registryAuth === undefined || registryHost === undefined || !image.startsWith(`${registryHost}/`))
    return undefined;
  return () => registryAuth({ userId, image });
}

/** Running means that its SSH port greets, or, for an image that has no sshd, that its workload stands. */
async function probe(deps: ComputeDeps, row: ContainerRow, signal: AbortSignal): Promise<Report> {
  const { engine, clock } = deps;
  const actual = await engine.inspect(row.id);
  if (actual?.phase !== 'running') return { type: 'done' };
  try {
    const connection = await engine.dial(row.id, 22, { timeoutMs: PROBE_TIMEOUT_MS, signal });
    try {
      const timeout = AbortSignal.any([signal, AbortSignal.timeout(PROBE_TIMEOUT_MS)]);
      const [greeting] = await once(connection, 'data', { signal: timeout });
      if (String(greeting).startsWith('SSH-')) return { type: 'ready', address: actual.address };
    } finally {
      // It may still fail while it closes; nobody waits for it any more.
      connection.on('error', () => {});
      connection.destroy();
    }
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof EngineError && error.code === 'unavailable') throw error;
  }
  const upFor = actual.startedAt === null ? 0 : clock.now() - actual.startedAt;
  if (row.image !== null && upFor >= WORKLOAD_READY_MS) return { type: 'ready', address: actual.address };
  return { type: 'not-ready' };
}
