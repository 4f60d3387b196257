/** Images of revisions that no row names any more: they go from the engine, at the start and now and then. */
import { imagesByDigest } from '../../../storage/compute/pinned-images.ts';
import type { ComputeDeps } from '../deps.ts';

/** How long what was named last may stay, ms. */
const EVERY_MS = 10 * 60_000;

/**
 * Lets the engine remove them. Who drops the last row that names one need not: it may be killed in between, and the
 * next look finds what it left.
 */
export class UnnamedImages {
  readonly #deps: Pick<ComputeDeps, 'db' | 'engine' | 'log' | 'defaultImage'>;
  #lookedAt = Number.NEGATIVE_INFINITY;

  constructor(deps: Pick<ComputeDeps, 'db' | 'engine' | 'log' | 'defaultImage'>) {
    this.#deps = deps;
  }

  /** Looks when it is time. Never rejects: the next look tries again. */
  async look(): Promise<void> {
    if (performance.now() - this.#lookedAt < EVERY_MS) return;
    this.#lookedAt = performance.now();
    const { db, engine, log, defaultImage } = this.#deps;
    try {
      const removed = await engine.forgetImages(async () => [...(await imagesByDigest(db)), defaultImage]);
      if (removed.length > 0) log.info({ images: removed }, 'images that no revision names any more were removed');
    } catch (error) {
      log.warn({ err: error }, 'images that no revision names any more could not be removed');
    }
  }
}
