/**
 * Another image for a container that runs. Its row names the image that waits (`nextImage`). It is pulled beside all
 * other work, while the container runs on; then it becomes the container's image, and the reconciler makes the
 * container anew, or a container of it takes the place of the one that runs (successor.ts). Before that its release
 * command runs in the new image, if it has one (release.ts). An image that cannot be had is dropped, and the user reads
 * why.
 *
 *   nothing --an image waits, and the container runs--> pulling --there--> nothing: a restart is written
 *                                                      --there--> beginning beside --in its place--> nothing: written
 *                                                                                 --not ready--> nothing: dropped
 *                                                      --cannot be pulled, or 10 minutes over--> nothing: dropped
 *                                                      --may work later--> waiting --> pulling
 *           --an image waits, and it does not run and is not to--> nothing: it is its image now
 */
import { isDeepStrictEqual } from 'node:util';
import { backoffMs } from '../../../lib/waiting.ts';
import { EngineError } from '../../../proto/ports/engine.ts';
import { isFenced } from '../../../proto/ports/placement.ts';
import { dropNextImage, makeAnew, promoteNextImage, takeNextImage } from '../../../storage/compute/changes.ts';
import { type ContainerRow, containerById } from '../../../storage/compute/containers.ts';
import { noteFailedChange } from '../../../storage/compute/failed-changes.ts';
import { expectHealth, keepFormer } from '../../../storage/compute/health.ts';
import { tellCompute } from '../../../storage/compute/news.ts';
import { comingSettingsOf } from '../../../storage/compute/settings.ts';
import { fenced } from '../../../storage/fenced.ts';
import { append } from '../../../storage/outbox.ts';
import { dispatch } from '../../../supervision/index.ts';
import { refusalOf } from '../../service/dispatch.ts';
import type { ComputeDeps } from '../deps.ts';
import { imageOf, imageText, shownImage } from '../image-rules.ts';
import { isPlaceFree } from '../network-rules.ts';
import { evidenceIn } from './evidence.ts';
import { imageKeptNotice } from './notices.ts';
import type { ContainerReconciler } from './reconciler.ts';
import { ReleaseFailure, releaseBefore } from './release.ts';
import { heldImage, noteRan } from './revisions.ts';
import { hasSuccessor, OWN_ERROR, triedAgain } from './rules.ts';
import type {
  ContainerActorState,
  ContainerContext,
  ContainerMessage,
  ImagePull,
  PullNews,
  PullState,
} from './state.ts';
import { type Succession, succeed } from './successor.ts';
import { wayBack } from './update-rules.ts';
import { authFor, ownEngine, pullsAlways, wantedSpec } from './work.ts';

/** Longest time for which a pull that may work later is tried again. */
const PULL_LIMIT_MS = 10 * 60_000;
const BACKOFF = { minMs: 1000, maxMs: 30_000 };
const BEGINNING = 'The new container is started beside the one that runs, and takes its place once it is ready.';

/** Pulls the images that wait for containers. What it does for one is in the state of that one's actor. */
export class ImageChanges {
  readonly #deps: ComputeDeps;
  readonly #reconciler: Pick<ContainerReconciler, 'onSettingsChanged'>;

  constructor(deps: ComputeDeps, reconciler: Pick<ContainerReconciler, 'onSettingsChanged'>) {
    this.#deps = deps;
    this.#reconciler = reconciler;
  }

  /** Begins to pull what waits, and ends a pull that nobody waits for any more. Called after each message. */
  async tend(state: ContainerActorState, ctx: ContainerContext): Promise<void> {
    const { nextImage, desired, status } = state.row;
    const { pull } = state;
    const isIdle = desired === 'stopped' || (desired === 'running' && status === 'failed');
    const isWanted = nextImage !== undefined && desired === 'running' && status === 'running';
    if (isLeftPromoting(state)) await this.#undo(state, ctx, { type: 'look' });
    if (pull !== undefined && (!isWanted || pull.job.image !== nextImage)) endPull(state);
    if (nextImage !== undefined && isIdle) return this.#take(state, ctx, nextImage);
    if (!isWanted || state.pull !== undefined) return;
    const { clock } = this.#deps;
    const job: ImagePull = { image: nextImage, since: clock.now(), abort: new AbortController() };
    state.pull = { job, failures: 0, isBeginning: false, line: undefined, timer: undefined };
    this.#pull(state, ctx, job);
  }

