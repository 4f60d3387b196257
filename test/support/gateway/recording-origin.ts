/** What an origin was asked, whole: node:http reads it, and answers with what it read. */
import type { Cleanup } from '../temp.ts';
import type { Seen } from './ambiguous-requests.ts';
import { httpOrigin } from './proxy.ts';

export interface Recorder {
  readonly port: number;
  /** Requests that came whole, in order; `['BAD', '', 0]` for what was none. */
  readonly seen: Seen[];
}

/** How a recorded request is answered: found again in what a client got. */
export function answerTo([method, path, length]: Seen): string {
  return `[${method} ${path} ${length}]`;
}

export async function recorder(t: Cleanup): Promise<Recorder> {
  const seen: Seen[] = [];
  const port = await httpOrigin(
    t,
    (incoming, response) => {
      let length = 0;
      incoming.on('error', () => {});
      incoming.on('data', (chunk: Buffer) => {
        length += chunk.length;
      });
      incoming.on('end', () => {
        const one: Seen = [incoming.method ?? '', incoming.url ?? '', length];
        seen.push(one);
        response.setHeader('content-type', 'text/plain');
        response.end(answerTo(one));
      });
    },
    (error) => {
      // A connection that ends in the middle of a request is no request.
      if (!/ECONNRESET|HPE_INVALID_EOF_STATE/.test(`${error.code}`)) seen.push(['BAD', `${error.code}`, 0]);
    },
  );
  return { port, seen };
}
