/**
 * How the container's actor gets from what is wanted to what is. It re-reads the world at every look, works on one difference
 * at a time, and writes each change of status to the row before anybody hears of it.
 */
import { type ContainerState, EngineError } from '../../proto/ports.ts';
import {
  type ContainerRow,
  type Desired,
  forgetContainer,
  setDesired,
  setStatus,
} from '../../storage/compute/containers.ts';
import { dispatch } from '../../supervision/index.ts';
import { refusalOf } from '../door.ts';
import {
  afterFailure,
  crashDelay,
  exitReason,
  INITIALIZING_LIMIT_MS,
  MAX_CRASHES,
  nextStep,
  RECOVERED_AFTER_MS,
} from './container-rules.ts';
import type { ContainerActorState, ContainerContext, Job } from './container-state.ts';
import { type Report, type Work, work } from './container-work.ts';
import type { ComputeDeps } from './deps.ts';

const PROBE_EVERY_MS = 300;
/** After the database did not take a status. */
const REWRITE_AFTER_MS = 1000;
const TOO_LATE = 'it could not be started within 10 minutes';
const REMOVED = -1;

/** Makes the reconciler. `onStatus` hears of every change after it is written. */
export function reconciler(deps: ComputeDeps, onStatus: (row: ContainerRow) => void) {
  const { db, clock, log } = deps;

  function begin(state: ContainerActorState, ctx: ContainerContext, what: Work): void {
    state.timer?.();
    state.timer = undefined;
    state.resting = false;
    state.lookAgain = false;
    const job: Job = { what, abort: new AbortController() };
    state.job = job;
    const report = (report: Report) => dispatch(ctx.self, { type: 'report', job, report });
    work(deps, state.row, what, AbortSignal.any([job.abort.signal, ctx.signal]), report).then(
      report,
      (error: unknown) => report({ type: 'failed', error }),
    );
  }

  function lookIn(state: ContainerActorState, ctx: ContainerContext, ms: number): void {
    state.timer?.();
    state.timer = ctx.after(ms, { type: 'look' });
  }

  /** Waits out the pause after a crash: the engine's news of that very crash must not cut it short. */
  function rest(state: ContainerActorState, ctx: ContainerContext, ms: number): void {
    state.timer?.();
    state.timer = ctx.after(ms, { type: 'rested' });
    state.resting = true;
    state.lookAgain = false;
  }

  async function setTo(
    state: ContainerActorState,
    next: ContainerRow['status'],
    reason: string | null,
    address: string | null = null,
  ) {
    const { row } = state;
    if (row.status === next && row.statusReason === reason && row.address === address) return;
    const written = await setStatus(db, row.id, { status: next, reason, address });
    // Being deleted: nobody is shown a status any more.
    if (written === undefined) return;
    state.row = written;
    log.info({ containerId: row.id, userId: row.userId, from: row.status, to: next, reason }, 'container status');
    if (next !== 'running') closeStreams(state, farewell(next));
    onStatus(written);
  }

  const tooLate = ({ status, statusSince }: ContainerRow) =>
    (status === 'pending' || status === 'initializing') && clock.now() - statusSince.getTime() > INITIALIZING_LIMIT_MS;

  async function observed(
    state: ContainerActorState,
    ctx: ContainerContext,
    actual: ContainerState | undefined,
  ): Promise<void> {
    const { row } = state;
    // What ended before this start was asked for is no crash of it.
    if (row.status === 'pending') state.countedStart = actual?.startedAt ?? state.countedStart;
    const step = nextStep(row, actual);
    if (step === 'settled') return;
    if (step !== 'launch') return begin(state, ctx, step);
    const ended = endOf(state, actual);
    if (ended !== undefined) {
      const recovered = row.status === 'running' && clock.now() - row.statusSince.getTime() > RECOVERED_AFTER_MS;
      const crashes = recovered ? 1 : state.crashes + 1;
      if (crashes > MAX_CRASHES) await setTo(state, 'failed', `it keeps crashing: ${ended}`);
      else await setTo(state, 'initializing', `restarting: ${ended}`);
      // Counted once it is written, so that an end the database did not take is met again.
      state.crashes = crashes;
      state.countedStart = actual?.startedAt ?? REMOVED;
      if (crashes > MAX_CRASHES) return;
      if (crashes > 1) return rest(state, ctx, crashDelay(crashes));
    }
    if (tooLate(state.row)) return setTo(state, 'failed', state.problem ?? state.row.statusReason ?? TOO_LATE);
    begin(state, ctx, 'launch');
  }

  async function failed(state: ContainerActorState, ctx: ContainerContext, error: unknown): Promise<void> {
    state.failures++;
    const known = error instanceof EngineError ? error : undefined;
    state.problem = known?.message;
    const next = afterFailure(known, state.failures);
    const { row } = state;
    log.warn({ containerId: row.id, failures: state.failures, err: error }, 'work on a container failed');
    const givesUp = row.desired === 'running' && row.status !== 'failed';
    if (givesUp && next.reason !== undefined) return setTo(state, 'failed', next.reason);
    if (givesUp && tooLate(row)) return setTo(state, 'failed', state.problem ?? TOO_LATE);
    lookIn(state, ctx, next.retryMs);
  }

  async function heed(state: ContainerActorState, ctx: ContainerContext, report: Report): Promise<void> {
    const { row } = state;
    const starting = row.desired === 'running' && row.status !== 'failed';
    switch (report.type) {
      case 'progress':
        return;
      case 'accepted':
        if (starting && row.status === 'pending') await setTo(state, 'initializing', null);
        return;
      case 'observed':
        return observed(state, ctx, report.actual);
      case 'ready':
        state.failures = 0;
        state.problem = undefined;
        if (starting) await setTo(state, 'running', null, report.address);
        // Whatever ends from now on ends anew.
        state.countedStart = undefined;
        return;
      case 'not-ready':
        if (starting && tooLate(row)) return setTo(state, 'failed', 'it was not ready within 10 minutes');
        return lookIn(state, ctx, PROBE_EVERY_MS);
      case 'done':
        state.failures = 0;
        state.lookAgain = true;
        return;
      case 'removed':
        await forgetContainer(db, row.id);
        state.lookAgain = false;
        ctx.sleep();
        return;
      case 'failed':
        return failed(state, ctx, report.error);
    }
  }

  /** Heeds a report; when the database is away the world is looked at again, since nothing was written. */
  async function heeded(state: ContainerActorState, ctx: ContainerContext, report: Report): Promise<void> {
    try {
      await heed(state, ctx, report);
    } catch (error) {
      if (refusalOf(error).code !== 'unavailable') throw error;
      log.warn({ containerId: state.row.id, err: error }, 'the status of a container could not be written');
      lookIn(state, ctx, REWRITE_AFTER_MS);
    }
  }

  return {
    /** Looks now, or right after the work under way; work that takes longer than a start may is given up. */
    async look(state: ContainerActorState, ctx: ContainerContext): Promise<void> {
      if (state.resting) return;
      if (state.job === undefined) return begin(state, ctx, 'observe');
      state.lookAgain = true;
      if (!tooLate(state.row)) return;
      state.job.abort.abort(new Error(TOO_LATE));
      await setTo(state, 'failed', state.problem ?? TOO_LATE);
    },

    /** The pause after a crash is over. */
    async rested(state: ContainerActorState, ctx: ContainerContext): Promise<void> {
      state.resting = false;
      await this.look(state, ctx);
    },

    /** Takes the report of a job. Reports of a job that is not the present one mean nothing. */
    async report(state: ContainerActorState, ctx: ContainerContext, job: Job, report: Report): Promise<void> {
      if (job !== state.job) return;
      if (report.type === 'progress') {
        state.progress = report.line;
        return;
      }
      state.progress = undefined;
      if (report.type !== 'accepted') state.job = undefined;
      // It served a wish that was taken back: whatever it came to, look again.
      if (job.abort.signal.aborted) state.lookAgain = true;
      else await heeded(state, ctx, report);
      if (state.lookAgain && state.job === undefined) begin(state, ctx, 'observe');
    },

    /** Writes what the user wants, closes what depended on the state before, and sets off. */
    async want(state: ContainerActorState, ctx: ContainerContext, desired: Desired): Promise<boolean> {
      const written = await setDesired(db, state.row.id, desired, desired === 'running' ? 'pending' : 'stopped');
      if (written === undefined) return false;
      state.row = written;
      state.crashes = 0;
      state.failures = 0;
      state.problem = undefined;
      if (desired !== 'running') closeStreams(state, { code: 1000, reason: `container ${desired}` });
      if (desired !== 'deleted') onStatus(written);
      state.resting = false;
      state.job?.abort.abort(new Error('another state is wanted'));
      await this.look(state, ctx);
      return true;
    },
  };
}

/** Why the workload ended, when this end was not counted yet; undefined when nothing ended. */
function endOf(state: ContainerActorState, actual: ContainerState | undefined): string | undefined {
  const { row } = state;
  if (row.status === 'pending') return undefined;
  if (actual === undefined) {
    return row.status === 'running' && state.countedStart !== REMOVED ? 'it was removed from outside' : undefined;
  }
  if (actual.startedAt === null || actual.startedAt === state.countedStart) return undefined;
  return exitReason(actual);
}

/** How a terminal of a container that does not run (any more) is closed: 1012 asks its client to come back. */
export function farewell(status: ContainerRow['status']): { code: number; reason: string } {
  if (status === 'stopped' || status === 'failed') return { code: 1000, reason: `container ${status}` };
  return { code: 1012, reason: 'container restarts' };
}

function closeStreams(state: ContainerActorState, end: { code: number; reason: string }): void {
  for (const stream of state.streams) dispatch(stream, { type: 'close', ...end });
  state.streams.clear();
}
