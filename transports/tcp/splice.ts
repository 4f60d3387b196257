/** Joins two sockets: bytes pass as they come, with backpressure both ways, half-closes are passed on, and both end together. */
import type { Socket } from 'node:net';

export interface SpliceOptions {
  /** Sent to `b` before anything of `a`. */
  readonly first?: Buffer;
  /** Without a byte in either direction for so long, both are ended; ms. */
  readonly idleMs: number;
  /** Told once, when both are closed: bytes that were taken from each. */
  readonly onEnd?: (fromA: number, fromB: number) => void;
}

/** Joins `a` and `b`. Returns what ends both at once. */
export function splice(a: Socket, b: Socket, { first, idleMs, onEnd }: SpliceOptions): () => void {
  const end = () => {
    a.destroy();
    b.destroy();
  };
  let open = 2;
  for (const [from, to] of [
    [a, b],
    [b, a],
  ] as const) {
    // Counts what is read and what is written, so both directions of the pair.
    from.setTimeout(idleMs, end);
    from.on('error', end);
    from.once('close', () => {
      // What was read of it still goes out; what the other side has to say has no reader any more.
      to.destroySoon();
      if (--open === 0) onEnd?.(a.bytesRead, b.bytesRead);
    });
  }
  if (first !== undefined && first.length > 0) b.write(first);
  a.pipe(b);
  b.pipe(a);
  return end;
}
