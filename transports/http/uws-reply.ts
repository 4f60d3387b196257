import type { HttpResponse } from 'uWebSockets.js';
import type { HttpAnswer, HttpReply } from '../../proto/ports/http.ts';
import { isBodiless, isSent, statusLine } from './reply-head.ts';

/** Bodies up to this many bytes are handed over at once; the library buffers what the client does not take. */
const WHOLE_BYTES = 64 * 1024;

/** Writes status and headers. */
export function writeHead(res: HttpResponse, reply: HttpAnswer, closing: boolean): void {
  if (reply.status !== 200) res.writeStatus(statusLine(reply.status));
  for (const [name, value] of reply.headers) {
    if (isSent(name)) res.writeHeader(name, value);
  }
  if (closing) res.writeHeader('connection', 'close');
}

/**
 * Writes a checked reply, inside the library's callback or a cork. `head`: answer to HEAD, no body. `closing`: the
 * connection ends with it. Returns true when all is taken; else `done` is called then, unless the client leaves.
 */
export function writeReply(
  res: HttpResponse,
  reply: HttpReply,
  head: boolean,
  closing: boolean,
  done?: () => void,
): boolean {
  const body = reply.body ?? '';
  if (head || isBodiless(reply.status)) {
    writeHead(res, reply, closing);
    if (!isBodiless(reply.status)) res.writeHeader('content-length', String(Buffer.byteLength(body)));
    // With a length of its own as argument the library waits for that many bytes and never ends the reply.
    res.endWithoutBody();
    return true;
  }
  // `end` itself writes `connection: close`.
  writeHead(res, reply, false);
  if (done !== undefined && body.length > WHOLE_BYTES && !closing) {
    return writeSlowly(res, typeof body === 'string' ? Buffer.from(body) : body, done);
  }
  res.end(body, closing);
  return true;
}

/** Hands over a large body as fast as the client takes it, so that a slow one costs no copy of it in the library. */
function writeSlowly(res: HttpResponse, body: Uint8Array, done: () => void): boolean {
  const [, whole] = res.tryEnd(body, body.byteLength);
  if (whole) return true;
  res.onWritable((offset) => {
    const [ok, ended] = res.tryEnd(body.subarray(offset), body.byteLength);
    if (ended) done();
    return ok;
  });
  return false;
}
