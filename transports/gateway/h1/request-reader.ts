/** Takes a client's bytes until they are a request's head, or what to refuse them with. */
import type { ProxyReply } from '../../../proto/gateway/traffic.ts';
import { HeadBuffer } from './head-buffer.ts';
import { MAX_HEAD_BYTES, type RequestHead, readRequestHead } from './request-head.ts';

/** A head, and where in the last chunk what follows it begins. */
interface RequestFound {
  readonly head: RequestHead;
  readonly next: number;
}

/** For a client whose request does not come to its end. */
export const TOO_SLOW: ProxyReply = { status: 408, body: 'The request took too long to arrive.\n' };
const TOO_LARGE: ProxyReply = { status: 431, body: 'The header of the request is too large.\n' };
const BROKEN: ProxyReply = { status: 400, body: 'The request is not HTTP/1.1: a line does not end in CRLF.\n' };

/** Reads one head after the other. */
export class RequestReader {
  readonly #head = new HeadBuffer(MAX_HEAD_BYTES);

  /** Whether nothing of a head has come. */
  get isEmpty(): boolean {
    return this.#head.isEmpty;
  }

  /** Where a head begins in `chunk`: empty lines before a request line are forgiven (RFC 9112, section 2.2). */
  beginOf(chunk: Buffer): number {
    let at = 0;
    if (this.#head.isEmpty) while (at + 1 < chunk.length && chunk[at] === 13 && chunk[at + 1] === 10) at += 2;
    return at;
  }

  /** Takes `chunk` from `at` on; undefined: the head is not complete. */
  push(chunk: Buffer, at: number): RequestFound | { readonly refuse: ProxyReply } | undefined {
    const found = this.#head.push(chunk, at);
    if (found === undefined) return undefined;
    if (found === 'too_large') return { refuse: TOO_LARGE };
    if (found === 'broken') return { refuse: BROKEN };
    const head = readRequestHead(found.text);
    if ('reason' in head)
      return { refuse: { status: head.status, body: `The request is not valid: ${head.reason}.\n` } };
    return { head, next: found.next };
  }
}
