import type { Wire } from '../tcp/wire.ts';
import { PipelinedInput } from './pipelined-input.ts';

/** What a client sent ahead of its turn: its wire is not read any more while enough waits. */
export class ClientInflow extends PipelinedInput {
  readonly #wire: Pick<Wire, 'pause' | 'resume'>;
  #isFlowing = true;

  /** `wire`: where the bytes come from; whoever owns it lets it begin. */
  constructor(wire: Pick<Wire, 'pause' | 'resume'>) {
    super();
    this.#wire = wire;
  }

  /** Whether the wire is read. */
  get isFlowing(): boolean {
    return this.#isFlowing;
  }

  /** Keeps a copy of `chunk` from `from` on: the bytes are lent. */
  override keep(chunk: Buffer, from: number): void {
    super.keep(chunk, from);
    this.flow();
  }

  /** Stops reading from the client when enough waits, and goes on when it does not. */
  flow(): void {
    const flows = !this.isFull;
    if (flows === this.#isFlowing) return;
    this.#isFlowing = flows;
    if (flows) this.#wire.resume();
    else this.#wire.pause();
  }
}
