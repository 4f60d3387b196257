import { BusError } from '../../proto/ports.ts';
import type { Place } from './view.ts';

/** An answer that was sent before its owner changed arrives within this, ms. */
const LAST_ANSWER_MS = 1000;

interface Open {
  readonly shard: number;
  readonly place: Place;
  /** The owner has changed. */
  giveUp(): void;
}

/** Asks that wait for the answer of another node. One that froze or was cut off is not waited for once another has its shard. */
export class OpenAsks {
  readonly #ownerOf: (shard: number) => Place | undefined;
  readonly #open = new Set<Open>();

  constructor(ownerOf: (shard: number) => Place | undefined) {
    this.#ownerOf = ownerOf;
  }

  /** Looks who still owns what was asked: after each change of the view. */
  look(): void {
    for (const open of this.#open) {
      const owner = this.#ownerOf(open.shard);
      if (owner?.node !== open.place.node || owner.epoch !== open.place.epoch) open.giveUp();
    }
  }

  /** What `answer` comes to; rejects BusError `timeout` a second after the owner has changed. */
  answer(shard: number, place: Place, answer: Promise<Uint8Array>): Promise<Uint8Array> {
    return new Promise((resolve, reject) => {
      let last: NodeJS.Timeout | undefined;
      const open: Open = {
        shard,
        place,
        giveUp: () => {
          last ??= setTimeout(() => {
            this.#open.delete(open);
            reject(new BusError('timeout', `${place.node} owns the shard no more, and did not answer.`));
          }, LAST_ANSWER_MS);
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
