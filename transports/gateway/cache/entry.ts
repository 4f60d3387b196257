/** A response that is kept: its bytes as they are sent, and how long they may be. */

import type { Field } from '../../wire/h1/fields.ts';
import type { CachedAnswer } from '../h1/cache-hook.ts';
import { hitLine } from './cache-status.ts';

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
  /** When the origin was asked for it, on the same clock. */
  readonly askedAt: number;
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
  /** When the origin was asked for it. */
  readonly askedAt: number;
  readonly length: number;
  /** Neighbours in two orders of use; the store's own. */
  readonly older: [Entry | undefined, Entry | undefined] = [undefined, undefined];
  readonly newer: [Entry | undefined, Entry | undefined] = [undefined, undefined];
  /** Whether the store has it; and how many send from it. */
  isKept = false;
  /** How often all of its origin had been forgotten when it was asked for. */
  generation = 0;
  holders = 0;
  /** Told when the last holder of a dropped entry lets go. */
  onFree: ((entry: Entry) => void) | undefined;
  readonly #clock: () => number;
  /** When its age was 0. */
  readonly #born: number;
  /** Whole seconds from then for which it is fresh. */
  readonly #lifetime: number;
  /** Status line and fields up to the age. */
  readonly #head: Buffer;
  #body: Buffer;
  /** What is sent at an age of `#wireAge` seconds on a connection that goes on. */
  #wire: readonly [Buffer] | readonly [Buffer, Buffer] | undefined;
  #wireAge = -1;

  constructor(parts: EntryParts, clock: () => number) {
    const { host, path, variant, reason, fields, body, ageMs, freshMs, isPublic, now, askedAt } = parts;
    this.host = copyOf(host);
    this.path = copyOf(path);
    this.variant = copyOf(variant);
    this.isPublic = isPublic;
    this.#clock = clock;
    this.#born = now - ageMs;
    this.#lifetime = Math.floor((ageMs + freshMs) / 1000);
    this.askedAt = askedAt;
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
    const age = this.ageAt(this.#clock());
    const start = ['HTTP/1.1 304 Not Modified', ...kept, `Age: ${age}\r\n${this.#statusAt(age)}`].join('\r\n');
    return {
      status: 304,
      length: 0,
      wire: (keepAlive, minor) => {
        const connection = !keepAlive ? 'Connection: close\r\n' : minor === 0 ? 'Connection: keep-alive\r\n' : '';
        return [Buffer.from(`${start}${connection}\r\n`, 'latin1')];
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

  #statusAt(age: number): string {
    return hitLine(Math.max(0, this.#lifetime - age));
  }

  #headOf(age: number, connection: string): Buffer {
    const end = `${age}\r\n${this.#statusAt(age)}${connection}\r\n`;
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
