import { BusError } from '../../proto/ports/bus.ts';
import type { EntityPlace } from './view.ts';

/** An answer that was sent before its owner died, or lost its lease, arrives within this, ms. */
const LAST_ANSWER_MS = 1000;
/** An owner that handed the shard over and lives answers what reached it; on a busy machine that takes a while. */
const LIVING_ANSWER_MS = 4000;

interface OpenAsk {
  readonly shard: number;
  readonly place: EntityPlace;
  /** The owner has changed. Called again when it is not only another, but gone. */
  giveUp(): void;
}

/** Asks that wait for another node. One that froze or was cut off is waited for until another has its shard. */
export class OpenAsks {
  readonly #ownerOf: (shard: number) => EntityPlace | undefined;
  readonly #lives: (node: string) => boolean;
  readonly #open = new Set<OpenAsk>();

  constructor(ownerOf: (shard: number) => EntityPlace | undefined, lives: (node: string) => boolean) {
    this.#ownerOf = ownerOf;
    this.#lives = lives;
  }

  /** Looks who still owns what was asked: after each change of the view. */
  look(): void {
    for (const open of this.#open) {
      const owner = this.#ownerOf(open.shard);
      if (owner?.node !== open.place.node || owner.epoch !== open.place.epoch) open.giveUp();
    }
  }

  /**
   * What `answer` comes to; rejects `timeout` a second after the owner died (at once if the ask `isSafe`, and can be
   * sent to the next owner), some seconds after it handed over.
   */
  answer(shard: number, place: EntityPlace, isSafe: boolean, answer: Promise<Uint8Array>): Promise<Uint8Array> {
    return new Promise((resolve, reject) => {
      let last: NodeJS.Timeout | undefined;
      let until = Number.POSITIVE_INFINITY;
      const open: OpenAsk = {
        shard,
        place,
        giveUp: () => {
          const now = performance.now();
          const lastMs = isSafe ? 0 : LAST_ANSWER_MS;
          const latest = now + (this.#lives(place.node) ? LIVING_ANSWER_MS : lastMs);
          if (latest >= until) return;
          until = latest;
          clearTimeout(last);
          last = setTimeout(() => {
            this.#open.delete(open);
            reject(new BusError('timeout', `${place.node} owns the shard no more, and did not answer.`));
          }, latest - now);
        },
      };
      const end = () => {
        clearTimeout(last);
        this.#open.delete(open);
      };
      this.#open.add(open);
      answer.then(
        (data) => {
          end();
          resolve(data);
        },
        (error: unknown) => {
          end();
          reject(error);
        },
      );
    });
  }
}