  /** Takes what is told of a pull. What is told of a former one means nothing, but that it came about all the same. */
  async onNews(state: ContainerActorState, ctx: ContainerContext, news: PullNews): Promise<void> {
    const { pull } = state;
    if (news.type === 'promoted' || news.type === 'pulled') state.successions.delete(news.pull);
    if (pull === undefined || pull.job !== news.pull) {
      if (news.type === 'promoted') await this.#undo(state, ctx, news);
      return;
    }
    if (news.type === 'pull-progress') pull.line = news.line;
    else if (news.type === 'pull-again') {
      pull.isBeginning = false;
      this.#pull(state, ctx, pull.job);
    } else if (news.type === 'promoted') await this.#promoted(state, ctx, pull.job, news.succession);
    else if ('error' in news) await this.#failed(state, ctx, pull, news.error);
    else if (hasSuccessor(state.row, this.#deps.engine)) this.#beginBeside(state, ctx, pull);
    else await this.#take(state, ctx, pull.job.image);
  }

  /** A container of it begins beside the one that runs. */
  #beginBeside(state: ContainerActorState, ctx: ContainerContext, pull: PullState): void {
    const { job } = pull;
    pull.isBeginning = true;
    pull.line = BEGINNING;
    state.successions.add(job);
    this.#report(ctx, job, succeed(this.#deps, state, job.image, job.abort.signal), (succession) => ({
      type: 'promoted',
      pull: job,
      succession,
    }));
  }

  /** What is written: it is another container from now on. */
  async #promoted(
    state: ContainerActorState,
    ctx: ContainerContext,
    { image }: ImagePull,
    { promotion, settings, digest }: Succession,
  ): Promise<void> {
    const { id } = state.row;
    const written = await this.#write(state, ctx, () =>
      fenced(this.#deps.db, state.lease, async (tx) => {
        const now = await containerById(tx, id);
        if (now === undefined || now.desired !== 'running' || now.status !== 'running' || now.nextImage !== image)
          return undefined;
        // What was changed in the last moment is not what it was begun with.
        const isCurrent =
          isDeepStrictEqual(await comingSettingsOf(tx, id, this.#deps.sealKey), settings) &&
          (await isPlaceFree(tx, now, promotion.place));
        const row = await (isCurrent ? promoteNextImage(tx, id, image, promotion) : takeNextImage(tx, id, image));
        if (row !== undefined && isCurrent) await noteRan(this.#deps, tx, row, digest);
        if (row !== undefined) await tellCompute(tx, { kind: 'status', containerId: id, status: row.status });
        return row;
      }),
    );
    if (written === undefined) return;
    endPull(state);
    // What ended before this start is no crash of it.
    state.crashes = 0;
    this.#deps.log.info({ containerId: id, image }, 'a container of another image took the place of a container');
    await this.#reconciler.onSettingsChanged(state, ctx, written);
  }

  /**
   * A container took the place of another, or may have, although that was not wanted any more: it is made anew as its
   * row says. `again`: the message after which this is tried again while the database is away.
   */
  async #undo(state: ContainerActorState, ctx: ContainerContext, again: ContainerMessage): Promise<void> {
    const { id } = state.row;
    try {
      const written = await fenced(this.#deps.db, state.lease, async (tx) => {
        const row = await makeAnew(tx, id);
        if (row !== undefined) await tellCompute(tx, { kind: 'status', containerId: id, status: row.status });
        return row;
      });
      if (written !== undefined) await this.#reconciler.onSettingsChanged(state, ctx, written);
    } catch (error) {
      if (isFenced(error) || refusalOf(error).code !== 'unavailable') throw error;
      this.#deps.log.warn({ containerId: id, err: error }, 'a container could not be set right');
      ctx.after(BACKOFF.minMs, again);
    }
  }

  #pull(state: ContainerActorState, ctx: ContainerContext, pull: ImagePull): void {
    const { engine, log } = this.#deps;
    const { row } = state;
    const image = imageOf(pull, this.#deps);
    const auth = authFor(this.#deps, row, image);
    const { self } = ctx;
    const pulling = engine.ensureImage(image, {
      always: pullsAlways(engine, row, image),
      signal: pull.abort.signal,
      forContainer: row.id,
      onProgress: (line) => {
        log.debug({ containerId: row.id, image }, line);
        dispatch(self, { type: 'pull-progress', pull, line });
      },
      ...(auth === undefined ? {} : { auth }),
    });
    const { lease } = state;
    const spec = wantedSpec(this.#deps, { ...row, image: pull.image }, []);
    const next = { row, lease, engine: ownEngine(this.#deps, row, lease), spec };
    const tell = (line: string): void => dispatch(self, { type: 'pull-progress', pull, line });
    const released = pulling.then(() => releaseBefore(this.#deps, next, pull.image, pull.abort.signal, tell));
    this.#report(ctx, pull, released, () => ({ type: 'pulled', pull }));
  }

  /** Tells the actor what came of work, which ends with the actor. */
  #report<T>(ctx: ContainerContext, pull: ImagePull, work: Promise<T>, done: (result: T) => PullNews): void {
    const { self } = ctx;
    // As for jobs of the reconciler: the actor's own signal keeps no trace of it.
    const giveUp = (): void => pull.abort.abort(ctx.signal.reason);
    ctx.signal.addEventListener('abort', giveUp, { once: true });
    void work
      .finally(() => ctx.signal.removeEventListener('abort', giveUp))
      .then(
        (result) => dispatch(self, done(result)),
        (error: unknown) => dispatch(self, { type: 'pulled', pull, error }),
      );
  }

  /** It is its image from now on. */
  async #take(state: ContainerActorState, ctx: ContainerContext, image: string | null): Promise<void> {
    const { id } = state.row;
    const { sealKey } = this.#deps;
    const written = await this.#write(state, ctx, () =>
      fenced(this.#deps.db, state.lease, async (tx) => {
        const now = await containerById(tx, id);
        if (now === undefined || now.desired === 'deleted' || now.nextImage !== image) return undefined;
        const settings = await comingSettingsOf(tx, id, sealKey);
        const way = wayBack(now, settings.health);
        const former = way === 'set' ? await heldImage(this.#deps, tx, now) : undefined;
        if (way !== 'keep') await keepFormer(tx, id, former, sealKey);
        await expectHealth(tx, id, { isChecked: settings.health !== null, runsOn: false });
        const row = await takeNextImage(tx, id, image);
        // Gateways keep who asks waiting from then on.
        if (row !== undefined) await tellCompute(tx, { kind: 'status', containerId: id, status: row.status });
        return row;
      }),
    );
    if (written === undefined) return;
    endPull(state);
    this.#deps.log.info({ containerId: id, image }, 'a container gets another image');
    await this.#reconciler.onSettingsChanged(state, ctx, written);
  }

  async #failed(state: ContainerActorState, ctx: ContainerContext, pull: PullState, error: unknown): Promise<void> {
    const { clock, log } = this.#deps;
    const { row } = state;
    const { job } = pull;
    const known = error instanceof EngineError ? error : undefined;
    const problem = known?.message ?? OWN_ERROR;
    pull.failures += 1;
    const isThere = pull.isBeginning || error instanceof ReleaseFailure;
    const what = isThere ? 'a container of another image does not begin' : 'an image cannot be pulled';
    log.warn({ containerId: row.id, failures: pull.failures, err: error }, what);
    // What runs may have ended meanwhile: it is started again, and then this is.
    const isFinal = known !== undefined && known.code !== 'unavailable' && known.code !== 'not_running';
    if (!isFinal && clock.now() - job.since < PULL_LIMIT_MS) {
      const retryMs = backoffMs(pull.failures, BACKOFF);
      pull.line = triedAgain(problem, clock.now() + retryMs);
      pull.timer = ctx.after(retryMs, { type: 'pull-again', pull: job });
      return;
    }
    const name = (one: { readonly image: string | null }) => imageText(shownImage(one, this.#deps));
    const reason = keptReason(name(job), name(row), problem, isThere);
    const written = await this.#write(state, ctx, () =>
      fenced(this.#deps.db, state.lease, async (tx) => {
        const dropped = await dropNextImage(tx, row.id, job.image, reason);
        if (dropped === undefined) return undefined;
        await append(tx, imageKeptNotice(row, clock.now(), reason));
        const failed = { at: new Date(clock.now()).toISOString(), image: name(job), reason, ...evidenceIn(error) };
        await noteFailedChange(tx, row.id, failed, this.#deps.sealKey);
        return dropped;
      }),
    );
    if (written === undefined) return;
    endPull(state);
    await this.#reconciler.onSettingsChanged(state, ctx, written);
  }

  /** Writes; while the database is away, it is tried again. Resolves with undefined when nothing was written. */
  async #write(
    state: ContainerActorState,
    ctx: ContainerContext,
    work: () => Promise<ContainerRow | undefined>,
  ): Promise<ContainerRow | undefined> {
    try {
      const written = await work();
      // Its row is another than was thought: nothing waits any more.
      if (written === undefined) endPull(state);
      return written;
    } catch (error) {
      if (isFenced(error) || refusalOf(error).code !== 'unavailable') throw error;
      this.#deps.log.warn({ containerId: state.row.id, err: error }, 'the image of a container could not be written');
      const { pull } = state;
      if (pull !== undefined) pull.timer = ctx.after(BACKOFF.minMs, { type: 'pull-again', pull: pull.job });
      return undefined;
    }
  }
}

/** Whether an owner before was lost while another took the place of its container, for an image that waits no more. */
function isLeftPromoting({ row, pull, successions }: ContainerActorState): boolean {
  const isToRun = row.desired === 'running' && row.status !== 'failed';
  return row.isPromoting && isToRun && row.nextImage === undefined && pull === undefined && successions.size === 0;
}

/** Ends a pull, if there is one. */
export function endPull(state: Pick<ContainerActorState, 'pull'>): void {
  const { pull } = state;
  state.pull = undefined;
  pull?.timer?.();
  pull?.job.abort.abort(new Error('the image is not waited for any more'));
}

/** Why a container has the image it had, and what to do. `isThere`: the image itself could be had. */
function keptReason(wanted: string, kept: string, problem: string, isThere: boolean): string {
  const sentence = /[.!?]$/.test(problem) ? problem : `${problem}.`;
  const next = isThere ? 'Mend that, and' : 'Push the image or correct its name, and';
  return (
    `The image was not changed to ${wanted}. ${sentence} The container runs on with ${kept}. ` +
    `${next} change it again.`
  );
}
