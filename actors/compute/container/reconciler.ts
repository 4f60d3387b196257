/**
 * How the container's actor gets from what is wanted to what is. It re-reads the world at every look, works on one
 * difference at a time, and writes each change of status to the row before anybody hears of it.
 */

import { type ContainerState, EngineError } from '../../../proto/ports/engine.ts';
import { isFenced } from '../../../proto/ports/placement.ts';
import { type ContainerRow, clearRestart, forgetContainer, setStatus } from '../../../storage/compute/containers.ts';
import { tellCompute } from '../../../storage/compute/news.ts';
import { fenced } from '../../../storage/fenced.ts';
import { append } from '../../../storage/outbox.ts';
import { dispatch } from '../../../supervision/index.ts';
import { refusalOf } from '../../service/dispatch.ts';
import type { ComputeDeps } from '../deps.ts';
import { externalIp } from '../views.ts';
import { startedNotice, stoppedNotice } from './notices.ts';
import {
  afterFailure,
  crashDelay,
  driftOf,
  exitReason,
  INITIALIZING_LIMIT_MS,
  MAX_CRASHES,
  MAX_SILENT_RESTARTS,
  nextStep,
  RECOVERED_AFTER_MS,
  SILENT_LIMIT_MS,
  triedAgain,
  withoutNextTry,
} from './rules.ts';
import type { ContainerActorState, ContainerContext, Job } from './state.ts';
import type { EngineHealth } from './watcher.ts';
import { type Report, type Work, work } from './work.ts';

/** Between two probes of a container that takes long. */
const PROBE_EVERY_MS = 300;
/** After the database did not take a status. */
const REWRITE_AFTER_MS = 1000;
/** Between two notes of how far an image is. */
const PROGRESS_NOTED_MS = 5000;
const TOO_LATE = 'it could not be started within 10 minutes';
const REMOVED = -1;
const REMOVED_FROM_OUTSIDE = 'it was removed from outside, and of its files only those at its mount paths are left';

/** A change of status: why, where it is reached, and whether its workload ended without anybody's wish. */
interface Change {
  readonly reason?: string | null;
  readonly address?: string | null;
  readonly externalAddress?: string | null;
  readonly ended?: boolean;
}

/**
 * Makes the reconciler. `onStatus` hears of every change after it is written; `health` is what the watcher knows of the
 * engine.
 */
