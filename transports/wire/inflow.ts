import type { Wire } from './wire.ts';

/** Most bytes kept: what is beyond stays in the kernel. */
const MAX_BYTES = 65_536;

/**
 * Bytes that came ahead of their turn, in order, and whether their wire is read: not while enough waits, nor while it
 * is held. One read may exceed the bound.
 */
export class Inflow {
  readonly #wire: Pick<Wire, 'pause' | 'resume'>;
  /** Made when it is needed: most connections never do. */
  #chunks: Buffer[] | undefined;
  #bytes = 0;
  #isHeld = false;
  #isFlowing = true;

  /** `wire`: where the bytes come from; whoever owns it lets it begin. */
  constructor(wire: Pick<Wire, 'pause' | 'resume'>) {
    this.#wire = wire;
  }

  get isEmpty(): boolean {
    return this.#chunks === undefined || this.#chunks.length === 0;
  }

  /** Whether the wire is read. */
  get isFlowing(): boolean {
    return this.#isFlowing;
  }

  /** Nothing is read, however little waits. */
  get isHeld(): boolean {
    return this.#isHeld;
  }

  set isHeld(isHeld: boolean) {
    this.#isHeld = isHeld;
    this.flow();
  }

  /** Keeps a copy of `chunk` from `from` on: the bytes are lent. Returns the index after all of it. */
  keep(chunk: Buffer, from: number): number {
    if (from < chunk.length) {
      this.#chunks ??= [];
      this.#chunks.push(Buffer.from(chunk.subarray(from)));
      this.#bytes += chunk.length - from;
    }
    this.flow();
    return chunk.length;
  }

  /** All of them, which stay. */
  get chunks(): readonly Buffer[] {
    return this.#chunks ?? [];
  }

  /** The first of them. */
  shift(): Buffer | undefined {
    const chunk = this.#chunks?.shift();
    this.#bytes -= chunk?.length ?? 0;
    return chunk;
  }

  /** Puts the rest of what `shift` gave back in its place. */
  unshift(chunk: Buffer): void {
    this.#chunks ??= [];
    this.#chunks.unshift(chunk);
    this.#bytes += chunk.length;
  }

  /** All of them, for another reader of the wire; none are left. */
  takeAll(): Buffer[] {
    const chunks = this.#chunks ?? [];
    this.clear();
    return chunks;
  }

  /** All of them as one; none are left, and the wire is read again. */
  take(): Buffer {
    const all = Buffer.concat(this.takeAll());
    this.flow();
    return all;
  }

  clear(): void {
    this.#chunks = undefined;
    this.#bytes = 0;
  }

  /** Stops reading the wire when enough waits, and goes on when it does not: to be called after `shift`. */
  flow(): void {
    const flows = this.#bytes < MAX_BYTES && !this.#isHeld;
    if (flows === this.#isFlowing) return;
    this.#isFlowing = flows;
    if (flows) this.#wire.resume();
    else this.#wire.pause();
  }
}
