/** The pipes to one origin: how many there are, and how much the origin has shown that it takes. */
import type { Wire } from '../../wire/wire.ts';
import type { BorrowedConnection } from './exchange-sides.ts';
import { PATIENCE_MS, Pipe, type PipeOwner } from './pipe.ts';

/** Most pipes to an origin, and most requests in one. */
const MAX_PIPES = 8;
const MAX_DEPTH = 32;
const FIRST_DEPTH = 2;
/** How long an origin that failed is asked one by one, ms. */
const BARRED_MS = 10_000;

/** Pipes to one origin. A place is lent when one is free; nobody waits for one. */
export class Pipes implements PipeOwner {
  readonly #all: Pipe[] = [];
  /** Opens a connection of its own; rejects when there is none. */
  readonly #open: () => Promise<Wire>;
  #depth = FIRST_DEPTH;
  #barredUntil = 0;
  #isOpening = false;
  #isClosed = false;
  #watch: NodeJS.Timeout | undefined;

  constructor(open: () => Promise<Wire>) {
    this.#open = open;
  }

  /** Pipes that nobody uses. */
  get idle(): number {
    return this.#all.reduce((count, { size }) => count + (size === 0 ? 1 : 0), 0);
  }

  /** A place for one request without a body that changes nothing; undefined: it goes by itself. */
  enter(): BorrowedConnection | undefined {
    for (const pipe of this.#all) {
      const place = pipe.enter(this.#depth);
      if (place === undefined) continue;
      this.#watch ??= setInterval(() => this.#look(), PATIENCE_MS).unref();
      return place;
    }
    if (!this.#isOpening && this.#all.length < MAX_PIPES && performance.now() >= this.#barredUntil) this.#widen();
    return undefined;
  }

  /** Ends those that have been idle since before `before`. */
  expire(before: number): void {
    for (const pipe of [...this.#all]) if (pipe.size === 0 && pipe.since < before) pipe.close();
  }

  /** Takes no more requests; those under way are answered. */
  close(): void {
    this.#isClosed = true;
    for (const pipe of [...this.#all]) pipe.close();
  }

  onProof(): void {
    if (this.#depth < MAX_DEPTH) this.#depth++;
  }

  onFailure(): void {
    this.#depth = FIRST_DEPTH;
    this.#barredUntil = performance.now() + BARRED_MS;
  }

  onRetired(pipe: Pipe): void {
    const at = this.#all.indexOf(pipe);
    if (at >= 0) this.#all.splice(at, 1);
  }

  #look(): void {
    const now = performance.now();
    let isUsed = false;
    for (const pipe of [...this.#all]) {
      pipe.look(now);
      isUsed ||= pipe.size > 0;
    }
    if (isUsed) return;
    clearInterval(this.#watch);
    this.#watch = undefined;
  }

  #widen(): void {
    this.#isOpening = true;
    this.#open().then(
      (wire) => {
        this.#isOpening = false;
        if (this.#isClosed) wire.destroy();
        else this.#all.push(new Pipe(wire, this));
      },
      // Whoever asks by itself is told why.
      () => {
        this.#isOpening = false;
      },
    );
  }
}
