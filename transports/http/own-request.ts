import { BodyError, type HttpRequest } from '../../proto/ports/http.ts';
import type { RequestHead } from '../wire/h1/request-head.ts';
import { type BodySource, HeldRequestBody } from './held-body.ts';
import { TargetRequest } from './target-request.ts';

/** Where a request's body comes from. */
export interface RequestSource extends BodySource {
  /** Its body is wanted: a client that waits for `100 Continue` gets it. */
  invite(): void;
}

/** A request on Troupe's own server: its head is read where it is, its body as it comes. */
export class OwnRequest extends TargetRequest implements HttpRequest {
  readonly head: RequestHead;
  readonly content: HeldRequestBody | undefined;
  readonly #source: RequestSource;
  #isAnswered = false;

  constructor(head: RequestHead, remoteAddress: string, source: RequestSource) {
    super(head.target, remoteAddress);
    this.head = head;
    this.#source = source;
    const { framing } = head;
    if (framing.kind === 'chunked') this.content = new HeldRequestBody(source, 0);
    else if (framing.kind === 'length' && framing.length > 0)
      this.content = new HeldRequestBody(source, framing.length);
  }

  get method(): string {
    return this.head.method;
  }

  header(name: string): string | undefined {
    let found: string | undefined;
    for (const field of this.head.fields) {
      if (field.name !== name) continue;
      found = found === undefined ? field.value : `${found}${name === 'cookie' ? '; ' : ', '}${field.value}`;
    }
    return found;
  }

  protected read(content: HeldRequestBody, limit: number): Promise<Uint8Array> {
    if (content.ended) return content.read(limit);
    // What comes over the connection from now on may be another request's.
    if (this.#isAnswered) return Promise.reject(new BodyError('aborted'));
    const { framing } = this.head;
    // One that is refused unread is not invited first.
    if (framing.kind !== 'length' || framing.length <= limit) this.#source.invite();
    return content.read(limit);
  }

  /** The body still arriving, if the request has one that is not over. */
  get unread(): HeldRequestBody | undefined {
    return this.content?.ended === false ? this.content : undefined;
  }

  /** The answer is there: a body that is not whole by now is not asked for any more. */
  answered(): void {
    this.#isAnswered = true;
  }
}
