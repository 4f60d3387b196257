/** A receiver of webhooks: a real HTTP server that keeps what it is sent, and answers as the test says. */
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { z } from 'zod';
import type { Cleanup } from '../temp.ts';

const bodySchema = z.object({
  type: z.enum(['notification', 'test']),
  timestamp: z.iso.datetime(),
  data: z.strictObject({
    event_id: z.string(),
    user_id: z.string(),
    title: z.string(),
    message: z.string(),
    link: z.string(),
    category: z.string(),
    scope: z.string(),
  }),
});

/** A request as it came. */
export interface ReceivedHook {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  readonly id: string;
  readonly body: z.output<typeof bodySchema>;
}

/** How the receiver answers: a status, or by hand. */
export type HookAnswer = number | ((response: ServerResponse) => void);

/** Starts a receiver on a free port of 127.0.0.1. `answer`: to the n-th request, beginning at 1. */
export async function startReceiver(
  t: Cleanup,
  answer: (hook: ReceivedHook, n: number) => HookAnswer = () => 204,
  tls?: { readonly key: string; readonly cert: string },
) {
  const hooks: ReceivedHook[] = [];
  const server = tls === undefined ? createServer() : createTlsServer(tls);
  server.on('request', (request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      const text = Buffer.concat(parts).toString();
      const body = bodySchema.parse(JSON.parse(text));
      const id = String(request.headers['webhook-id']);
      const hook = { path: request.url ?? '', headers: request.headers, text, id, body };
      hooks.push(hook);
      const given = answer(hook, hooks.length);
      if (typeof given === 'number') response.writeHead(given).end();
      else given(response);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => void server.close(resolve));
  });
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  const port = address.port;
  return {
    hooks,
    port,
    url: `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${port}/hook`,
    titles: () => hooks.map(({ body }) => body.data.title),
  };
}

/** Whether one of the signatures is by this secret: computed here as a receiver does, not by the platform's code. */
export function isSigned({ headers, id, text }: ReceivedHook, secret: string): boolean {
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
  const wanted = createHmac('sha256', key).update(`${id}.${headers['webhook-timestamp']}.${text}`).digest('base64');
  return String(headers['webhook-signature']).split(' ').includes(`v1,${wanted}`);
}
