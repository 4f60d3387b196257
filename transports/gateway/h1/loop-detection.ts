/**
 * Requests that come back (RFC 8586): each that is sent on says in CDN-Loop that it has been here, and for which host.
 * A container that leads a hostname back to the gateway would otherwise keep both busy for ever.
 */
import { elementsOf, valuesOf } from '../../wire/h1/fields.ts';
import type { RequestHead } from '../../wire/h1/request-head.ts';

const FIELD = 'cdn-loop';

/** How often a request may come by for different hosts: reverse proxies in containers may lead to one another. */
export const MOST_PASSES = 8;

/** Marks what is sent on by one platform, and knows it again on all of its gateways. */
export class LoopGuard {
  readonly #id: string;

  /** `id`: of the platform, a token (RFC 9110, section 5.6.2). */
  constructor(id: string) {
    this.#id = id.toLowerCase();
  }

  /** Whether the request has been here for the same host, or too often. */
  isLoop(head: RequestHead): boolean {
    const values = valuesOf(head.fields, FIELD);
    if (values.length === 0) return false;
    const same = this.#element(head.host);
    const ours = elementsOf(values).filter((element) => element === this.#id || element.startsWith(`${this.#id};`));
    return ours.length >= MOST_PASSES || ours.includes(same);
  }

  /** The line that is added to a request for `host`; elements of others stay in front of it. */
  line(host: string): string {
    return `CDN-Loop: ${this.#element(host)}\r\n`;
  }

  /** A host in brackets is no token; what is written for it need only be the same each time. */
  #element(host: string): string {
    return `${this.#id};host=${host.replace(/[^a-z0-9.-]/g, '_') || '_'}`;
  }
}
