import type { HttpResponse, HttpRequest as RawRequest } from 'uWebSockets.js';
import { Readable } from 'node:stream';
import { addressText } from '../../lib/ip-address.ts';
import type { HttpRequest } from '../../proto/ports/http.ts';
import { parseHost } from '../wire/h1/syntax.ts';
import { HeldRequestBody } from './held-body.ts';
import { MAX_HEAD_BYTES, MAX_HEADERS } from './limits.ts';

const nothing = new Uint8Array(0);

// forEach calls back before it returns, so one callback and one target serve every request without a closure each.
let target: string[] = [];
const collect = (name: string, value: string) => {
  target.push(name, value);
};

/**
 * A request on uWebSockets.js. The library's own request lives only inside its callback: parts are read from it on
 * demand while it lives, and `keep` copies whatever was not read yet before the callback returns.
 */
export class UwsRequest implements HttpRequest {
  readonly method: string;
  readonly #res: HttpResponse;
  #raw: RawRequest | undefined;
  #headers: string[] | undefined;
  #pathText: string | undefined;
  #queryText: string | undefined;
  #address: string | undefined;
  #aborter: AbortController | undefined;
  #content: HeldRequestBody | undefined;
  #asked = false;
  #spent = false;
  /** The client left before the reply was sent. */
  gone = false;

  constructor(res: HttpResponse, raw: RawRequest, method: string) {
    this.#res = res;
    this.#raw = raw;
    this.method = method;
  }

  get path(): string {
    this.#pathText ??= this.#raw?.getUrl() ?? '';
    return this.#pathText;
  }

  get query(): string {
    this.#queryText ??= this.#raw?.getQuery() ?? '';
    return this.#queryText;
  }

  /**
   * Asking the library costs a tenth of a whole request, so a GET asks when its handler does: after its reply or its
   * client is gone, an address that was never read is empty. Other methods have it from the start.
   */
  get remoteAddress(): string {
    this.#address ??= this.#spent ? '' : addressText(new Uint8Array(this.#res.getRemoteAddress()));
    return this.#address;
  }

  get signal(): AbortSignal {
    this.#aborter ??= new AbortController();
    if (this.gone) this.#aborter.abort();
    return this.#aborter.signal;
  }

  header(name: string): string | undefined {
    const list = this.#list();
    let found: string | undefined;
    for (let i = 0; i < list.length; i += 2) {
      if (list[i] !== name) continue;
      const value = list[i + 1] ?? '';
      found = found === undefined ? value : `${found}${name === 'cookie' ? '; ' : ', '}${value}`;
    }
    return found;
  }

  async body(limit: number): Promise<Uint8Array> {
    if (this.#asked) throw new TypeError('The body of a request is read once.');
    this.#asked = true;
    if (this.#raw !== undefined) this.#attachBody();
    return this.#content?.read(limit) ?? nothing;
  }

  stream(): Readable {
    if (this.#asked) throw new TypeError('The body of a request is read once.');
    this.#asked = true;
    if (this.#raw !== undefined) this.#attachBody();
    return this.#content?.stream() ?? Readable.from([]);
  }

  /** The body still arriving, if the request has one that is not over. */
  get unread(): HeldRequestBody | undefined {
    return this.#content === undefined || this.#content.ended ? undefined : this.#content;
  }

  /** Whether the head is within the bounds of limits.ts. The library itself only bounds a head that comes in pieces. */
  fits(): boolean {
    const list = this.#list();
    let size = this.path.length + this.query.length;
    for (const part of list) size += part.length + 2;
    return size <= MAX_HEAD_BYTES && list.length <= MAX_HEADERS * 2;
  }

  /** Whether it names one host (RFC 9112, section 3.2); the library does not look. */
  hasHost(): boolean {
    const host = this.header('host');
    return host !== undefined && parseHost(host) !== undefined;
  }

  /** Whether the length is told once and in one way (RFC 9112, 6.3); of several the library takes the first. */
  isFramed(): boolean {
    const coding = this.header('transfer-encoding');
    const length = this.header('content-length');
    if (coding !== undefined) return length === undefined && coding.toLowerCase() === 'chunked';
    return length === undefined || /^\d{1,15}$/.test(length);
  }

  /** Copies what the handler may ask for later, holds the body. The last call inside the library's callback. */
  keep(): void {
    if (this.#raw === undefined) return;
    this.#list();
    void this.path;
    void this.query;
    if (this.method !== 'GET') void this.remoteAddress;
    this.#attachBody();
    this.#raw = undefined;
  }

  /** The reply was sent: nothing more can be read from the library. */
  release(): void {
    this.#raw = undefined;
    this.#spent = true;
  }

  /** Its head is asked for no more. */
  forget(): void {
    this.#headers = [];
    this.#pathText = '';
    this.#queryText = '';
  }

  /** Nobody waits for its body, nor for its client's leaving. */
  get isAlone(): boolean {
    return this.#aborter === undefined && this.unread === undefined;
  }

  /** The client left: wakes whoever waits for the signal or for the body. */
  abort(): void {
    this.gone = true;
    this.#spent = true;
    this.#raw = undefined;
    this.#content?.abort();
    this.#aborter?.abort();
  }

  #list(): string[] {
    if (this.#headers === undefined) {
      const list: string[] = [];
      target = list;
      this.#raw?.forEach(collect);
      this.#headers = list;
    }
    return this.#headers;
  }

  #attachBody(): void {
    if (this.#content !== undefined) return;
    const length = this.header('content-length');
    if (length === undefined ? this.header('transfer-encoding') === undefined : Number(length) === 0) return;
    const content = new HeldRequestBody(this.#res, Number(length ?? 0));
    this.#content = content;
    // The library takes the memory back when this returns.
    this.#res.onData((chunk, last) => content.take(new Uint8Array(chunk), last));
  }
}
