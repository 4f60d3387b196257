/**
 * The release command of a container: it runs once in the new image, in a container of its own, before the image gets
 * traffic. When it does not go well, the image is not taken. That it went well is in the row: a change is not released
 * again by the next owner. One that was cut off runs again.
 */
import { isDeepStrictEqual } from 'node:util';
import { type ContainerSpec, type Engine, EngineError, type OnceOutcome } from '../../../proto/ports/engine.ts';
import type { ShardLease } from '../../../proto/ports/placement.ts';
import { type ContainerRow, containerById } from '../../../storage/compute/containers.ts';
import { noteNextReleased, noteReleased } from '../../../storage/compute/releases.ts';
import { type ContainerSettings, comingSettingsOf } from '../../../storage/compute/settings.ts';
import { fenced } from '../../../storage/fenced.ts';
import type { ComputeDeps } from '../deps.ts';
import { placeApart } from '../network-rules.ts';
import { workloadOf } from '../workload-rules.ts';
import { ChangeFailure, shownLines } from './evidence.ts';
import { withoutSecrets } from './masking.ts';
import { boundedSentence, inOneLine } from './rules.ts';

/** What it may take. */
const RELEASE_MS = 10 * 60_000;
/** How often its user is told that it goes on. */
const TOLD_EVERY_MS = 5000;

/** A container, whose owner this node is. */
interface Released {
  readonly row: ContainerRow;
  readonly lease: ShardLease;
  readonly engine: Pick<Engine, 'runOnce'>;
  /** Of the image that is to come. */
  readonly spec: ContainerSpec;
}

/**
 * That the command did not go well; the message says how it ended, and what it said last, or `unavailable`: what keeps
 * it from being run for now.
 */
export class ReleaseFailure extends ChangeFailure {
  constructor(
    message: string,
    log: readonly string[],
    options?: ErrorOptions,
    code: 'refused' | 'unavailable' = 'refused',
  ) {
    super(code, message, { answers: [], log }, options);
  }
}

/**
 * Runs the release command in the image that waits for a container that runs, unless there is none, or it was run.
 * Rejects with ReleaseFailure, with EngineError, with StorageError, with PlacementError `fenced`, or with the reason of
 * `signal`.
 */
export async function releaseBefore(
  deps: ComputeDeps,
  { row, lease, ...how }: Released,
  image: string | null,
  signal: AbortSignal,
  onProgress: (line: string) => void,
): Promise<void> {
  const { db, engine, sealKey } = deps;
  const settings = await comingSettingsOf(db, row.id, sealKey);
  if (settings.release === null) return;
  if ((await containerById(db, row.id))?.nextReleased === true) return;
  // What runs at this moment writes to its files.
  const mountPaths = row.overlap && engine.sharesMountPaths ? row.mountPaths : [];
  const spec = { ...how.spec, mountPaths };
  await release(deps, { row, lease, engine: how.engine, spec }, settings, signal, onProgress);
  const written = await fenced(db, lease, async (tx) =>
    isDeepStrictEqual(await comingSettingsOf(tx, row.id, sealKey), settings)
      ? noteNextReleased(tx, row.id, image)
      : undefined,
  );
  if (written === undefined) throw new EngineError('unavailable', 'Its settings were changed meanwhile.');
}

/** Runs the release command before the first start of a container in its image: nothing else is at its mount paths. */
export async function releaseAtStart(
  deps: ComputeDeps,
  released: Released,
  settings: ContainerSettings,
  signal: AbortSignal,
  onProgress: (line: string) => void,
): Promise<void> {
  if (settings.release === null) return;
  try {
    await release(deps, released, settings, signal, onProgress);
  } catch (error) {
    if (!(error instanceof ReleaseFailure) || error.code === 'unavailable') throw error;
    const message = `${error.message} The container is not started: mend that, and start it again.`;
    throw new ReleaseFailure(message, error.evidence.log, { cause: error });
  }
  await fenced(deps.db, released.lease, (tx) => noteReleased(tx, released.row.id));
}

async function release(
  deps: ComputeDeps,
  { row, engine, spec }: Released,
  { secrets, release: command, ...settings }: ContainerSettings,
  signal: AbortSignal,
  onProgress: (line: string) => void,
): Promise<void> {
  const { db, log } = deps;
  const { workload } = workloadOf({ ...settings, secrets, release: command, command });
  const network = await db.tx((tx) => placeApart(tx, row));
  const begun = performance.now();
  const tell = (): void => onProgress(progressOf(performance.now() - begun));
  tell();
  const telling = setInterval(tell, TOLD_EVERY_MS);
  try {
    const outcome = await engine.runOnce(spec, workload, network, { timeoutMs: RELEASE_MS, signal });
    const seconds = Math.round((performance.now() - begun) / 1000);
    log.info({ containerId: row.id, exitCode: outcome.exitCode, seconds }, 'a release command has run');
    const said = shownLines(outcome.lines, Object.values(secrets));
    const problem = problemOf(outcome, said);
    if (problem !== undefined) throw new ReleaseFailure(problem, said);
  } catch (error) {
    // What the engine refuses to run is no other than what fails.
    if (!(error instanceof EngineError) || error instanceof ReleaseFailure) throw error;
    const { code } = error;
    if (code !== 'refused' && code !== 'unavailable') throw error;
    // What an engine says of it may have its words. The cause is logged, too.
    const said = withoutSecrets(error.message, Object.values(secrets));
    const cause = said === error.message ? { cause: error } : undefined;
    throw new ReleaseFailure(`The release command could not be run. ${said}`, [], cause, code);
  } finally {
    clearInterval(telling);
  }
}

/** What its user reads while it runs. */
function progressOf(ms: number): string {
  const seconds = Math.floor(ms / 1000);
  const since = seconds < 1 ? '' : ` for ${seconds} s`;
  return `The release command runs in the new image${since}. It may take ${RELEASE_MS / 60_000} minutes.`;
}

/** Why it did not go well; undefined: it did. */
function problemOf({ exitCode, oomKilled }: OnceOutcome, log: readonly string[]): string | undefined {
  if (exitCode === 0) return undefined;
  const minutes = RELEASE_MS / 60_000;
  const how = oomKilled
    ? 'ran out of memory'
    : exitCode === null
      ? `did not end within ${minutes} minutes`
      : `ended with exit code ${exitCode}`;
  const said = inOneLine(log.map((line) => ` ${line}`));
  const sentence = boundedSentence(`The release command ${how}${said === '' ? '' : `, and said last: ${said}`}`);
  return /[.!?]$/.test(sentence) ? sentence : `${sentence}.`;
}
