/**
 * What the database says of containers, as a gateway knows it. A look reads what changed since the one before. Beside
 * that all are read again, a page at a time: it finds what was changed past the platform's own statements.
 */
import type { Queries } from '../../storage/db.ts';
import {
  changedContainers,
  containersAfter,
  containersSnapshot,
  type OpenContainer,
} from '../../storage/gateway/routes.ts';
import { TablePages } from './table-pages.ts';

/** Containers that have a port open, and named ones. */
export class OpenContainers {
  readonly #db: Queries;
  readonly #known = new Map<string, OpenContainer>();
  /** Containers that there is news of, and those whose rows go next. */
  readonly #suspects = new Set<string>();
  readonly #going = new Set<string>();
  /** The database at the last look; undefined: all is to be read. */
  #snapshot: string | undefined;
  #hasMissed = false;
  /** Whom to keep without an open port. */
  #also: ReadonlySet<string> = new Set();
  readonly #pages = new TablePages<OpenContainer>({
    after: (id, limit) => containersAfter(this.#db, id, limit),
    keyOf: ({ id }) => id,
    keptKeys: () => this.#known.keys(),
    note: (row) => this.#note(row),
    forget: (id) => this.#forget(id),
  });

  constructor(db: Queries) {
    this.#db = db;
  }

  /** There is news of a container: the next look reads it, whatever its row says. */
  suspect(id: string): void {
    this.#suspects.add(id);
  }

  /** News may have been missed: the next look reads all. */
  suspectAll(): void {
    this.#hasMissed = true;
  }

  /** What is known of a container. */
  get(id: string): OpenContainer | undefined {
    return this.#known.get(id);
  }

  /** Those that have a port open, and `also`. */
  ids(also: ReadonlySet<string>): string[] {
    const ids = new Set(also);
    for (const row of this.#known.values()) if (hasPorts(row)) ids.add(row.id);
    return [...ids];
  }

  /** Reads what changed since the last look. `also` are kept without an open port. Rejects with StorageError. */
  async read(also: ReadonlySet<string>): Promise<void> {
    this.#also = also;
    const since = this.#hasMissed ? undefined : this.#snapshot;
    this.#hasMissed = false;
    this.#snapshot = undefined;
    // What commits from here on may be missing in the rows, so the next look starts here.
    const snapshot = await containersSnapshot(this.#db);
    const suspects = [...this.#suspects];
    if (since === undefined) await this.#pages.all();
    else {
      const unknown = [...also].filter((id) => !this.#known.has(id));
      const asked = new Set([...suspects, ...this.#going, ...unknown]);
      for (const row of await changedContainers(this.#db, since, [...asked])) {
        this.#pages.seen(row.id);
        this.#note(row);
        asked.delete(row.id);
      }
      for (const id of asked) this.#forget(id);
    }
    for (const id of suspects) this.#suspects.delete(id);
    this.#snapshot = snapshot;
  }

  /** Reads the next page of all containers. Rejects with StorageError. */
  async sweep(also: ReadonlySet<string>): Promise<void> {
    this.#also = also;
    await this.#pages.next();
  }

  #note(row: OpenContainer): void {
    if (hasPorts(row) || this.#also.has(row.id)) this.#known.set(row.id, row);
    else this.#known.delete(row.id);
    if (row.isGoing && this.#known.has(row.id)) this.#going.add(row.id);
    else this.#going.delete(row.id);
  }

  #forget(id: string): void {
    this.#known.delete(id);
    this.#going.delete(id);
  }
}

function hasPorts({ ports, guarded }: OpenContainer): boolean {
  return ports.length > 0 || guarded.length > 0;
}
