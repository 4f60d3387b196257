/** The newest lines of one log, in the engine's order, for readers who are nearly as far. */

const MAX_LINES = 2000;
const MAX_CHARACTERS = 1024 * 1024;
/** Pieces of a longer line may be the same, with the same stamp: nobody's place can be told by them. */
const MAX_TELLING = 16_000;

/** A bounded window over a log. Places are counted from where it began. */
export class LogRing {
  #lines: string[] = [];
  #first = 0;
  #characters = 0;

  /** The place of the oldest line that is kept. */
  get first(): number {
    return this.#first;
  }

  push(lines: readonly string[]): void {
    for (const line of lines) {
      this.#lines.push(line);
      this.#characters += line.length;
    }
    let drop = 0;
    while (drop < this.#lines.length - 1 && this.#isTooLarge(drop)) {
      this.#characters -= this.#lines[drop]?.length ?? 0;
      drop++;
    }
    if (drop === 0) return;
    this.#lines = this.#lines.slice(drop);
    this.#first += drop;
  }

  #isTooLarge(dropped: number): boolean {
    return this.#lines.length - dropped > MAX_LINES || this.#characters > MAX_CHARACTERS;
  }

  /** At most `most` lines from a place on, which must not be before `first`. */
  from(place: number, most: number): string[] {
    return this.#lines.slice(place - this.#first, place - this.#first + most);
  }

  /**
   * The place behind `run`, lines that a reader took last; undefined when they are not here, or in more than one place.
   */
  behind(run: readonly string[]): number | undefined {
    const last = run.at(-1);
    if (last === undefined || last.length > MAX_TELLING) return undefined;
    let found: number | undefined;
    for (let at = this.#lines.length - 1; at >= 0; at--) {
      if (this.#lines[at] !== last || !this.#endsAt(at, run)) continue;
      if (found !== undefined) return undefined;
      found = this.#first + at + 1;
    }
    return found;
  }

  /** Whether `run` ends at an index, as far back as both go. */
  #endsAt(at: number, run: readonly string[]): boolean {
    for (let back = 1; back < run.length && at - back >= 0; back++)
      if (this.#lines[at - back] !== run[run.length - 1 - back]) return false;
    return true;
  }
}
