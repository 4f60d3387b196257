import { Readable } from 'node:stream';
import { BodyError, type HttpRequest } from '../../proto/ports/http.ts';
import type { RequestHead } from '../wire/h1/request-head.ts';
import { type BodySource, HeldRequestBody } from './held-body.ts';

/** A body's end. */
export const NO_BYTES = new Uint8Array(0);

/** Where a request's body comes from. */
export interface RequestSource extends BodySource {
  /** Its body is wanted: a client that waits for `100 Continue` gets it. */
  invite(): void;
}

/** A request on Troupe's own server: its head is read where it is, its body as it comes. */
export class OwnRequest implements HttpRequest {
  readonly head: RequestHead;
  readonly remoteAddress: string;
  /** Undefined when there is none. */
  readonly content: HeldRequestBody | undefined;
  readonly #source: RequestSource;
  readonly #split: number;
  #aborter: AbortController | undefined;
  #asked = false;
  #isAnswered = false;
  /** The client left before the reply was sent. */
  #gone = false;

  constructor(head: RequestHead, remoteAddress: string, source: RequestSource) {
    this.head = head;
    this.remoteAddress = remoteAddress;
    this.#source = source;
    this.#split = head.target.indexOf('?');
    const { framing } = head;
    if (framing.kind === 'chunked') this.content = new HeldRequestBody(source, 0);
    else if (framing.kind === 'length' && framing.length > 0)
      this.content = new HeldRequestBody(source, framing.length);
  }

  get method(): string {
    return this.head.method;
  }

  get path(): string {
    return this.#split < 0 ? this.head.target : this.head.target.slice(0, this.#split);
  }

  get query(): string {
    return this.#split < 0 ? '' : this.head.target.slice(this.#split + 1);
  }

  get signal(): AbortSignal {
    this.#aborter ??= new AbortController();
    if (this.#gone) this.#aborter.abort();
    return this.#aborter.signal;
  }

  header(name: string): string | undefined {
    let found: string | undefined;
    for (const field of this.head.fields) {
      if (field.name !== name) continue;
      found = found === undefined ? field.value : `${found}${name === 'cookie' ? '; ' : ', '}${field.value}`;
    }
    return found;
  }

  async body(limit: number): Promise<Uint8Array> {
    if (this.#asked) throw new TypeError('The body of a request is read once.');
    this.#asked = true;
    if (this.content === undefined) return NO_BYTES;
    if (this.content.ended) return this.content.read(limit);
    // What comes over the connection from now on may be another request's.
    if (this.#isAnswered) throw new BodyError('aborted');
    const { framing } = this.head;
    // One that is refused unread is not invited first.
    if (framing.kind !== 'length' || framing.length <= limit) this.#source.invite();
    return this.content.read(limit);
  }

  stream(): Readable {
    if (this.#asked) throw new TypeError('The body of a request is read once.');
    this.#asked = true;
    if (this.content === undefined) return Readable.from([]);
    if (!this.content.ended && !this.#isAnswered) this.#source.invite();
    return this.content.stream();
  }

  /** The body still arriving, if the request has one that is not over. */
  get unread(): HeldRequestBody | undefined {
    return this.content?.ended === false ? this.content : undefined;
  }

  /** The answer is there: a body that is not whole by now is not asked for any more. */
  answered(): void {
    this.#isAnswered = true;
  }

  /** The client left: wakes whoever waits for the signal or for the body. */
  abort(): void {
    if (this.#gone) return;
    this.#gone = true;
    this.content?.abort();
    this.#aborter?.abort();
  }
}