export function reconciler(deps: ComputeDeps, onStatus: (row: ContainerRow) => void, health: EngineHealth) {
  const { db, clock, log } = deps;

  function begin(state: ContainerActorState, ctx: ContainerContext, what: Work): void {
    state.timer?.();
    state.timer = undefined;
    state.resting = false;
    state.lookAgain = false;
    const job: Job = { what, row: state.row, abort: new AbortController(), done: Promise.resolve() };
    state.job = job;
    const report = (report: Report) => dispatch(ctx.self, { type: 'report', job, report });
    // Not AbortSignal.any: of each signal that makes, the actor's own would keep a trace for as long as it lives.
    const giveUp = (): void => job.abort.abort(ctx.signal.reason);
    if (ctx.signal.aborted) giveUp();
    else ctx.signal.addEventListener('abort', giveUp, { once: true });
    job.done = work(deps, state, what, job.abort.signal, report)
      .finally(() => ctx.signal.removeEventListener('abort', giveUp))
      .then(report, (error: unknown) => report({ type: 'failed', error }));
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

  /** Resolves with whether the row is as it was thought to be. */
  async function setTo(
    state: ContainerActorState,
    next: ContainerRow['status'],
    change: Change = {},
  ): Promise<boolean> {
    const { row } = state;
    const { reason = null, address = null, externalAddress = null, ended = false } = change;
    const isSame = row.statusReason === reason && row.address === address && row.externalAddress === externalAddress;
    if (row.status === next && isSame) return true;
    const announced = next === 'running' && row.announce;
    const notice = announced
      ? startedNotice(row, clock.now())
      : next === 'failed' || (ended && row.status === 'running')
        ? stoppedNotice(row, clock.now(), reason ?? 'it ended')
        : undefined;
    const written = await fenced(db, state.lease, async (tx) => {
      const { keysApplied } = row;
      const to = { from: row.status, status: next, reason, address, externalAddress, announced, keysApplied };
      const changed = await setStatus(tx, row.id, to);
      if (changed !== undefined && notice !== undefined) await append(tx, notice);
      // At the commit that makes it visible: gateways lead there by then, or keep who asks waiting until they do.
      if (changed !== undefined) await tellCompute(tx, { kind: 'status', containerId: row.id, status: next });
      return changed;
    });
    if (written === undefined) {
      // Being deleted, or an earlier write had come through unheard: read what the row says.
      state.lookAgain = true;
      return false;
    }
    log.info({ containerId: row.id, userId: row.userId, from: row.status, to: next, reason }, 'container status');
    adopt(state, written);
    return true;
  }

  /** Takes a row that was written or read; whoever watches hears when its status is another. */
  function adopt(state: ContainerActorState, row: ContainerRow): void {
    const before = state.row;
    state.row = row;
    if (row.desired === 'deleted') return;
    if (row.status === before.status && row.address === before.address && externalIp(row) === externalIp(before))
      return;
    if (row.status !== 'running') closeStreams(state, farewell(row.status));
    onStatus(row);
  }

  const tooLate = ({ status, statusSince }: ContainerRow) =>
    (status === 'pending' || status === 'initializing') && clock.now() - statusSince.getTime() > INITIALIZING_LIMIT_MS;

  async function observed(
    state: ContainerActorState,
    ctx: ContainerContext,
    actual: ContainerState | undefined,
    lastWords = '',
  ): Promise<void> {
    // What ended before this start was asked for is no crash of it.
    if (state.row.status === 'pending') state.countedStart = actual?.startedAt ?? state.countedStart;
    const runs = actual?.phase === 'running';
    if (state.row.restart && state.row.desired === 'running' && !runs) {
      const cleared = await fenced(db, state.lease, (tx) => clearRestart(tx, state.row.id));
      if (cleared !== undefined) adopt(state, cleared);
    }
    if (runs) noteDrift(state, actual);
    const step = nextStep(state.row, actual, state.tolerated);
    if (step === 'settled') return;
    if (step === 'restart') {
      // The end that follows is our doing.
      state.countedStart = actual?.startedAt ?? state.countedStart;
      const reason = 'restarting: it was changed from outside';
      if (state.row.status === 'running' && !(await setTo(state, 'initializing', { reason }))) return;
    }
    if (step === 'restart' || step === 'adjust') state.mending = true;
    if (step !== 'launch') return begin(state, ctx, step);
    if (await crashed(state, ctx, actual, lastWords)) return;
    if (tooLate(state.row)) {
      await setTo(state, 'failed', { reason: state.problem ?? withoutNextTry(state.row.statusReason) ?? TOO_LATE });
      return;
    }
    begin(state, ctx, 'launch');
  }

  /** What is still different after it was mended is let be, instead of mending it for ever. */
  function noteDrift(state: ContainerActorState, actual: ContainerState): void {
    const drift = driftOf(state.row, actual);
    if (drift === undefined) state.tolerated = undefined;
    else if (state.mending) {
      state.tolerated = drift;
      log.debug({ containerId: state.row.id, drift }, 'a container cannot be made as it should be');
    }
    state.mending = false;
  }

  /** Counts the end of a workload that should run. Resolves with whether it is not to be started again at once. */
  async function crashed(
    state: ContainerActorState,
    ctx: ContainerContext,
    actual: ContainerState | undefined,
    lastWords: string,
  ): Promise<boolean> {
    const { row } = state;
    const ended = endOf(state, actual);
    if (ended === undefined) return false;
    const recovered = row.status === 'running' && clock.now() - row.statusSince.getTime() > RECOVERED_AFTER_MS;
    // What ended with the engine did not crash.
    const interrupted = state.connection !== undefined && state.connection !== health.connections;
    const crashes = recovered ? 1 : state.crashes + (interrupted ? 0 : 1);
    const said = lastWords === '' ? '' : `, and said last: ${lastWords}`;
    const written = await (crashes > MAX_CRASHES
      ? setTo(state, 'failed', { reason: `it keeps crashing: ${ended}${said}`, ended: true })
      : setTo(state, 'initializing', { reason: `restarting: ${ended}`, ended: true }));
    if (!written) return true;
    // Counted once it is written, so that an end the database did not take is met again.
    state.crashes = crashes;
    state.countedStart = actual?.startedAt ?? REMOVED;
    if (crashes > MAX_CRASHES) return true;
    if (crashes <= 1 || interrupted) return false;
    rest(state, ctx, crashDelay(crashes));
    return true;
  }

  async function failed(state: ContainerActorState, ctx: ContainerContext, what: Work, error: unknown): Promise<void> {
    // The database is away: nothing is known, and nothing is held against the container.
    if (!(error instanceof EngineError) && refusalOf(error).code === 'unavailable') throw error;
    state.failures++;
    const known = error instanceof EngineError ? error : undefined;
    state.problem = known?.message;
    const next = afterFailure(known, state.failures);
    const { row } = state;
    log.warn({ containerId: row.id, what, failures: state.failures, err: error }, 'work on a container failed');
    const givesUp = row.desired === 'running' && row.status !== 'failed';
    if (known?.code === 'unavailable') state.mending = false;
    if (givesUp && what === 'launch' && next.reason !== undefined) {
      await setTo(state, 'failed', { reason: next.reason });
    } else if (givesUp && tooLate(row)) {
      await setTo(state, 'failed', { reason: state.problem ?? TOO_LATE });
    } else {
      // Whoever waits for it reads why, and until when.
      const starts = givesUp && what === 'launch' && known !== undefined && row.status !== 'running';
      if (starts) await setTo(state, row.status, { reason: triedAgain(known.message, clock.now() + next.retryMs) });
      lookIn(state, ctx, next.retryMs);
    }
  }

  /** Writes down how far the image of a start is, now and then: lists show the row. */
  async function noteProgress(state: ContainerActorState, line: string): Promise<void> {
    state.progress = line;
    const isDue = clock.now() - state.progressNotedAt >= PROGRESS_NOTED_MS;
    if (!isDue || state.row.status !== 'pending' || state.row.desired !== 'running') return;
    state.progressNotedAt = clock.now();
    try {
      await setTo(state, 'pending', { reason: line });
    } catch (error) {
      // It is known here all the same.
      if (isFenced(error) || refusalOf(error).code !== 'unavailable') throw error;
    }
  }

  async function heed(
    state: ContainerActorState,
    ctx: ContainerContext,
    { what, row: begunWith }: Job,
    report: Report,
  ): Promise<void> {
    const { row } = state;
    const starting = row.desired === 'running' && row.status !== 'failed';
    switch (report.type) {
      case 'progress':
        return;
      case 'accepted':
        if (starting && row.status === 'pending') await setTo(state, 'initializing');
        return;
      case 'observed':
        if (report.row === undefined) {
          state.lookAgain = false;
          return ctx.sleep();
        }
        // Unless this actor wrote it since: then what was read may be older.
        if (row === begunWith) adopt(state, knowsKeys(report.row, row.keysApplied));
        return observed(state, ctx, report.actual, report.lastWords);
      case 'started': {
        state.failures = 0;
        state.row = knowsKeys(row, report.keysRevision);
        state.connection = health.connections;
        const again = state.lookAgain;
        begin(state, ctx, 'probe');
        // Most of what the engine told meanwhile is our own doing; the probe comes first.
        state.lookAgain = again;
        return;
      }
      case 'keyed':
        state.failures = 0;
        state.row = knowsKeys(row, report.keysRevision);
        state.lookAgain = true;
        return;
      case 'ready':
        state.failures = 0;
        state.silentRestarts = 0;
        state.problem = undefined;
        state.connection = health.connections;
        if (starting) {
          await setTo(state, 'running', { address: report.address, externalAddress: report.externalAddress });
        }
        // Whatever ends from now on ends anew.
        state.countedStart = undefined;
        return;
      case 'not-ready':
        if (starting && tooLate(row)) await setTo(state, 'failed', { reason: 'it was not ready within 10 minutes' });
        else if (starting && report.upForMs > SILENT_LIMIT_MS && state.silentRestarts < MAX_SILENT_RESTARTS) {
          state.silentRestarts++;
          // The end that follows is our doing.
          state.countedStart = report.startedAt ?? state.countedStart;
          log.warn({ containerId: row.id }, 'a container says nothing and is started anew');
          begin(state, ctx, 'restart');
        } else lookIn(state, ctx, PROBE_EVERY_MS);
        return;
      case 'done':
        state.failures = 0;
        state.lookAgain = true;
        return;
      case 'removed':
        await fenced(db, state.lease, (tx) => forgetContainer(tx, row.id));
        state.lookAgain = false;
        return ctx.sleep();
      case 'failed':
        return failed(state, ctx, what, report.error);
    }
  }

  /** Heeds a report; when the database is away the world is looked at again, since nothing was written. */
  async function heeded(state: ContainerActorState, ctx: ContainerContext, job: Job, report: Report): Promise<void> {
    try {
      await heed(state, ctx, job, report);
    } catch (error) {
      // Another node looks after it: to go on would be to fight with that.
      if (isFenced(error) || refusalOf(error).code !== 'unavailable') throw error;
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
      await setTo(state, 'failed', { reason: state.problem ?? TOO_LATE });
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
        if (!job.abort.signal.aborted) await noteProgress(state, report.line);
        return;
      }
      state.progress = undefined;
      if (report.type !== 'accepted') state.job = undefined;
      // It served a wish that was taken back: whatever it came to, look again.
      if (job.abort.signal.aborted) state.lookAgain = true;
      else await heeded(state, ctx, job, report);
      if (state.lookAgain && state.job === undefined) begin(state, ctx, 'observe');
    },

    /** Takes a row in which its user changed what it is made of, and makes it so. */
    async changed(state: ContainerActorState, ctx: ContainerContext, written: ContainerRow): Promise<void> {
      // A restart is asked for: nobody cares for what is under way.
      if (written.status !== state.row.status) state.job?.abort.abort(new Error('it is restarted'));
      adopt(state, written);
      await this.look(state, ctx);
    },

    /** Takes a row in which its user wants another state, closes what depended on the state before, and sets off. */
    async want(state: ContainerActorState, ctx: ContainerContext, written: ContainerRow): Promise<void> {
      if (written.desired !== 'running') closeStreams(state, { code: 1000, reason: `container ${written.desired}` });
      adopt(state, written);
      state.crashes = 0;
      state.failures = 0;
      state.problem = undefined;
      state.resting = false;
      state.tolerated = undefined;
      state.silentRestarts = 0;
      state.job?.abort.abort(new Error('another state is wanted'));
      await this.look(state, ctx);
    },
  };
}

/** The container knows the keys of this revision now. */
function knowsKeys(row: ContainerRow, revision: number): ContainerRow {
  return { ...row, keysApplied: Math.max(row.keysApplied, revision) };
}

/** Why the workload ended, when this end was not counted yet; undefined when nothing ended. */
function endOf(state: ContainerActorState, actual: ContainerState | undefined): string | undefined {
  const { row } = state;
  if (row.status === 'pending') return undefined;
  if (actual === undefined) {
    return row.status === 'running' && state.countedStart !== REMOVED ? REMOVED_FROM_OUTSIDE : undefined;
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
