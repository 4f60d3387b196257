/** Entries in the order of their use, each in two such orders: that of the whole store, and that of its host. */
import type { Entry } from './entry.ts';

/** One order. Adding, removing and finding the oldest take the same time however many there are. */
export class Order {
  oldest: Entry | undefined;
  newest: Entry | undefined;
  readonly #which: 0 | 1;

  /** `which` of the two. */
  constructor(which: 0 | 1) {
    this.#which = which;
  }

  add(entry: Entry): void {
    entry.older[this.#which] = this.newest;
    entry.newer[this.#which] = undefined;
    if (this.newest === undefined) this.oldest = entry;
    else this.newest.newer[this.#which] = entry;
    this.newest = entry;
  }

  remove(entry: Entry): void {
    const older = entry.older[this.#which];
    const newer = entry.newer[this.#which];
    if (older === undefined) this.oldest = newer;
    else older.newer[this.#which] = newer;
    if (newer === undefined) this.newest = older;
    else newer.older[this.#which] = older;
    entry.older[this.#which] = undefined;
    entry.newer[this.#which] = undefined;
  }

  /** It was used now. */
  use(entry: Entry): void {
    if (entry === this.newest) return;
    this.remove(entry);
    this.add(entry);
  }
}
