/** Joins two connections: backpressure works both ways, half-closes are passed on, and both end together. */
import type { Wire, WireReader } from '../../wire/wire.ts';

export interface SpliceOptions {
  /** Sent to `b` before anything of `a`. */
  readonly first?: Buffer | undefined;
  /** Hears `b` for `a`. Default: a `Direction`. */
  readonly back?: ((...parts: ConstructorParameters<typeof Direction>) => Direction) | undefined;
  /** Without a byte in either direction for so long, both are ended; ms. */
  readonly idleMs: number;
  /** Told once, when both are closed: bytes that were taken from each. */
  readonly onEnd?: (fromA: number, fromB: number) => void;
}

/** Joins `a` and `b`, of which nothing is read yet. Returns what ends both at once. */
export function splice(a: Wire, b: Wire, { first, back, idleMs, onEnd }: SpliceOptions): () => void {
  let open = 2;
  const idle = setTimeout(() => end(), idleMs).unref();
  const end = () => {
    a.destroy();
    b.destroy();
  };
  const closed = () => {
    if (--open > 0) return;
    clearTimeout(idle);
    onEnd?.(a.bytesRead, b.bytesRead);
  };
  const moved = () => void idle.refresh();
  a.reader = new Direction(a, b, moved, closed);
  b.reader = back?.(b, a, moved, closed) ?? new Direction(b, a, moved, closed);
  if (a.isDestroyed || b.isDestroyed) {
    end();
    return end;
  }
  if (first !== undefined && first.length > 0) b.write(first);
  a.resume();
  b.resume();
  return end;
}

/** After so many large reads in a row it is worth a buffer of its own. */
const LARGE_READ = 65_536;
const MANY = 8;

/** Hears one wire and writes to the other. */
export class Direction implements WireReader {
  readonly #from: Wire;
  readonly #to: Wire;
  readonly #moved: () => void;
  readonly #closed: () => void;
  #large = 0;

  constructor(from: Wire, to: Wire, moved: () => void, closed: () => void) {
    this.#from = from;
    this.#to = to;
    this.#moved = moved;
    this.#closed = closed;
  }

  onData(bytes: Buffer): void {
    this.#moved();
    const [from, to] = [this.#from, this.#to];
    if (from.hasOwnBuffer) {
      if (!to.writeStable(bytes)) from.pause();
      return;
    }
    if (!to.write(bytes)) from.pause();
    this.#large = bytes.length < LARGE_READ ? 0 : this.#large + 1;
    if (this.#large === MANY) from.takeOwnBuffer();
  }

  onEnd(): void {
    this.#to.end();
  }

  /** What `from` was given has left: more of the other may come. */
  onDrain(): void {
    this.#moved();
    this.#to.resume();
  }

  onClose(): void {
    // What was read of it still goes out; what the other side has to say has no reader any more.
    this.#to.destroySoon();
    this.#closed();
  }
}
