/**
 * How the container's actor gets from what is wanted to what is. It reads row and engine at every look, works on one
 * difference at a time, and writes each change of status to the row before it tells anyone.
 *
 * What the actor is doing (`job`, `timer` and `isBackingOff` of its state):
 *
 *   idle      --look--> observing
 *   observing --nothing differs--> idle
 *             --something differs--> working on that
 *             --second crash or a later one--> backing off
 *             --the row is gone--> asleep
 *   working   --done, or told other keys--> observing
 *             --launched--> probing
 *             --removed--> asleep, the row forgotten
 *             --failed--> waiting, longer each time
 *   probing   --ready--> idle
 *             --not ready--> waiting; silent for too long --> working: a restart
 *             --failed--> waiting
 *   waiting   --its time, or any look--> observing
 *   backing off --its time, or another desired state--> observing
 *   observing, working, probing --look--> the same, then observing
 *             --another desired state, a restart asked for, or 10 minutes over--> given up, then observing
 *             --the database is away--> waiting
 *
 * What its row says (`status`), as far as it is written here; users write `pending`, `stopped` and deletions:
 *
 *   pending      --the engine made it--> initializing
 *   pending, initializing --ready--> running
 *                --cannot be done, or 10 minutes over--> failed
 *   running      --ended, or changed from outside--> initializing
 *   initializing, running --ended, and is not to be started again--> stopped
 *   initializing, running --ended more than `MAX_CRASHES` times without recovery--> failed
 */
import { type ContainerState, EngineError } from '../../../proto/ports/engine.ts';
import { isFenced } from '../../../proto/ports/placement.ts';
import { type ContainerRow, clearRestart } from '../../../storage/compute/containers.ts';
import { forgetContainer } from '../../../storage/compute/deleted.ts';
import { fenced } from '../../../storage/fenced.ts';
import { dispatch } from '../../../supervision/index.ts';
import { refusalOf } from '../../service/dispatch.ts';
import type { ComputeDeps } from '../deps.ts';
import { closeTerminals } from './attached-terminals.ts';
import { evidenceIn, saidLast } from './evidence.ts';
import { beginMaking, endMaking } from './making.ts';
import {
  afterFailure,
  crashDelay,
  endOf,
  isMakingFor,
  isStarting,
  isTendedElsewhere,
  isTooLate,
  MAKING,
  MAX_CRASHES,
  MAX_SILENT_RESTARTS,
  nextStep,
  OWN_ERROR,
  RECOVERED_AFTER_MS,
  REMOVED,
  SILENT_LIMIT_MS,
  startsAgain,
  TOO_LATE,
  triedAgain,
  waitsForReady,
  withKeysApplied,
} from './rules.ts';
import { type ContainerActorState, type ContainerContext, type Job, noteDrift } from './state.ts';
import { StatusWriter } from './status.ts';
import type { EngineHealth } from './sweeps.ts';
import { type Report, type Work, work } from './work.ts';

/** Between two probes of a container that takes long. */
const PROBE_EVERY_MS = 300;
/** After the database did not take a status. */
const REWRITE_AFTER_MS = 1000;
/** Between two notes of how far an image is. */
const PROGRESS_NOTED_MS = 5000;
/** An engine that makes a container for longer than this copies files: its user reads so. */
const MAKING_NOTED_MS = 5000;
type ReportOf<T extends Report['type']> = Extract<Report, { readonly type: T }>;

/** Brings containers to what is wanted of them. What it knows of one is in the state of that one's actor. */
export class ContainerReconciler {
  readonly #deps: ComputeDeps;
  readonly #status: StatusWriter;
  readonly #health: EngineHealth;

  /** `onStatus` hears of every change after it is written; `health` is what the watcher knows of the engine. */
  constructor(deps: ComputeDeps, onStatus: (row: ContainerRow) => void, health: EngineHealth) {
    this.#deps = deps;
    this.#status = new StatusWriter(deps, onStatus);
    this.#health = health;
  }

  /** Reconciles now, or right after the work under way; work that takes longer than a start may is given up. */
  async reconcile(state: ContainerActorState, ctx: ContainerContext): Promise<void> {
    if (state.isBackingOff) return;
    if (state.job === undefined) return this.#begin(state, ctx, 'observe');
    state.reconcileAgain = true;
    const now = this.#deps.clock.now();
    if (!state.isBuilding && isMakingFor(state, now, MAKING_NOTED_MS)) {
      if (!state.job.abort.signal.aborted) await this.#noteProgress(state, MAKING);
      return;
    }
    if (!isTooLate(state, now)) return;
    state.job.abort.abort(new Error(TOO_LATE));
    await this.#status.set(state, 'failed', { reason: state.problem ?? TOO_LATE });
  }

