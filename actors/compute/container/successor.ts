/**
 * A container of another image beside the one that runs, whose place it takes once it is ready: nobody who asks meets a
 * container that does not run. For containers without mount paths, since two would write to them.
 *
 *   image there --> begun beside the other --ready--> in its place: written --30 s--> the other is ended
 *                                          --ended, not healthy, or cannot be made--> removed; the other runs on
 */
import { setTimeout as delay } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { type Engine, EngineError, successorId } from '../../../proto/ports/engine.ts';
import type { ShardLease } from '../../../proto/ports/placement.ts';
import { beginPromotion, type Promotion } from '../../../storage/compute/changes.ts';
import type { ContainerRow } from '../../../storage/compute/containers.ts';
import { type ContainerSettings, comingSettingsOf } from '../../../storage/compute/settings.ts';
import { fenced } from '../../../storage/fenced.ts';
import type { ComputeDeps } from '../deps.ts';
import { placeBeside } from '../network-rules.ts';
import { hostnameOf } from '../views.ts';
import { workloadOf } from '../workload-rules.ts';
import { ChangeFailure, CheckAnswers, lastLog, saidLast } from './evidence.ts';
import { listeningPorts, overSentence, problemOf } from './health-look.ts';
import { boundedSentence } from './rules.ts';
import { keysOf, ownEngine, probe, pullsAlways, restoreEnvironment, wantedSpec } from './work.ts';

/** How long a new one may take until it is ready, unless a check of its health has a grace of its own. */
const READY_MS = 120_000;
/** How long the new one is waited for at ports where the one before answers. */
const PORTS_MS = 15_000;
const LOOK_EVERY_MS = 250;
const DIAL_MS = 1000;
const MOST_PORTS = 32;

/** What a container was begun with that took the place of another. */
export interface Succession {
  readonly promotion: Promotion;
  readonly settings: ContainerSettings;
  /** Of its image; undefined: not known. */
  readonly digest: string | undefined;
}

/**
 * Begins the successor of a container, whose next image is there, waits until it is ready, and gives it the place.
 * Rejects with EngineError, whose message says what stood in the way, with StorageError, with PlacementError `fenced`,
 * or with the reason of `signal`; then the container runs on as it was.
 */
export async function succeed(
  deps: ComputeDeps,
  { row, lease }: { readonly row: ContainerRow; readonly lease: ShardLease },
  image: string | null,
  signal: AbortSignal,
): Promise<Succession> {
  const engine = ownEngine(deps, row, lease);
  const next: ContainerRow = { ...row, image };
  const { db, sealKey } = deps;
  const settings = await comingSettingsOf(db, row.id, sealKey);
  const secrets = Object.values(settings.secrets);
  const { workload, isConfigured = false } = workloadOf(settings);
  const { keys, revision } = await keysOf(deps, row);
  const wanted = wantedSpec(deps, next, keys);
  // Where machines pull by themselves, another one may have an older image of the name.
  const spec = pullsAlways(engine, next, wanted.image) ? { ...wanted, followImage: true } : wanted;
  const network = await db.tx((tx) => placeBeside(tx, row));
  await untilForgotten(deps, row, signal);
  const answers = new CheckAnswers();
  try {
    await engine.beginSuccessor(isConfigured ? { ...spec, isConfigured } : spec, keys, workload, network);
    const ports = settings.health === null ? await askedPorts(deps.engine, row, signal) : [];
    const { digest, ...ready } = await untilReady(deps, next, secrets, signal);
    await untilHealthy(deps, next, settings, answers, signal);
    if (settings.health === null) await untilAnswering(deps.engine, row.id, { ports, secrets }, signal);
    if (!isDeepStrictEqual(await comingSettingsOf(db, row.id, sealKey), settings))
      throw new EngineError('unavailable', 'Its settings were changed meanwhile.');
    // An alias that it has no more may be another's by now.
    const begun = await fenced(db, lease, (tx) => beginPromotion(tx, row.id, image));
    if (!isDeepStrictEqual(begun?.network, row.network))
      throw new EngineError('unavailable', 'It was changed meanwhile.');
    signal.throwIfAborted();
    await engine.promote(row.id, network);
    const place = network?.place ?? null;
    return {
      promotion: { ...ready, keysRevision: revision, place, isChecked: settings.health !== null },
      settings,
      digest,
    };
  } catch (error) {
    const failure = await withEvidence(deps, row.id, error, { answers, secrets }, signal);
    // First: who is killed in between leaves a successor, at which the next owner does the same.
    await restoreEnvironment(deps, engine, row);
    await engine.endOthers(row.id, 0).catch((err: unknown) => {
      deps.log.warn({ containerId: row.id, err }, 'the successor of a container could not be removed');
    });
    throw failure;
  }
}

/** The error, with what the one that failed said last, if that stood in the way. */
async function withEvidence(
  { engine }: ComputeDeps,
  rowId: string,
  error: unknown,
  { answers, secrets }: { readonly answers: CheckAnswers; readonly secrets: readonly string[] },
  signal: AbortSignal,
): Promise<unknown> {
  if (signal.aborted || !(error instanceof EngineError)) return error;
  const log = await lastLog(engine, successorId(rowId), secrets, signal).catch(() => []);
  return new ChangeFailure(error.code, error.message, { answers: answers.texts(), log }, { cause: error });
}

