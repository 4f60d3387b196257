/** Kept responses in memory, counted by bytes: by host, path, then what else they hang on. The latest used stay. */
import type { Entry } from './entry.ts';

/** Interface section 4.5. */
const CAPACITY = 500_000_000;
/** Answers to one `host:path`. */
const MAX_VARIANTS = 32;
/** Entries looked at in one go of a cleanup. */
const SLICE = 5000;

export interface StoreOptions {
  /** Bytes in all. */
  readonly capacity?: number;
  /** A host with more than this many bytes makes room among its own: a flood for one drives out no other. */
  readonly share?: number;
}

/** What one host has. */
interface Shelf {
  bytes: number;
  readonly order: Order;
  readonly paths: Map<string, Entry[]>;
}

/** The store. */
export class CacheStore {
  readonly #capacity: number;
  readonly #share: number;
  readonly #hosts = new Map<string, Shelf>();
  readonly #order = new Order(0);
  #bytes = 0;
  /** Bytes of dropped entries that are still being sent. */
  #lent = 0;
  #entries = 0;
  #evictions = 0;

  constructor({ capacity = CAPACITY, share = capacity / 4 }: StoreOptions = {}) {
    this.#capacity = capacity;
    this.#share = share;
  }

  /** Bytes in use, with those of dropped entries that are still being sent. Never more than the capacity. */
  get bytes(): number {
    return this.#bytes + this.#lent;
  }

  get entries(): number {
    return this.#entries;
  }

  /** Entries that made room for others. */
  get evictions(): number {
    return this.#evictions;
  }

  /** What is kept and fresh at `now`; it counts as used. */
  get(host: string, path: string, variant: string, now: number): Entry | undefined {
    const shelf = this.#hosts.get(host);
    const found = shelf?.paths.get(path)?.find((entry) => entry.variant === variant);
    if (shelf === undefined || found === undefined) return undefined;
    if (found.expiresAt <= now) {
      this.#drop(found);
      return undefined;
    }
    this.#order.use(found);
    shelf.order.use(found);
    return found;
  }

  /** Keeps an entry in the place of one like it; false when there is no room. */
  set(entry: Entry): boolean {
    const { host, path, size } = entry;
    const variants = this.#hosts.get(host)?.paths.get(path) ?? [];
    const same = variants.find(({ variant }) => variant === entry.variant);
    if (same !== undefined) this.#drop(same);
    const [first] = variants;
    if (variants.length >= MAX_VARIANTS && first !== undefined) this.#evict(first);
    if (!this.#makeRoom(host, size)) return false;

    let shelf = this.#hosts.get(host);
    if (shelf === undefined) {
      shelf = { bytes: 0, order: new Order(1), paths: new Map() };
      this.#hosts.set(host, shelf);
    }
    const place = shelf.paths.get(path);
    if (place === undefined) shelf.paths.set(path, [entry]);
    else place.push(entry);
    shelf.bytes += size;
    this.#bytes += size;
    this.#entries++;
    entry.isKept = true;
    this.#order.add(entry);
    shelf.order.add(entry);
    return true;
  }

  /** Drops all that is kept for this host and path. */
  delete(host: string, path: string): void {
    for (const entry of this.#hosts.get(host)?.paths.get(path)?.slice() ?? []) this.#drop(entry);
  }

  clear(): void {
    while (this.#order.oldest !== undefined) this.#drop(this.#order.oldest);
  }

  /** Drops what is no longer fresh, in steps: each `next` looks at some thousand entries. */
  *sweep(now: () => number): Generator<void> {
    let looked = 0;
    for (const { paths } of this.#hosts.values()) {
      for (const entries of paths.values()) {
        for (const entry of entries.slice()) if (entry.expiresAt <= now()) this.#drop(entry);
        if (++looked % SLICE === 0) yield;
      }
    }
  }

  #makeRoom(host: string, size: number): boolean {
    if (size > this.#capacity - this.#lent) return false;
    while (this.bytes + size > this.#capacity) {
      const shelf = this.#hosts.get(host);
      const own = shelf !== undefined && shelf.bytes > this.#share ? shelf.order.oldest : undefined;
      const victim = own ?? this.#order.oldest;
      if (victim === undefined) return false;
      this.#evict(victim);
      // It went, but somebody is still being sent it: its bytes are in use.
      if (victim.holders > 0 && size > this.#capacity - this.#lent) return false;
    }
    return true;
  }

  #evict(entry: Entry): void {
    this.#evictions++;
    this.#drop(entry);
  }

  #drop(entry: Entry): void {
    const shelf = this.#hosts.get(entry.host);
    const variants = shelf?.paths.get(entry.path);
    if (!entry.isKept || shelf === undefined || variants === undefined) return;
    entry.isKept = false;
    variants.splice(variants.indexOf(entry), 1);
    if (variants.length === 0) shelf.paths.delete(entry.path);
    if (shelf.paths.size === 0) this.#hosts.delete(entry.host);
    shelf.bytes -= entry.size;
    this.#bytes -= entry.size;
    this.#entries--;
    this.#order.remove(entry);
    shelf.order.remove(entry);
    if (entry.holders > 0) {
      this.#lent += entry.size;
      entry.onFree = this.#onFree;
    }
  }

  readonly #onFree = (entry: Entry): void => {
    this.#lent -= entry.size;
  };
}

/**
 * Entries in the order of their use: in the whole store, or of their host. Adding, removing and finding the oldest take
 * the same time however many there are.
 */
class Order {
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