  /** The pause after a crash is over. */
  async backoffOver(state: ContainerActorState, ctx: ContainerContext): Promise<void> {
    state.isBackingOff = false;
    await this.reconcile(state, ctx);
  }

  /** Takes the report of a job. Reports of a job that is not the present one mean nothing. */
  async onReport(state: ContainerActorState, ctx: ContainerContext, job: Job, report: Report): Promise<void> {
    if (job !== state.job) return;
    if (report.type === 'progress') {
      if (!job.abort.signal.aborted) await this.#noteProgress(state, report.line);
      return;
    }
    if (report.type === 'building' || report.type === 'making') {
      beginMaking(state, report.type === 'building', this.#deps.clock.now());
      if (report.type === 'making') this.#reconcileIn(state, ctx, MAKING_NOTED_MS);
      return;
    }
    endMaking(state, this.#deps.clock.now());
    state.progress = undefined;
    if (report.type !== 'accepted') state.job = undefined;
    // It served a state that is not desired any more: whatever came of it, reconcile again.
    if (job.abort.signal.aborted) state.reconcileAgain = true;
    else await this.#tryApplyReport(state, ctx, job, report);
    if (state.reconcileAgain && state.job === undefined) this.#begin(state, ctx, 'observe');
  }

  /** Takes a row in which its user changed settings, and reconciles. */
  async onSettingsChanged(state: ContainerActorState, ctx: ContainerContext, written: ContainerRow): Promise<void> {
    // A restart is asked for: what is under way is of no use any more.
    if (written.status !== state.row.status) state.job?.abort.abort(new Error('it is restarted'));
    this.#status.applyRow(state, written);
    // What is different by this change was not mended in vain.
    state.mending = false;
    await this.reconcile(state, ctx);
  }

  /** Takes a row with another desired state: closes what depended on the one before, and reconciles. */
  async setDesired(state: ContainerActorState, ctx: ContainerContext, written: ContainerRow): Promise<void> {
    if (written.desired !== 'running') closeTerminals(state, { code: 1000, reason: `container ${written.desired}` });
    this.#status.applyRow(state, written);
    state.crashes = 0;
    state.failures = 0;
    state.problem = undefined;
    state.isBackingOff = false;
    state.tolerated = undefined;
    state.silentRestarts = 0;
    state.job?.abort.abort(new Error('another state is wanted'));
    await this.reconcile(state, ctx);
  }

  /** Applies a report. When the database is away nothing was written: it reconciles again soon. */
  async #tryApplyReport(state: ContainerActorState, ctx: ContainerContext, job: Job, report: Report): Promise<void> {
    try {
      await this.#applyReport(state, ctx, job, report);
    } catch (error) {
      // Another node looks after it: to go on would be to fight with that.
      if (isFenced(error) || refusalOf(error).code !== 'unavailable') throw error;
      state.triedSince = undefined;
      this.#deps.log.warn({ containerId: state.row.id, err: error }, 'the status of a container could not be written');
      this.#reconcileIn(state, ctx, REWRITE_AFTER_MS);
    }
  }

  /** Changes state and status as the report says. */
  async #applyReport(state: ContainerActorState, ctx: ContainerContext, job: Job, report: Report): Promise<void> {
    const { row } = state;
    switch (report.type) {
      case 'progress':
      case 'building':
      case 'making':
        return;
      case 'accepted':
        if (isStarting(row) && row.status === 'pending') await this.#status.set(state, 'initializing');
        return;
      case 'observed':
        if (report.row === undefined) {
          state.reconcileAgain = false;
          return ctx.sleep();
        }
        // Unless this actor wrote it since: then what was read may be older.
        if (row === job.row) this.#status.applyRow(state, withKeysApplied(report.row, row.keysApplied));
        return this.#observed(state, ctx, report.actual, report.log);
      case 'started':
        return this.#started(state, ctx, report.keysRevision);
      case 'keyed':
        state.failures = 0;
        state.row = withKeysApplied(row, report.keysRevision);
        state.reconcileAgain = true;
        return;
      case 'ready':
        return this.#ready(state, report);
      case 'not-ready':
        return this.#notReady(state, ctx, report);
      case 'done':
        state.failures = 0;
        state.reconcileAgain = true;
        return;
      case 'removed':
        await fenced(this.#deps.db, state.lease, (tx) => forgetContainer(tx, row.id));
        state.reconcileAgain = false;
        return ctx.sleep();
      case 'failed':
        return this.#failed(state, ctx, job.what, report.error);
    }
  }

  /** It was launched: is it ready? */
  #started(state: ContainerActorState, ctx: ContainerContext, keysRevision: number): void {
    state.failures = 0;
    state.row = withKeysApplied(state.row, keysRevision);
    state.connection = this.#health.connections;
    const again = state.reconcileAgain;
    this.#begin(state, ctx, 'probe');
    // Most of what the engine told meanwhile is our own doing; the probe comes first.
    state.reconcileAgain = again;
  }

