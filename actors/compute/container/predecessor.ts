/** The end of a container whose place another took: some time later, so that it answers what it was asked before. */
import { PREDECESSOR_MS } from '../../../proto/ports/engine.ts';
import { isFenced } from '../../../proto/ports/placement.ts';
import { forgetPredecessor } from '../../../storage/compute/changes.ts';
import { fenced } from '../../../storage/fenced.ts';
import { dispatch } from '../../../supervision/index.ts';
import { refusalOf } from '../../service/dispatch.ts';
import type { ComputeDeps } from '../deps.ts';
import type { ContainerReconciler } from './reconciler.ts';
import type { ContainerActorState, ContainerContext, PredecessorNews } from './state.ts';
import { ownEngine } from './work.ts';

/** After an attempt that failed. */
const AGAIN_MS = 10_000;
/** While another one is begun, or not yet its time. */
const BUSY_MS = 1000;

/** Ends predecessors. What it waits for of one container is in the state of that one's actor. */
export class Predecessors {
  readonly #deps: ComputeDeps;
  readonly #reconciler: Pick<ContainerReconciler, 'onSettingsChanged'>;

  constructor(deps: ComputeDeps, reconciler: Pick<ContainerReconciler, 'onSettingsChanged'>) {
    this.#deps = deps;
    this.#reconciler = reconciler;
  }

  /** Sets the time where there is a predecessor. Called after each message: the next owner ends it, too. */
  tend(state: ContainerActorState, ctx: ContainerContext): void {
    const since = state.row.predecessorSince;
    if (since === null || state.row.desired === 'deleted') {
      state.predecessor?.();
      state.predecessor = undefined;
    } else if (state.predecessor === undefined) {
      const waitedMs = this.#deps.clock.now() - since.getTime();
      this.#endIn(state, ctx, Math.max(0, this.#lifeOf(state) - waitedMs));
    }
  }

  /** Takes that it is time, or what came of it. */
  async onNews(state: ContainerActorState, ctx: ContainerContext, news: PredecessorNews): Promise<void> {
    const { row, lease } = state;
    const since = row.predecessorSince?.getTime();
    if (since === undefined) return;
    if (news.type === 'end-predecessor') {
      const leftMs = this.#lifeOf(state) - (this.#deps.clock.now() - since);
      // It was set for an earlier one; and a successor that is begun ends it before.
      if (leftMs > 0 || state.pull?.isBeginning === true) return this.#endIn(state, ctx, Math.max(leftMs, BUSY_MS));
      const { self } = ctx;
      void ownEngine(this.#deps, row, lease)
        .endOthers(row.id, row.stopGrace)
        .then(
          () => dispatch(self, { type: 'predecessor-ended', since }),
          (error: unknown) => dispatch(self, { type: 'predecessor-ended', since, error }),
        );
      return;
    }
    if (news.since !== since) return this.#endIn(state, ctx, this.#lifeOf(state));
    try {
      if ('error' in news) throw news.error;
      const written = await fenced(this.#deps.db, lease, (tx) => forgetPredecessor(tx, row.id));
      if (written !== undefined) await this.#reconciler.onSettingsChanged(state, ctx, written);
    } catch (error) {
      if (isFenced(error)) throw error;
      const isKnown = refusalOf(error).code === 'unavailable';
      if (!isKnown) this.#deps.log.warn({ containerId: row.id, err: error }, 'a predecessor could not be ended');
      this.#endIn(state, ctx, AGAIN_MS);
    }
  }

  /** How long it serves, ms: longer where others may still find it by an alias for some time. */
  #lifeOf({ row }: ContainerActorState): number {
    return PREDECESSOR_MS + (row.network?.alias ? this.#deps.engine.aliasLastsMs : 0);
  }

  #endIn(state: ContainerActorState, ctx: ContainerContext, ms: number): void {
    state.predecessor = ctx.after(ms, { type: 'end-predecessor' });
  }
}
