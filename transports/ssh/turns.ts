/** What can be made to wait: a socket. */
export interface Pausable {
  pause(): unknown;
  resume(): unknown;
}

/** What a socket may deliver before it waits for the others. Some tenths of a millisecond of decrypting. */
const SLICE_BYTES = 64 * 1024;
/** Sockets that may go on in one turn when nobody else is there. */
const PER_TURN = 4;
/** How long somebody who was heard counts as being there, ms. */
const PRESENT_MS = 500;
/** The pause of floods while others are there, ms: the process stays idle for part of the time, so that a key wakes it at once. */
const PAUSE_MS = 1;

/**
 * Shares the event loop between sockets. Node reads a full socket up to 32 times in a row, 64 KiB each, before it looks at the
 * next one: with one that floods, everybody else's key would wait for two mebibytes to be decrypted. A socket that has
 * delivered a slice waits for a turn of the loop; while others are there, floods share one slice a millisecond.
 */
export class Turns<S extends Pausable> {
  /** Bytes since a socket last had to wait. */
  readonly #taken = new WeakMap<S, number>();
  readonly #waiting = new Set<S>();
  #latest: S | undefined;
  /** When a socket was heard that is not the one before. */
  #changedAt = Number.NEGATIVE_INFINITY;
  #isScheduled = false;

  /** A socket delivered so many bytes; it stops reading when these are too many. */
  heard(socket: S, bytes: number): void {
    if (socket !== this.#latest) {
      if (this.#latest !== undefined) this.#changedAt = performance.now();
      this.#latest = socket;
    }
    const taken = (this.#taken.get(socket) ?? 0) + bytes;
    this.#taken.set(socket, taken < SLICE_BYTES ? taken : 0);
    if (taken < SLICE_BYTES) return;
    socket.pause();
    this.#waiting.add(socket);
    this.#schedule();
  }

  /** The socket is gone, or may read as it likes. */
  leave(socket: S): void {
    if (socket === this.#latest) this.#latest = undefined;
    if (this.#waiting.delete(socket)) socket.resume();
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    if (performance.now() - this.#changedAt < PRESENT_MS) setTimeout(() => this.#next(1), PAUSE_MS);
    else setImmediate(() => this.#next(PER_TURN));
  }

  #next(count: number): void {
    this.#isScheduled = false;
    let left = count;
    for (const socket of this.#waiting) {
      if (left-- === 0) break;
      this.#waiting.delete(socket);
      socket.resume();
    }
    if (this.#waiting.size > 0) this.#schedule();
  }
}