  async #ready(state: ContainerActorState, report: ReportOf<'ready'>): Promise<void> {
    state.failures = 0;
    state.silentRestarts = 0;
    state.problem = undefined;
    state.connection = this.#health.connections;
    if (isStarting(state.row)) await this.#status.set(state, 'running', report);
    // Whatever ends from now on ends anew.
    state.countedStart = undefined;
  }

  /** Probes again, until it is too late; a container that stays silent is started anew, a few times. */
  async #notReady(state: ContainerActorState, ctx: ContainerContext, report: ReportOf<'not-ready'>): Promise<void> {
    const { row } = state;
    if (isStarting(row) && isTooLate(state, this.#deps.clock.now())) {
      await this.#status.set(state, 'failed', { reason: 'it was not ready within 10 minutes' });
      return;
    }
    if (isStarting(row) && row.status === 'initializing') {
      const reason = waitsForReady(row.statusReason);
      if (!(await this.#status.set(state, 'initializing', { reason }))) return;
    }
    const isSilent = isStarting(row) && report.upForMs > SILENT_LIMIT_MS;
    if (!isSilent || state.silentRestarts >= MAX_SILENT_RESTARTS) return this.#reconcileIn(state, ctx, PROBE_EVERY_MS);
    state.silentRestarts++;
    // The end that follows is our doing.
    state.countedStart = report.startedAt ?? state.countedStart;
    this.#deps.log.warn({ containerId: row.id }, 'a container says nothing and is started anew');
    this.#begin(state, ctx, 'restart');
  }

  async #observed(
    state: ContainerActorState,
    ctx: ContainerContext,
    actual: ContainerState | undefined,
    log: readonly string[] = [],
  ): Promise<void> {
    // What ended before this start was asked for is no crash of it.
    if (state.row.status === 'pending') state.countedStart = actual?.startedAt ?? state.countedStart;
    state.triedSince ??= this.#deps.clock.now();
    const runs = actual?.phase === 'running';
    if (state.row.restart && state.row.desired === 'running' && !runs) {
      const cleared = await fenced(this.#deps.db, state.lease, (tx) => clearRestart(tx, state.row.id));
      if (cleared !== undefined) this.#status.applyRow(state, cleared);
    }
    if (actual !== undefined) await this.#status.noteRun(state, actual);
    if (runs) noteDrift(state, actual, this.#deps.log);
    const step = nextStep(state.row, actual, state.tolerated);
    if (isTendedElsewhere(step) || (step === 'others' && state.successions.size > 0)) return;
    if (step === 'restart') {
      // The end that follows is our doing.
      state.countedStart = actual?.startedAt ?? state.countedStart;
      const reason = 'restarting: it was changed from outside';
      if (state.row.status === 'running' && !(await this.#status.set(state, 'initializing', { reason }))) return;
    }
    if (step === 'restart' || step === 'adjust' || step === 'join') state.mending = true;
    if (step !== 'launch') return this.#begin(state, ctx, step);
    if (await this.#crashed(state, ctx, actual, log)) return;
    if (isTooLate(state, this.#deps.clock.now())) {
      await this.#status.set(state, 'failed', { reason: state.problem ?? TOO_LATE });
      return;
    }
    this.#begin(state, ctx, 'launch');
  }

  /** Counts the end of a workload that should run. Resolves with whether it is not to be started again at once. */
  async #crashed(
    state: ContainerActorState,
    ctx: ContainerContext,
    actual: ContainerState | undefined,
    log: readonly string[],
  ): Promise<boolean> {
    const { row } = state;
    const ended = endOf(row, actual, state.countedStart);
    if (ended === undefined) return false;
    const stoodFor = this.#deps.clock.now() - row.statusSince.getTime();
    const recovered = row.status === 'running' && stoodFor > RECOVERED_AFTER_MS;
    // What ended with the engine did not crash.
    const interrupted = state.connection !== undefined && state.connection !== this.#health.connections;
    if (!interrupted && !startsAgain(row.restartPolicy, actual)) {
      await this.#status.set(state, 'stopped', { reason: ended, ended: true, isOver: true, log });
      return true;
    }
    const crashes = recovered ? 1 : state.crashes + (interrupted ? 0 : 1);
    const written = await (crashes > MAX_CRASHES
      ? this.#status.set(state, 'failed', { reason: `it keeps crashing: ${ended}${saidLast(log)}`, ended: true, log })
      : this.#status.set(state, 'initializing', { reason: `restarting: ${ended}`, ended: true, restarted: true }));
    if (!written) return true;
    // Counted once it is written, so that an end the database did not take is met again.
    state.crashes = state.row.status === 'pending' ? 0 : crashes;
    state.countedStart = actual?.startedAt ?? REMOVED;
    if (crashes > MAX_CRASHES) return true;
    if (crashes <= 1 || interrupted) return false;
    this.#backOff(state, ctx, crashDelay(crashes));
    return true;
  }

  async #failed(state: ContainerActorState, ctx: ContainerContext, what: Work, error: unknown): Promise<void> {
    // The database is away: nothing is known, and nothing is held against the container.
    if (!(error instanceof EngineError) && refusalOf(error).code === 'unavailable') throw error;
    const now = this.#deps.clock.now();
    const known = error instanceof EngineError ? error : undefined;
    const next = afterFailure(known, ++state.failures);
    const { row } = state;
    this.#deps.log.warn(
      { containerId: row.id, what, failures: state.failures, err: error },
      'work on a container failed',
    );
    if (known?.code === 'unavailable') state.mending = false;
    const isEngineAway = what === 'observe' && known?.code === 'unavailable';
    const problem = known?.message ?? OWN_ERROR;
    if (isEngineAway) state.triedSince = undefined;
    else {
      state.triedSince ??= now;
      state.problem = problem;
    }
    const starting = isStarting(row);
    if (starting && what === 'launch' && next.reason !== undefined) {
      await this.#status.set(state, 'failed', { reason: next.reason, log: evidenceIn(error).log });
    } else if (starting && isTooLate(state, this.#deps.clock.now())) {
      await this.#status.set(state, 'failed', { reason: problem });
    } else {
      // Whoever waits for it reads why, and until when.
      const why = isEngineAway ? `Waiting for the container engine. ${problem}` : problem;
      const reason = triedAgain(why, now + next.retryMs);
      if (starting && row.status !== 'running') await this.#status.set(state, row.status, { reason });
      this.#reconcileIn(state, ctx, next.retryMs);
    }
  }

  /** Writes down how far the image of a start is, now and then: lists show the row. */
  async #noteProgress(state: ContainerActorState, line: string): Promise<void> {
    state.progress = line;
    const isDue = this.#deps.clock.now() - state.progressNotedAt >= PROGRESS_NOTED_MS;
    if (!isDue || state.row.status !== 'pending' || state.row.desired !== 'running') return;
    state.progressNotedAt = this.#deps.clock.now();
    try {
      await this.#status.set(state, 'pending', { reason: line });
    } catch (error) {
      // It is known here all the same.
      if (isFenced(error) || refusalOf(error).code !== 'unavailable') throw error;
    }
  }

  #begin(state: ContainerActorState, ctx: ContainerContext, what: Work): void {
    state.timer?.();
    state.timer = undefined;
    state.isBackingOff = false;
    state.reconcileAgain = false;
    const job: Job = { what, row: state.row, abort: new AbortController(), done: Promise.resolve() };
    state.job = job;
    const report = (report: Report) => dispatch(ctx.self, { type: 'report', job, report });
    // Not AbortSignal.any: of each signal that makes, the actor's own would keep a trace for as long as it lives.
    const giveUp = (): void => job.abort.abort(ctx.signal.reason);
    if (ctx.signal.aborted) giveUp();
    else ctx.signal.addEventListener('abort', giveUp, { once: true });
    job.done = work(this.#deps, state, what, job.abort.signal, report)
      .finally(() => ctx.signal.removeEventListener('abort', giveUp))
      .then(report, (error: unknown) => report({ type: 'failed', error }));
  }

  #reconcileIn(state: ContainerActorState, ctx: ContainerContext, ms: number): void {
    state.timer?.();
    state.timer = ctx.after(ms, { type: 'look' });
  }

  /** Waits out the pause after a crash: the engine's news of that very crash must not cut it short. */
  #backOff(state: ContainerActorState, ctx: ContainerContext, ms: number): void {
    state.timer?.();
    state.timer = ctx.after(ms, { type: 'backoff-over' });
    state.isBackingOff = true;
    state.reconcileAgain = false;
  }
}
