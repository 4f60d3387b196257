/**
 * The health of a container that runs: it is looked at each second until it is well, beside all other work. What was
 * found in the end is written to its row; a change that did not lead to a healthy container is given up.
 *
 *   nothing --it runs, and it is not known whether it is well--> looking
 *   looking --well--> nothing
 *           --not well within the grace, and there is a way back--> nothing: the way back is written
 *           --not well within the grace--> looking now and then, for some minutes: also by its next owner
 *           --it does not run any more, or was started again--> nothing
 */
import { isFenced } from '../../../proto/ports/placement.ts';
import type { ContainerRow } from '../../../storage/compute/containers.ts';
import { noteHealth } from '../../../storage/compute/health.ts';
import { tellCompute } from '../../../storage/compute/news.ts';
import { fenced } from '../../../storage/fenced.ts';
import { append } from '../../../storage/outbox.ts';
import { dispatch } from '../../../supervision/index.ts';
import { refusalOf } from '../../service/dispatch.ts';
import type { ComputeDeps } from '../deps.ts';
import { CheckAnswers } from './evidence.ts';
import { type HealthFound, lookAtHealth } from './health-look.ts';
import { unhealthyNotice } from './notices.ts';
import type { ContainerReconciler } from './reconciler.ts';
import { isHealthOpen } from './rules.ts';
import type { ContainerActorState, ContainerContext, HealthNews, HealthWatch, HealthWatchState } from './state.ts';
import { goBack } from './way-back.ts';

/** Between two looks at one that has its grace. */
const LOOK_EVERY_MS = 1000;
/** Between two looks at one that is not well. */
const LATE_LOOK_EVERY_MS = 30_000;

/** Looks at the health of containers. What it does for one is in the state of that one's actor. */
export class HealthLooks {
  readonly #deps: ComputeDeps;
  readonly #reconciler: Pick<ContainerReconciler, 'onSettingsChanged'>;

  constructor(deps: ComputeDeps, reconciler: Pick<ContainerReconciler, 'onSettingsChanged'>) {
    this.#deps = deps;
    this.#reconciler = reconciler;
  }

  /** Begins to look where that is wanted, and ends where it is not any more. Called after each message. */
  tend(state: ContainerActorState, ctx: ContainerContext): void {
    const { desired, status, healthState, healthSince } = state.row;
    const since = desired === 'running' && status === 'running' ? healthSince : null;
    const watch = state.health?.watch;
    const isOver = since === null || healthState === null || healthState === 'healthy';
    if (watch !== undefined && (isOver || watch.since.getTime() !== since.getTime())) endHealth(state);
    if (isOver || state.health !== undefined || state.healthOver === since.getTime()) return;
    if (!isHealthOpen(state.row, this.#deps.clock.now())) return;
    const begun: HealthWatch = { since, abort: new AbortController() };
    state.health = { watch: begun, line: undefined, timer: undefined };
    this.#look(state, ctx, begun);
  }

  /** Takes what was found. What was found at a former start means nothing. */
  async onNews(state: ContainerActorState, ctx: ContainerContext, news: HealthNews): Promise<void> {
    const { health } = state;
    if (health === undefined || health.watch !== news.watch) return;
    if (news.type === 'health-look') return this.#look(state, ctx, news.watch);
    try {
      await this.#found(state, ctx, health, news.found);
    } catch (error) {
      if (isFenced(error) || refusalOf(error).code !== 'unavailable') throw error;
      this.#deps.log.warn({ containerId: state.row.id, err: error }, 'the health of a container could not be written');
      this.#lookAfter(ctx, health, LOOK_EVERY_MS);
    }
  }

  async #found(
    state: ContainerActorState,
    ctx: ContainerContext,
    health: HealthWatchState,
    found: HealthFound,
  ): Promise<void> {
    const { watch } = health;
    if (found.type === 'well') {
      state.answers = new CheckAnswers();
      return this.#note(state, ctx, watch, 'healthy', null);
    }
    if (found.type === 'over') {
      state.healthOver = watch.since.getTime();
      return endHealth(state);
    }
    const isLate = state.row.healthState === 'unhealthy';
    if (found.type === 'unknown') return this.#lookAfter(ctx, health, isLate ? LATE_LOOK_EVERY_MS : LOOK_EVERY_MS);
    health.line = found.problem;
    state.answers.add(found.answer);
    if (!found.isOver) return this.#lookAfter(ctx, health, LOOK_EVERY_MS);
    if (state.row.formerImage !== undefined) {
      const written = await goBack(this.#deps, state, found.problem, {
        answers: state.answers.texts(),
        log: found.log ?? [],
      });
      if (written !== undefined) return this.#reconciler.onSettingsChanged(state, ctx, written);
    }
    await this.#note(state, ctx, watch, 'unhealthy', found.problem);
    if (state.health === health) this.#lookAfter(ctx, health, LATE_LOOK_EVERY_MS);
  }

  /** Writes what was found, and tells it when it is another than before. */
  async #note(
    state: ContainerActorState,
    ctx: ContainerContext,
    { since }: HealthWatch,
    health: 'healthy' | 'unhealthy',
    reason: string | null,
  ): Promise<void> {
    const { db, clock, log } = this.#deps;
    const before = state.row;
    if (before.healthState === health && before.healthReason === reason) return;
    const written = await fenced(db, state.lease, async (tx): Promise<ContainerRow | undefined> => {
      const row = await noteHealth(tx, before.id, since, { health, reason });
      if (row === undefined || before.healthState === health) return row;
      if (health === 'unhealthy') await append(tx, unhealthyNotice(row, clock.now(), reason ?? ''));
      await tellCompute(tx, { kind: 'status', containerId: row.id, status: row.status });
      return row;
    });
    if (written === undefined) {
      // The row is another than was thought, and comes by itself: the looks end with it, or go on at their pace.
      if (state.health !== undefined) this.#lookAfter(ctx, state.health, LOOK_EVERY_MS);
      return;
    }
    log.info({ containerId: before.id, health, reason }, 'container health');
    await this.#reconciler.onSettingsChanged(state, ctx, written);
  }

  #look(state: ContainerActorState, ctx: ContainerContext, watch: HealthWatch): void {
    const { self } = ctx;
    // As for jobs of the reconciler: the actor's own signal keeps no trace of it.
    const giveUp = (): void => watch.abort.abort(ctx.signal.reason);
    ctx.signal.addEventListener('abort', giveUp, { once: true });
    void lookAtHealth(this.#deps, state.row, watch.since, watch.abort.signal)
      .finally(() => ctx.signal.removeEventListener('abort', giveUp))
      .then((found) => dispatch(self, { type: 'health-found', watch, found }));
  }

  #lookAfter(ctx: ContainerContext, health: HealthWatchState, ms: number): void {
    health.timer?.();
    health.timer = ctx.after(ms, { type: 'health-look', watch: health.watch });
  }
}

/** Ends the looks at its health, if there are any. */
export function endHealth(state: Pick<ContainerActorState, 'health'>): void {
  const { health } = state;
  state.health = undefined;
  health?.timer?.();
  health?.watch.abort.abort(new Error('its health is not looked at any more'));
}
