/**
 * Waits for the first bytes of a wire (a ClientHello) until somebody can decide by them, and no longer than a deadline.
 */
import { NOBODY, type Wire, type WireReader } from '../../wire/wire.ts';

/** Most bytes collected for a decision. */
const MAX_FIRST = 17_000;

/** What is to become of the first bytes. */
interface FirstBytes<T> {
  /** Undefined: more are needed. */
  decide(bytes: Buffer): T | undefined;
  /** Gets the paused wire with all that was read of it. */
  onDecided(decision: T, bytes: Buffer): void;
  /** Nobody decided within `ms`, or the peer ended or sent too much. */
  onTimeout(): void;
}

/** Collects bytes of `wire`, after `first`, until one of `asks` is called. Its end before that is nobody's news. */
export function readFirstOfWire<T>(wire: Wire, ms: number, asks: FirstBytes<T>, first?: Buffer): void {
  const reader = new FirstReader(wire, ms, asks);
  wire.reader = reader;
  if (first !== undefined) reader.onData(first);
  if (wire.reader === reader) wire.resume();
}

class FirstReader<T> implements WireReader {
  readonly #wire: Wire;
  readonly #asks: FirstBytes<T>;
  readonly #timer: NodeJS.Timeout;
  #bytes: Buffer | undefined;

  constructor(wire: Wire, ms: number, asks: FirstBytes<T>) {
    this.#wire = wire;
    this.#asks = asks;
    this.#timer = setTimeout(() => this.onEnd(), ms);
  }

  onData(bytes: Buffer): void {
    // A copy: they are ours for the moment only.
    const all = this.#bytes === undefined ? Buffer.from(bytes) : Buffer.concat([this.#bytes, bytes]);
    this.#bytes = all;
    const decision = this.#asks.decide(all);
    if (decision !== undefined) {
      this.#done();
      this.#asks.onDecided(decision, all);
    } else if (all.length > MAX_FIRST) this.onEnd();
  }

  onEnd(): void {
    this.#done();
    this.#asks.onTimeout();
  }

  onDrain(): void {}

  onClose(): void {
    clearTimeout(this.#timer);
  }

  #done(): void {
    clearTimeout(this.#timer);
    this.#wire.reader = NOBODY;
    this.#wire.pause();
  }
}
