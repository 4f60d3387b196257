import type { NodeBus } from './node-options.ts';

/** Lost echoes in a row that say that the bus is away: one may only be late. */
const MOST_MISSED = 2;

/** What a node's messages to itself are sent by. */
interface EchoOptions {
  readonly bus: NodeBus;
  /** Where this node answers. */
  readonly subject: string;
  readonly beatMs: number;
  /** One did not come. */
  readonly onMissed: (error: unknown) => void;
}

/** Whether what others send over the bus would reach us: we are one of those who send. */
export class Echo {
  readonly #options: EchoOptions;
  readonly #lastsMs: number;
  #heard = performance.now();
  /** In a row. */
  #missed = 0;
  #isUnderWay = false;

  constructor(options: EchoOptions) {
    this.#options = options;
    this.#lastsMs = 2 * options.beatMs;
  }

  get isHeard(): boolean {
    // One that is missing may have come while this process stood still.
    return this.#missed < MOST_MISSED || performance.now() - this.#heard <= this.#lastsMs;
  }

  /** Time counts from now. */
  begin(): void {
    this.#heard = performance.now();
  }

  /** Sends one, unless one is under way. Never rejects. */
  async send(): Promise<void> {
    if (this.#isUnderWay) return;
    this.#isUnderWay = true;
    const sent = performance.now();
    const { bus, subject, onMissed } = this.#options;
    try {
      await bus.request(subject, new Uint8Array(), this.#lastsMs / 2);
      this.#heard = sent;
      this.#missed = 0;
    } catch (error) {
      this.#missed += 1;
      onMissed(error);
    } finally {
      this.#isUnderWay = false;
    }
  }
}
