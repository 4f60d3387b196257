/**
 * The verified mappings, as a gateway knows them. A look reads those that there is news of. Beside that all are read
 * again, a page at a time: it finds what was changed past the platform's own statements.
 */
import type { MappedHost, MappingSource, VerifiedMapping } from '../../proto/ports/acme.ts';
import { TablePages } from './table-pages.ts';

/** Where each mapped hostname leads. */
export class KnownMappings {
  readonly #source: Pick<MappingSource, 'named' | 'after'>;
  readonly #pages: TablePages<VerifiedMapping>;
  /** Hostnames that there is news of. */
  readonly #suspects = new Set<string>();
  /** News may have been missed: the next look reads all. */
  #hasMissed = true;
  /** Never changed, but replaced: snapshots hold it. */
  #known: ReadonlyMap<string, MappedHost> = new Map();
  /** What this look found to be different; undefined: gone. */
  readonly #found = new Map<string, MappedHost | undefined>();

  constructor(source: Pick<MappingSource, 'named' | 'after'>) {
    this.#source = source;
    this.#pages = new TablePages<VerifiedMapping>({
      after: (hostname, limit) => source.after(hostname, limit),
      keyOf: ({ hostname }) => hostname,
      keptKeys: () => this.#known.keys(),
      note: (mapping) => this.#note(mapping),
      forget: (hostname) => this.#found.set(hostname, undefined),
    });
  }

  /** There is news of a hostname; undefined: news may have been missed. */
  suspect(hostname: string | undefined): void {
    if (hostname === undefined) this.#hasMissed = true;
    else this.#suspects.add(hostname);
  }

  /**
   * Where each hostname leads, after what there was news of has been read, and with `sweeps` a page of all. The same
   * map as before while nothing changed. Rejects with StorageError; the next look makes up for that.
   */
  async read(sweeps: boolean): Promise<ReadonlyMap<string, MappedHost>> {
    const readsAll = this.#hasMissed;
    const suspects = [...this.#suspects];
    this.#hasMissed = false;
    this.#suspects.clear();
    try {
      if (readsAll) await this.#pages.all();
      else {
        if (suspects.length > 0) await this.#readNamed(suspects);
        if (sweeps) await this.#pages.next();
      }
    } catch (error) {
      this.#hasMissed ||= readsAll;
      for (const hostname of suspects) this.#suspects.add(hostname);
      throw error;
    } finally {
      this.#take();
    }
    return this.#known;
  }

  async #readNamed(hostnames: readonly string[]): Promise<void> {
    const gone = new Set(hostnames);
    for (const mapping of await this.#source.named(hostnames)) {
      gone.delete(mapping.hostname);
      this.#pages.seen(mapping.hostname);
      this.#note(mapping);
    }
    for (const hostname of gone) this.#found.set(hostname, undefined);
  }

  #note({ hostname, ...host }: VerifiedMapping): void {
    const known = this.#known.get(hostname);
    if (known !== undefined && isSameHost(known, host)) this.#found.delete(hostname);
    else this.#found.set(hostname, host);
  }

  /** Makes a map of what was known and what was found. */
  #take(): void {
    const isChanged = [...this.#found].some(([hostname, host]) => host !== undefined || this.#known.has(hostname));
    if (isChanged) {
      const known = new Map(this.#known);
      for (const [hostname, host] of this.#found) {
        if (host === undefined) known.delete(hostname);
        else known.set(hostname, host);
      }
      this.#known = known;
    }
    this.#found.clear();
  }
}

function isSameHost(one: MappedHost, other: MappedHost): boolean {
  return one.containerId === other.containerId && one.targetPort === other.targetPort && one.cache === other.cache;
}
