/** Reads a table over and over, a page at a time: finds what was changed or removed without news of it. */

/** Rows in a page at least: as many as these are read in one turn. */
const PAGE = 1000;
/** Pages in which the whole table is read, if it is large, */
const PAGES = 60;
/** but of a very large one not more rows than these in a turn: all gateways do so all the time. */
const MAX_PAGE = 2000;
/** Rows in a page when all are read at once. */
const LARGE_PAGE = 10_000;

/** The table, and what its reader keeps of it. */
interface PagedTable<Row> {
  /** The next rows after a key ('' is before the first), in the order of keys, at most `limit`. */
  after(key: string, limit: number): Promise<readonly Row[]>;
  keyOf(row: Row): string;
  /** The keys of what is kept at the moment. */
  keptKeys(): Iterable<string>;
  /** A row was read. */
  note(row: Row): void;
  /** There is no such row any more. */
  forget(key: string): void;
}

/** Where a reader is in its table. */
export class TablePages<Row> {
  readonly #table: PagedTable<Row>;
  /** Where the next page begins, what was read on the way there, and what the pages have not shown yet. */
  #after = '';
  #count = 0;
  #unseen = new Set<string>();
  /** How many rows there were when all had been read. */
  #total = 0;

  constructor(table: PagedTable<Row>) {
    this.#table = table;
  }

  /** The reader has this row from elsewhere: it is there. */
  seen(key: string): void {
    this.#unseen.delete(key);
  }

  /** Reads the next page. Rejects as the table does. */
  async next(): Promise<void> {
    await this.#page(Math.min(Math.max(PAGE, Math.ceil(this.#total / PAGES)), MAX_PAGE));
  }

  /** Reads all from the beginning. Rejects as the table does. */
  async all(): Promise<void> {
    this.#after = '';
    while (!(await this.#page(LARGE_PAGE)));
  }

  /** Resolves with whether it was the last. */
  async #page(size: number): Promise<boolean> {
    const table = this.#table;
    if (this.#after === '') {
      this.#unseen = new Set(table.keptKeys());
      this.#count = 0;
    }
    const rows = await table.after(this.#after, size);
    for (const row of rows) {
      this.#unseen.delete(table.keyOf(row));
      table.note(row);
    }
    this.#count += rows.length;
    const last = rows.at(-1);
    if (last !== undefined && rows.length === size) {
      this.#after = table.keyOf(last);
      return false;
    }
    for (const key of this.#unseen) table.forget(key);
    this.#after = '';
    this.#total = this.#count;
    return true;
  }
}
