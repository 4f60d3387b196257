/** What stands before a real authority, and can answer in its place or change what it says: as a bad day of it does. */
import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Agent, createServer, request } from 'node:https';
import { issueCertificate, makeAuthority } from '../../../transports/gateway/tls/local-ca.ts';
import type { Cleanup } from '../temp.ts';
import type { Pebble } from './pebble.ts';

export interface CaFront {
  readonly directoryUrl: string;
  /** The front's own authority, PEM. */
  readonly ca: string;
  /** Paths that were asked for by POST. */
  readonly posts: string[];
  /** Answers in the authority's place: true when it did. */
  answer: ((request: IncomingMessage, response: ServerResponse) => boolean) | undefined;
  /** Changes a body on its way back. */
  change: ((path: string, body: string) => string) | undefined;
}

/** Opens it before `pebble`. */
export async function openCaFront(t: Cleanup, pebble: Pebble): Promise<CaFront> {
  const authority = await makeAuthority('Front (test)', Date.now());
  const agent = new Agent({ ca: pebble.ca });
  const behind = new URL(pebble.directoryUrl);
  const front: { -readonly [K in keyof CaFront]: CaFront[K] } = {
    ...{ directoryUrl: '', ca: authority.cert, posts: [], answer: undefined, change: undefined },
  };
  const server = createServer(await issueCertificate(authority, ['localhost'], Date.now()), (incoming, response) => {
    const { method = 'GET', url = '/', headers } = incoming;
    if (method === 'POST') front.posts.push(url);
    if (front.answer?.(incoming, response) === true) {
      incoming.resume();
      return;
    }
    // Pebble makes its addresses of the Host, and checks them against it.
    const onward = request(
      { host: behind.hostname, port: behind.port, method, path: url, headers, agent, servername: 'localhost' },
      (answer) => {
        const chunks: Buffer[] = [];
        answer.on('data', (chunk: Buffer) => void chunks.push(chunk));
        answer.on('end', () => {
          const text = Buffer.concat(chunks).toString();
          const body = front.change?.(url, text) ?? text;
          const { 'content-length': _length, ...rest } = answer.headers;
          response.writeHead(answer.statusCode ?? 502, rest).end(method === 'HEAD' ? undefined : body);
        });
      },
    );
    onward.on('error', () => response.destroy());
    incoming.pipe(onward);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(async () => {
    agent.destroy();
    server.closeAllConnections();
    server.close();
    await once(server, 'close').catch(() => {});
  });
  const address = server.address();
  front.directoryUrl = `https://localhost:${typeof address === 'object' && address !== null ? address.port : 0}/dir`;
  return front;
}
