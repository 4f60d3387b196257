/**
 * The end of a container whose time is over: at `expires_at` it is stopped, and a day later deleted. Between the two
 * its user can give it another time. A timer of the cluster wakes its actor, also after a restart of everything.
 *
 *   has time --expires_at--> stopped, cannot be started, its user is told --a day--> deleted
 *      ^---------------- another time, or none ----------------|
 */
import { isFenced } from '../../../proto/ports/placement.ts';
import { audit } from '../../../storage/audit.ts';
import { countStopAnew } from '../../../storage/compute/changes.ts';
import { type ContainerRow, setDesired } from '../../../storage/compute/containers.ts';
import { tellCompute } from '../../../storage/compute/news.ts';
import { fenced } from '../../../storage/fenced.ts';
import { append } from '../../../storage/outbox.ts';
import { dispatch, type Ref } from '../../../supervision/index.ts';
import { platformEntry } from '../../service/audit.ts';
import { freeAddressName } from '../address-names.ts';
import type { ComputeDeps } from '../deps.ts';
import { COMPUTE_CONTAINER } from '../placed.ts';
import { expiredNotice, expiryDeletionNotice } from './notices.ts';
import type { ContainerReconciler } from './reconciler.ts';
import type { ContainerActorState, ContainerContext } from './state.ts';

/** Between the stop and the deletion, ms. */
const DELETED_AFTER_MS = 24 * 3_600_000;
/** The name of the timer. */
const TIMER = 'expiry';

/** Ends containers whose time is over. What it knows of one is in the state of that one's actor. */
export class Expiry {
  readonly #deps: ComputeDeps;
  readonly #reconciler: Pick<ContainerReconciler, 'setDesired'>;

  constructor(deps: ComputeDeps, reconciler: Pick<ContainerReconciler, 'setDesired'>) {
    this.#deps = deps;
    this.#reconciler = reconciler;
  }

  /** Sees to it that its timer is the one that its row wants. Called after each message. */
  async tend(state: ContainerActorState): Promise<void> {
    const at = nextStepAt(state.row);
    if (at === state.expiryTimer) return;
    try {
      await setExpiryTimer(this.#deps, state, at);
    } catch (error) {
      if (isFenced(error)) throw error;
      // The next message tries again. A row without its timer comes only from a creation, which is followed by looks.
      this.#deps.log.warn({ containerId: state.row.id, err: error }, 'the timer of a container could not be set');
    }
  }

  /** Takes a step whose time has come, if one has. `done` hears of it once it is written. */
  async onTimer(state: ContainerActorState, ctx: ContainerContext, done: Ref<'done'>): Promise<void> {
    const at = nextStepAt(state.row);
    if (at !== undefined && at <= this.#deps.clock.now()) await this.#step(state, ctx);
    // The timer that fired has no successor yet.
    state.expiryTimer = undefined;
    await setExpiryTimer(this.#deps, state, nextStepAt(state.row));
    dispatch(done, 'done');
  }

  async #step(state: ContainerActorState, ctx: ContainerContext): Promise<void> {
    const { db, clock, log } = this.#deps;
    const { id, desired, expiresAt } = state.row;
    const isStopped = desired === 'stopped';
    const isEnd = isStopped && isAfterExpiry(state.row);
    const written = await fenced(db, state.lease, async (tx) => {
      // One that its user had stopped before stays so: its day begins with the news of it.
      const row =
        isStopped && !isEnd
          ? await countStopAnew(tx, id)
          : await setDesired(tx, id, isEnd ? 'deleted' : 'stopped', 'stopped');
      if (row === undefined) return undefined;
      const now = clock.now();
      if (isEnd) await freeAddressName(tx, id, now);
      const notice = isEnd ? expiryDeletionNotice(row, now) : expiredNotice(row, now, new Date(now + DELETED_AFTER_MS));
      await append(tx, notice);
      const detail = { expires_at: expiresAt?.toISOString(), name: row.name };
      await audit(tx, platformEntry(null, isEnd ? 'container.delete' : 'container.expire', id, detail));
      await tellCompute(tx, { kind: isEnd ? 'gone' : 'stopped', containerId: id });
      return row;
    });
    if (written === undefined) return;
    log.info(
      { containerId: id, expiresAt },
      isEnd ? 'an expired container is deleted' : 'the time of a container is over',
    );
    await this.#reconciler.setDesired(state, ctx, written);
  }
}

/**
 * Sets the timer of a container to Unix ms `at`, or none. Rejects with StorageError, or PlacementError `fenced`.
 */
export async function setExpiryTimer(
  { placement }: Pick<ComputeDeps, 'placement'>,
  state: Pick<ContainerActorState, 'lease' | 'row' | 'expiryTimer'>,
  at: number | undefined,
): Promise<void> {
  const { lease, row } = state;
  if (at !== undefined)
    await placement.timers.set(COMPUTE_CONTAINER, row.id, { name: TIMER, at, message: null }, lease);
  else if (state.expiryTimer !== undefined) await placement.timers.cancel(COMPUTE_CONTAINER, row.id, TIMER, lease);
  state.expiryTimer = at;
}

/** When the next step comes, Unix ms; undefined: none does. A stop that comes late has its day all the same. */
function nextStepAt(row: Pick<ContainerRow, 'expiresAt' | 'desired' | 'statusSince'>): number | undefined {
  const { expiresAt, desired, statusSince } = row;
  if (expiresAt === null || desired === 'deleted') return undefined;
  return desired === 'stopped' && isAfterExpiry(row) ? statusSince.getTime() + DELETED_AFTER_MS : expiresAt.getTime();
}

/** Whether it has its status since it expired: if it is stopped, its user was told of the end. */
function isAfterExpiry({ expiresAt, statusSince }: Pick<ContainerRow, 'expiresAt' | 'statusSince'>): boolean {
  return expiresAt !== null && statusSince >= expiresAt;
}

/** Whether its time is over at Unix ms `now`. */
export function isExpired({ expiresAt }: Pick<ContainerRow, 'expiresAt'>, now: number): boolean {
  return expiresAt !== null && expiresAt.getTime() <= now;
}
