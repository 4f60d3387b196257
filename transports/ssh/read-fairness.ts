/** What can be made to wait: a socket. */
interface Pausable {
  pause(): unknown;
  resume(): unknown;
}

/** What a socket may deliver before it waits for others: what Node reads at once, some tenths of a ms of decrypting. */
const SLICE_BYTES = 64 * 1024;
/** The same for one that had to wait lately: what Node read in one go may be a little less. */
const FLOOD_BYTES = 16 * 1024;
/** What a socket may deliver for ever without waiting, bytes a ms: a screen redrawn all the time is no flood. */
const FREE_BYTES_PER_MS = 1024;
/** Floods that may go on in one turn of the loop when nobody else is there. */
const PER_TURN = 4;
/** How long somebody who was heard counts as being there, and a flood as one, ms. */
const PRESENT_MS = 500;
/**
 * The pause of floods while others are there, ms. With a slice each time it makes 1.6 MB/s, more than anybody reads,
 * and keeps all but a few hundredths of the loop's time, and of the machine's for whoever produces and shows the flood,
 * for the others.
 */
const PAUSE_MS = 40;

/** What is kept of a socket. */
interface Heard {
  /** Bytes beyond what is free, as of `at` (ms). */
  bytes: number;
  at: number;
  /** When it had to wait last, ms. */
  waitedAt: number;
}

/**
 * Shares the event loop between sockets. Node reads a full socket up to 32 times in a row, 64 KiB each, before it looks
 * at the next one: with one that floods, everybody else's key would wait for two mebibytes to be decrypted. A socket
 * that has delivered a slice more than is free waits for a turn of the loop; while others are there that do not flood,
 * those that do share one slice a pause. Floods alone go on as fast as the loop can.
 */
export class ReadTurns<S extends Pausable> {
  readonly #heard = new WeakMap<S, Heard>();
  readonly #waiting = new Set<S>();
  /** The two sockets heard last that do not flood: one of them may turn out to begin to. */
  #light: { socket: S; at: number } | undefined;
  #lightBefore: { socket: S; at: number } | undefined;
  #isScheduled = false;

  /** A socket delivered so many bytes; it stops reading when these are too many. */
  heard(socket: S, bytes: number): void {
    const now = performance.now();
    const heard = this.#heard.get(socket) ?? { bytes: 0, at: now, waitedAt: Number.NEGATIVE_INFINITY };
    heard.bytes = Math.max(0, heard.bytes - (now - heard.at) * FREE_BYTES_PER_MS) + bytes;
    heard.at = now;
    this.#heard.set(socket, heard);
    const floods = now - heard.waitedAt <= PRESENT_MS;
    if (heard.bytes >= (floods ? FLOOD_BYTES : SLICE_BYTES)) {
      heard.bytes = 0;
      heard.waitedAt = now;
      socket.pause();
      this.#waiting.add(socket);
      this.#noLight(socket);
      this.#schedule(now);
    } else if (!floods) {
      if (socket !== this.#light?.socket) this.#lightBefore = this.#light;
      this.#light = { socket, at: now };
    }
  }

  /** The socket is gone, or may read as it likes. */
  leave(socket: S): void {
    this.#noLight(socket);
    if (this.#waiting.delete(socket)) socket.resume();
  }

  #noLight(socket: S): void {
    if (socket === this.#lightBefore?.socket) this.#lightBefore = undefined;
    if (socket !== this.#light?.socket) return;
    this.#light = this.#lightBefore;
    this.#lightBefore = undefined;
  }

  #schedule(now: number): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    if (this.#light !== undefined && now - this.#light.at < PRESENT_MS) setTimeout(() => this.#next(1), PAUSE_MS);
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
    if (this.#waiting.size > 0) this.#schedule(performance.now());
  }
}
