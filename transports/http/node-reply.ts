import type { ServerResponse } from 'node:http';
import type { HttpAnswer, HttpPushReply, HttpReply, HttpStreamReply } from '../../proto/ports/http.ts';
import { isBodiless, isSent, statusLine } from './reply-head.ts';

/**
 * The head as node takes it: name, value, name, value. `length`: content-length, or undefined for a body of unknown
 * length.
 */
function headOf(reply: HttpAnswer, length: number | undefined, closing: boolean): string[] {
  const head: string[] = [];
  for (const [name, value] of reply.headers) {
    if (isSent(name)) head.push(name, value);
  }
  if (length !== undefined) head.push('content-length', String(length));
  if (closing) head.push('connection', 'close');
  return head;
}

function writeHead(response: ServerResponse, status: number, head: string[]): void {
  response.writeHead(status, statusLine(status).slice(4), head);
}

/** Writes a checked reply. `head`: answer to HEAD, no body. `closing`: the connection ends with it. */
export function writeReply(response: ServerResponse, reply: HttpReply, head: boolean, closing: boolean): void {
  const body = reply.body ?? '';
  const length = isBodiless(reply.status) ? undefined : Buffer.byteLength(body);
  writeHead(response, reply.status, headOf(reply, length, closing));
  if (head || length === undefined) response.end();
  else response.end(body);
}

/** The head of an answer to HEAD whose body would have been a stream. */
export function writeStreamHead(
  response: ServerResponse,
  reply: HttpStreamReply | HttpPushReply,
  closing: boolean,
): void {
  writeHead(response, reply.status, headOf(reply, undefined, closing));
}

/** Resolves when the client took what was written, or when it left. */
function writable(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      response.off('drain', done).off('close', done);
      resolve();
    };
    response.on('drain', done).on('close', done);
  });
}

/**
 * Sends chunk after chunk until the stream ends or the client leaves, in which case the iterator is returned once.
 * Rejects with what the stream threw; `response.headersSent` says whether another reply is still possible.
 */
export async function sendStream(
  response: ServerResponse,
  reply: HttpStreamReply,
  closing: () => boolean,
): Promise<void> {
  const iterator = reply.stream[Symbol.asyncIterator]();
  let gone = false;
  const leave = () => {
    gone = true;
    // A generator that is still waiting inside `next` runs its `finally` when that settles.
    if (!response.writableEnded) Promise.resolve(iterator.return?.()).catch(() => undefined);
  };
  response.once('close', leave);
  try {
    for (;;) {
      const next = await iterator.next();
      if (gone) return;
      if (!response.headersSent) writeStreamHead(response, reply, closing());
      if (next.done) break;
      if (next.value.length > 0 && !response.write(next.value)) await writable(response);
      if (gone) return;
    }
    response.end();
  } finally {
    if (!response.writableEnded) response.off('close', leave);
  }
}
