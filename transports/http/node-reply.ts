import type { ServerResponse } from 'node:http';
import type { HttpAnswer, HttpPushReply, HttpReply } from '../../proto/ports/http.ts';
import { isBodiless, isSent, statusLine } from './reply-head.ts';

/** The head as node takes it: name, value, name, value. `length`: content-length; undefined: the length is unknown. */
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

/** The head of a pushed reply. */
export function writePushHead(response: ServerResponse, reply: HttpPushReply, closing: boolean): void {
  writeHead(response, reply.status, headOf(reply, undefined, closing));
}
