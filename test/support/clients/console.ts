/** Requests as browsers send them for pages, with the headers that no page can set. */
import { request as httpRequest, type IncomingHttpHeaders } from 'node:http';
import { z } from 'zod';

/** What came back. */
export interface PageReply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly json: Record<string, unknown>;
  /** The session in the cookie that was set; empty when it was forgotten, undefined without a cookie. */
  readonly cookie: string | undefined;
}

/** What a page asks with. */
export interface PageRequest {
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

const jsonSchema = z.record(z.string(), z.unknown());

/** Sends a request to `origin` (scheme, address and port) of which the browser says `headers`. */
export function fromPage(
  method: string,
  origin: string,
  path: string,
  { body, headers = {} }: PageRequest = {},
): Promise<PageReply> {
  return new Promise((resolve, reject) => {
    const sent = httpRequest(`${origin}${path}`, { method, headers, agent: false }, (reply) => {
      const chunks: Buffer[] = [];
      reply.on('data', (chunk: Buffer) => chunks.push(chunk));
      reply.on('error', reject);
      reply.on('end', () => {
        const text = Buffer.concat(chunks).toString();
        const isJson = reply.headers['content-type']?.startsWith('application/json') === true;
        const value: unknown = isJson ? JSON.parse(text) : {};
        const json = Array.isArray(value) ? { list: value } : jsonSchema.parse(value);
        const [set] = reply.headers['set-cookie'] ?? [];
        const cookie = set === undefined ? undefined : /^__Host-troupe=([^;]*)/.exec(set)?.[1];
        resolve({ status: reply.statusCode ?? 0, headers: reply.headers, json, cookie });
      });
    });
    sent.on('error', reject);
    sent.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

/** What a browser says of a page of the console on `host`. */
export function consoleHeaders(host: string, cookie?: string): Record<string, string> {
  return {
    host,
    origin: `https://${host}`,
    'sec-fetch-site': 'same-origin',
    ...(cookie === undefined ? {} : { cookie: `__Host-troupe=${cookie}` }),
  };
}
