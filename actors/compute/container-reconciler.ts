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
const REMOVED = -1;

/** Makes the reconciler. `onStatus` hears of every change after it is written. */
export function reconciler(deps: ComputeDeps, onStatus: (row: ContainerRow) => void) {
  const { db, clock, log } = deps;

  function begin(state: ContainerActorState, ctx: ContainerContext, what: Work): void {
    state.timer?.();
    state.timer = undefined;
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
    if (next !== 'running') closeStreams(state, 1012, 'container restarts');
    onStatus(written);
  }

  const tooLate = ({ status, statusSince }: ContainerRow) =>
    (status === 'pending' || status === 'initializing') && clock.now() - statusSince.getTime() > INITIALIZING_LIMIT_MS;

  async function observed(
    state: ContainerActorState,
    ctx: ContainerContext,
    actual: ContainerState | undefined,
  ): Promise<void> {
    const step = nextStep(state.row, actual);
    if (step === 'settled') return;
    if (step !== 'launch') return begin(state, ctx, step);
    const ended = endOf(state, actual);
    if (ended !== undefined) {
      const { row } = state;
      const recovered = row.status === 'running' && clock.now() - row.statusSince.getTime() > RECOVERED_AFTER_MS;
      state.crashes = recovered ? 1 : state.crashes + 1;
      state.countedStart = actual?.startedAt ?? REMOVED;
      if (state.crashes > MAX_CRASHES) return setTo(state, 'failed', `it keeps crashing: ${ended}`);
      await setTo(state, 'initializing', `restarting: ${ended}`);
      if (state.crashes > 1) return lookIn(state, ctx, crashDelay(state.crashes));
    }
    if (tooLate(state.row))
      return setTo(state, 'failed', state.row.statusReason ?? 'it could not be started within 10 minutes');
    begin(state, ctx, 'launch');
  }

  async function failed(state: ContainerActorState, ctx: ContainerContext, error: unknown): Promise<void> {
    state.failures++;
    const known = error instanceof EngineError ? error : undefined;
    const next = afterFailure(known, state.failures);
    const { row } = state;
    log.warn({ containerId: row.id, failures: state.failures, err: error }, 'work on a container failed');
    const givesUp = row.desired === 'running' && row.status !== 'failed';
    if (givesUp && next.reason !== undefined) return setTo(state, 'failed', next.reason);
    if (givesUp && tooLate(row))
      return setTo(state, 'failed', known?.message ?? 'it could not be started within 10 minutes');
    lookIn(state, ctx, next.retryMs);
  }

  async function heed(state: ContainerActorState, ctx: ContainerContext, report: Report): Promise<void> {
    const { row } = state;
    const starting = row.desired === 'running' && row.status !== 'failed';
    switch (report.type) {
      case 'accepted':
        if (starting && row.status === 'pending') await setTo(state, 'initializing', null);
        return;
      case 'observed':
        return observed(state, ctx, report.actual);
      case 'ready':
        state.failures = 0;
        if (starting) await setTo(state, 'running', null, report.address);
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

  return {
    /** Looks now, or right after the work under way. */
    look(state: ContainerActorState, ctx: ContainerContext): void {
      if (state.job === undefined) begin(state, ctx, 'observe');
      else state.lookAgain = true;
    },

    /** Takes the report of a job. Reports of a job that is not the present one mean nothing. */
    async report(state: ContainerActorState, ctx: ContainerContext, job: Job, report: Report): Promise<void> {
      if (job !== state.job) return;
      if (report.type !== 'accepted') state.job = undefined;
      // It served a wish that was taken back: whatever it came to, look again.
      if (job.abort.signal.aborted) state.lookAgain = true;
      else await heed(state, ctx, report);
      if (state.lookAgain && state.job === undefined) begin(state, ctx, 'observe');
    },

    /** Writes what the user wants, closes what depended on the state before, and sets off. */
    async want(state: ContainerActorState, ctx: ContainerContext, desired: Desired): Promise<boolean> {
      const written = await setDesired(db, state.row.id, desired, desired === 'running' ? 'pending' : 'stopped');
      if (written === undefined) return false;
      state.row = written;
      state.crashes = 0;
      state.failures = 0;
      if (desired !== 'running') closeStreams(state, 1000, `container ${desired}`);
      if (desired !== 'deleted') onStatus(written);
      state.job?.abort.abort(new Error('another state is wanted'));
      this.look(state, ctx);
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

function closeStreams(state: ContainerActorState, code: number, reason: string): void {
  for (const stream of state.streams) dispatch(stream, { type: 'close', code, reason });
  state.streams.clear();
}
