import { PipelinedInput } from '../gateway/h1/pipelined-input.ts';
import type { Wire } from '../gateway/tcp/wire.ts';

/**
 * What a connection has read ahead of its turn, and whether its wire is read: not while enough waits, nor while a body
 * that nobody asked for is held.
 */
export class Inflow extends PipelinedInput {
  readonly #wire: Wire;
  #isHeld = false;
  #isFlowing = true;

  constructor(wire: Wire) {
    super();
    this.#wire = wire;
  }

  /** Enough of a body is held that nobody has asked for. */
  get isHeld(): boolean {
    return this.#isHeld;
  }

  set isHeld(isHeld: boolean) {
    this.#isHeld = isHeld;
    this.#flow();
  }

  /** Keeps `chunk` from `from` on. Gives the index after all of it. */
  put(chunk: Buffer, from: number): number {
    this.keep(chunk, from);
    this.#flow();
    return chunk.length;
  }

  /** All that waits, as one; nothing waits any more. */
  take(): Buffer {
    const chunk = Buffer.concat(this.takeAll());
    this.#flow();
    return chunk;
  }

  #flow(): void {
    const flows = !this.isFull && !this.#isHeld;
    if (flows === this.#isFlowing) return;
    this.#isFlowing = flows;
    if (flows) this.#wire.resume();
    else this.#wire.pause();
  }
}
