/** A proxy with a response cache in front of an origin that counts what it is asked. */
import type { Socket } from 'node:net';
import type { ProxyDecision, ProxyRequest } from '../../../proto/gateway/traffic.ts';
import { ResponseCache, type ResponseCacheOptions } from '../../../transports/gateway/cache/response-cache.ts';
import type { Cleanup } from '../temp.ts';
import { openProxy, rawClient, rawOrigin, type TestProxy } from './proxy.ts';

/** What an origin was asked. */
export interface Seen {
  readonly method: string;
  readonly target: string;
  readonly head: string;
  /** How many requests came before this one. */
  readonly count: number;
}

export interface Answer {
  readonly status: number;
  readonly head: string;
  readonly body: string;
  /** Whether it came from the cache. */
  readonly isCached: boolean;
}

export interface CachedProxy extends TestProxy {
  readonly cache: ResponseCache;
  readonly seen: readonly Seen[];
  /** Lets `ms` pass on the clocks of the cache. */
  advance(ms: number): void;
  /** One request on a connection of its own. */
  ask(path: string, options?: { method?: string; host?: string; headers?: string; body?: string }): Promise<Answer>;
}

/** A response with these header lines (each ending in CRLF) and this body. */
export function ok(headers: string, body: string, status = '200 OK'): string {
  return `HTTP/1.1 ${status}\r\n${headers}Content-Length: ${Buffer.byteLength(body, 'latin1')}\r\n\r\n${body}`;
}

export async function openCached(
  t: Cleanup,
  answer: (seen: Seen, socket: Socket) => string | undefined,
  options: ResponseCacheOptions & { route?: (request: ProxyRequest, port: number) => ProxyDecision } = {},
): Promise<CachedProxy> {
  let passed = 0;
  const seen: Seen[] = [];
  const port = await rawOrigin(t, (socket) => {
    let text = '';
    socket.on('end', () => socket.end());
    socket.on('data', (chunk: Buffer) => {
      text += chunk.toString('latin1');
      for (let end = text.indexOf('\r\n\r\n'); end >= 0; end = text.indexOf('\r\n\r\n')) {
        const head = text.slice(0, end + 4);
        const length = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0);
        if (text.length < end + 4 + length) break;
        text = text.slice(end + 4 + length);
        const [method = '', target = ''] = head.split(' ');
        const one = { method, target, head, count: seen.length };
        seen.push(one);
        const reply = answer(one, socket);
        if (reply !== undefined) socket.write(reply, 'latin1');
      }
    });
  });
  const cache = new ResponseCache({
    clock: () => performance.now() + passed,
    wall: () => Date.now() + passed,
    ...options,
  });
  t.after(() => cache.close());
  const { route } = options;
  // Whoever names a client is believed.
  const isTrusted = () => true;
  const proxy = await openProxy(t, route === undefined ? port : (request) => route(request, port), {
    cache,
    isTrusted,
  });
  return {
    ...proxy,
    cache,
    seen,
    advance: (ms) => {
      passed += ms;
    },
    ask: async (path, { method = 'GET', host = 'a.test', headers = '', body } = {}) => {
      const length = body === undefined ? '' : `Content-Length: ${body.length}\r\n`;
      const before = proxy.log.length;
      const client = await rawClient(
        t,
        proxy.port,
        `${method} ${path} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n${headers}${length}\r\n${body ?? ''}`,
      );
      const text = await client.ended();
      const [head = '', ...rest] = text.split('\r\n\r\n');
      return {
        status: Number(head.split(' ')[1]),
        head,
        body: rest.join('\r\n\r\n'),
        isCached: proxy.log.slice(before).some(({ upstream, target }) => upstream === 'cache' && target === path),
      };
    },
  };
}