/**
 * Waits until nobody comes any more to the one whose place this container took, which is ended before another begins:
 * who asked for it by its alias a moment before may still be on the way there.
 */
async function untilForgotten(
  { clock, engine }: Pick<ComputeDeps, 'clock' | 'engine'>,
  { predecessorSince, network }: Pick<ContainerRow, 'predecessorSince' | 'network'>,
  signal: AbortSignal,
): Promise<void> {
  if (predecessorSince === null || !network?.alias) return;
  while (clock.now() - predecessorSince.getTime() < engine.aliasLastsMs)
    await delay(LOOK_EVERY_MS, undefined, { signal });
}

/** Waits until it runs as a container does that was started. */
async function untilReady(
  deps: ComputeDeps,
  row: ContainerRow,
  secrets: readonly string[],
  signal: AbortSignal,
): Promise<Pick<Promotion, 'address' | 'externalAddress' | 'startedAt'> & Pick<Succession, 'digest'>> {
  const id = successorId(row.id);
  const until = performance.now() + READY_MS;
  for (;;) {
    const report = await probe(deps, { ...row, id }, signal);
    if (report.type === 'ready') {
      const { address, externalAddress, startedAt, digest } = report;
      return { address, externalAddress, startedAt: startedAt === null ? null : new Date(startedAt), digest };
    }
    await mustStand(deps.engine, id, secrets, signal);
    if (performance.now() > until)
      throw new EngineError('refused', `It was not ready within ${READY_MS / 1000} s: its SSH port does not answer.`);
    await delay(LOOK_EVERY_MS, undefined, { signal });
  }
}

/** Waits until its check is well; does nothing without one. */
async function untilHealthy(
  deps: ComputeDeps,
  row: ContainerRow,
  { health, secrets: values }: Pick<ContainerSettings, 'health' | 'secrets'>,
  answers: CheckAnswers,
  signal: AbortSignal,
): Promise<void> {
  if (health === null) return;
  const { engine, containersDomain } = deps;
  const [secrets, hostname] = [Object.values(values), hostnameOf(row.id, containersDomain)];
  const id = successorId(row.id);
  const until = performance.now() + health.grace * 1000;
  for (;;) {
    const problem = await problemOf(engine, id, health, { hostname, secrets }, signal);
    if (problem === undefined) return;
    answers.add(problem);
    await mustStand(engine, id, secrets, signal);
    if (performance.now() > until)
      throw new EngineError('refused', boundedSentence(await overSentence(engine, id, health, problem, signal)));
    await delay(1000, undefined, { signal });
  }
}

/** Waits until the new one answers at ports where the one before does; for so long, since it may be meant otherwise. */
async function untilAnswering(
  engine: Engine,
  rowId: string,
  { ports, secrets }: { readonly ports: readonly number[]; readonly secrets: readonly string[] },
  signal: AbortSignal,
): Promise<void> {
  const id = successorId(rowId);
  const until = performance.now() + PORTS_MS;
  let left = ports;
  while (left.length > 0 && performance.now() < until) {
    const answered = await answering(engine, id, left, signal);
    left = left.filter((port) => !answered.includes(port));
    if (left.length === 0) return;
    await mustStand(engine, id, secrets, signal);
    await delay(LOOK_EVERY_MS, undefined, { signal });
  }
}

/** Those of `ports` where a container takes connections. */
async function answering(
  engine: Engine,
  id: string,
  ports: readonly number[],
  signal: AbortSignal,
): Promise<readonly number[]> {
  const found: number[] = [];
  for (const port of ports) {
    try {
      const connection = await engine.dial(id, port, { timeoutMs: DIAL_MS, signal });
      connection.on('error', () => undefined);
      connection.destroy();
      found.push(port);
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof EngineError)) throw error;
    }
  }
  return found;
}

/**
 * Where the one before takes connections that others ask for: at the ports that its rules lead to, and, where others
 * find it by an alias, at those on which it is seen to listen.
 */
async function askedPorts(
  engine: Engine,
  { id, ports, network }: Pick<ContainerRow, 'id' | 'ports' | 'network'>,
  signal: AbortSignal,
): Promise<readonly number[]> {
  const seen = network?.alias ? await listeningPorts(engine, id, signal) : [];
  const asked = [...new Set([...ports.map(({ target_port }) => target_port), ...seen])];
  return answering(engine, id, asked.slice(0, MOST_PORTS), signal);
}

/** Rejects with what it said last once it has ended. */
async function mustStand(engine: Engine, id: string, secrets: readonly string[], signal: AbortSignal): Promise<void> {
  const state = await engine.inspect(id);
  if (state?.phase === 'running') return;
  if (state === undefined) throw new EngineError('unavailable', 'The new container is gone.');
  const how = state.oomKilled ? 'It ran out of memory' : `It ended with exit code ${state.exitCode ?? 'unknown'}`;
  const said = saidLast(await lastLog(engine, id, secrets, signal));
  throw new EngineError('refused', boundedSentence(said === '' ? `${how}.` : `${how}${said}`));
}
