/** A collector of spans that speaks OTLP over HTTP, in JSON. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { z } from 'zod';
import type { Cleanup } from '../temp.ts';

const pairs = z.array(z.object({ key: z.string(), value: z.object({ stringValue: z.string() }) }));
const span = z.object({
  traceId: z.string().regex(/^[0-9a-f]{32}$/),
  spanId: z.string().regex(/^[0-9a-f]{16}$/),
  parentSpanId: z.string().optional(),
  name: z.string(),
  kind: z.int(),
  startTimeUnixNano: z.string().regex(/^[0-9]{19}$/),
  endTimeUnixNano: z.string().regex(/^[0-9]{19}$/),
  attributes: pairs,
  status: z.object({ code: z.int().optional(), message: z.string().optional() }),
});
const request = z.object({
  resourceSpans: z.array(
    z.object({
      resource: z.object({ attributes: pairs }),
      scopeSpans: z.array(z.object({ spans: z.array(span) })),
    }),
  ),
});

/** Opens one, closed with `t`; the spans that it got, in the order of arrival. */
export async function traceCollector(t: Cleanup, port = 0) {
  const spans: z.infer<typeof span>[] = [];
  const server = createServer(async (message, reply) => {
    const chunks: Uint8Array[] = [];
    for await (const chunk of message) chunks.push(chunk);
    const body: unknown = JSON.parse(Buffer.concat(chunks).toString());
    const isOurs = message.method === 'POST' && message.url === '/v1/traces';
    if (isOurs)
      for (const { scopeSpans } of request.parse(body).resourceSpans)
        spans.push(...scopeSpans.flatMap((scope) => scope.spans));
    reply.writeHead(isOurs ? 200 : 404, { 'content-type': 'application/json' }).end('{}');
  });
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  t.after(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return { spans, endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}
