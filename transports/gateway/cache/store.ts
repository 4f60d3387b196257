/** Kept responses in memory, counted by bytes: by host, path, then what else they hang on. The latest used stay. */
import type { Field } from '../../wire/h1/fields.ts';
import type { CachedAnswer } from '../h1/exchange-sides.ts';

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

/** Up to this size head and body leave in one write; a larger body is not copied for it. */
const JOINED = 16_384;
/**
 * What an entry costs beside its bytes: objects, buffers, its places in maps and lists, and a map for a host that has
 * no other. Measured in test/gateway/cache-store.test.ts.
 */
const OVERHEAD = 1536;

const TOLD_AGAIN = /^(?:cache-control|content-location|date|etag|expires|vary):/i;

/** What an entry is made of. */
interface EntryParts {
  readonly host: string;
  readonly path: string;
  readonly variant: string;
  readonly reason: string;
  /** As clients get them, without those of the connection and the length. */
  readonly fields: readonly Field[];
  readonly body: Buffer;
  /** Age at the moment `now`, ms, and how long it is fresh from then. */
  readonly ageMs: number;
  readonly freshMs: number;
  readonly isPublic: boolean;
  /** Monotonic ms. */
  readonly now: number;
}

/** One kept response. `clock` is the one of `parts.now`. */
export class Entry implements CachedAnswer {
  readonly status = 200;
  /** Its entity tag, if it has one. */
  readonly tag: string | undefined;
  readonly host: string;
  readonly path: string;
  readonly variant: string;
  readonly isPublic: boolean;
  /** Bytes it is counted with. */
  readonly size: number;
  readonly expiresAt: number;
  readonly length: number;
  /** Neighbours in two orders of use; the store's own. */
  readonly older: [Entry | undefined, Entry | undefined] = [undefined, undefined];
  readonly newer: [Entry | undefined, Entry | undefined] = [undefined, undefined];
  /** Whether the store has it; and how many send from it. */
  isKept = false;
  holders = 0;
  /** Told when the last holder of a dropped entry lets go. */
  onFree: ((entry: Entry) => void) | undefined;
  readonly #clock: () => number;
  /** When its age was 0. */
  readonly #born: number;
  /** Status line and fields up to the age. */
  readonly #head: Buffer;
  #body: Buffer;
  /** What is sent at an age of `#wireAge` seconds on a connection that goes on. */
  #wire: readonly [Buffer] | readonly [Buffer, Buffer] | undefined;
  #wireAge = -1;

  constructor(parts: EntryParts, clock: () => number) {
    const { host, path, variant, reason, fields, body, ageMs, freshMs, isPublic, now } = parts;
    this.host = copyOf(host);
    this.path = copyOf(path);
    this.variant = copyOf(variant);
    this.isPublic = isPublic;
    this.#clock = clock;
    this.#born = now - ageMs;
    this.expiresAt = now + freshMs;
    this.length = body.length;
    this.#body = body;
    let head = `HTTP/1.1 200 ${reason}\r\n`;
    for (const { name, line } of fields) if (name !== 'content-length' && name !== 'age') head += `${line}\r\n`;
    this.tag = fields.find(({ name }) => name === 'etag')?.value;
    this.#head = Buffer.from(`${head}Content-Length: ${body.length}\r\nAge: `, 'latin1');
    // The head is there twice: by itself, and as it is sent.
    this.size = OVERHEAD + body.length + 2 * this.#head.length + 2 * (host.length + path.length) + variant.length;
  }

  /** Whole seconds since the origin made it, at `now`. */
  ageAt(now: number): number {
    return Math.max(0, Math.floor((now - this.#born) / 1000));
  }

  wire(keepAlive: boolean, minor: 0 | 1): readonly [Buffer] | readonly [Buffer, Buffer] {
    const age = this.ageAt(this.#clock());
    if (!keepAlive || minor === 0)
      return [this.#headOf(age, keepAlive ? 'Connection: keep-alive\r\n' : 'Connection: close\r\n'), this.#body];
    if (this.#wire === undefined || this.#wireAge !== age) {
      const head = this.#headOf(age, '');
      if (head.length + this.#body.length > JOINED) this.#wire = [head, this.#body];
      else {
        const whole = Buffer.allocUnsafeSlow(head.length + this.#body.length);
        head.copy(whole);
        this.#body.copy(whole, head.length);
        // One copy is enough: what was joined before goes when its last write is done.
        this.#body = whole.subarray(head.length);
        this.#wire = [whole];
      }
      this.#wireAge = age;
    }
    return this.#wire;
  }

  /** For whoever has it already: `304 Not Modified`, with what it may have changed (RFC 9110, 15.4.5). */
  notModified(): CachedAnswer {
    const head = this.#head.toString('latin1');
    const kept = head.split('\r\n').filter((line) => TOLD_AGAIN.test(line));
    const start = ['HTTP/1.1 304 Not Modified', ...kept, `Age: ${this.ageAt(this.#clock())}`].join('\r\n');
    return {
      status: 304,
      length: 0,
      wire: (keepAlive, minor) => {
        const connection = !keepAlive ? 'Connection: close\r\n' : minor === 0 ? 'Connection: keep-alive\r\n' : '';
        return [Buffer.from(`${start}\r\n${connection}\r\n`, 'latin1')];
      },
      hold: () => () => {},
    };
  }

  hold(): () => void {
    this.holders++;
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      if (--this.holders > 0 || this.isKept) return;
      this.onFree?.(this);
      this.onFree = undefined;
    };
  }

  #headOf(age: number, connection: string): Buffer {
    const end = `${age}\r\n${connection}\r\n`;
    const head = Buffer.allocUnsafe(this.#head.length + end.length);
    this.#head.copy(head);
    head.write(end, this.#head.length, 'latin1');
    return head;
  }
}

/** Text of its own: a part that was cut out of a head would keep all of it in memory. */
function copyOf(text: string): string {
  return Buffer.from(text, 'latin1').toString('latin1');
}
