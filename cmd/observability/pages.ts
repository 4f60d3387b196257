/** What every service shows besides its endpoints: health, its OpenAPI document, and numbers for Prometheus. */
import { createHash, timingSafeEqual } from 'node:crypto';
import { Counter, Registry } from 'prom-client';
import type { Service, ServiceName } from '../../proto/endpoint.ts';
import { Refusal } from '../../proto/errors.ts';
import { type ApiStyle, openapi, type PageDescription } from '../../proto/openapi.ts';
import type { HttpReply, HttpRequest } from '../../proto/ports/http.ts';
import { LATENCY_BOUNDS_MS, type LatencyNumbers, latencies, type SystemRef, stats } from '../../supervision/index.ts';
import type { Page, Pages } from '../../transports/api/api.ts';
import { bearer } from '../../transports/api/authenticate.ts';
import { jsonReply } from '../../transports/api/replies.ts';
import { isLoopback } from '../../transports/wire/peer-address.ts';
import type { Environment } from '../config/config.ts';
import { version } from '../config/program.ts';
import { readHistogram, readMetric } from './metrics.ts';
import { nodeMetrics } from './node-metrics.ts';

/** Makes the numbers of one process. */
export function processMetrics(system: SystemRef) {
  const registry = new Registry();
  nodeMetrics(registry);
  const replies = new Counter({
    name: 'troupe_http_replies_total',
    help: 'Replies by service, endpoint and status',
    labelNames: ['service', 'endpoint', 'status'],
    registers: [registry],
  });
  const actor = (name: string, help: string, read: (kind: ReturnType<typeof stats>['kinds'][string]) => number) =>
    readMetric(registry, `troupe_actors_${name}`, help, 'kind', () =>
      Object.entries(stats(system).kinds).map(([kind, numbers]) => [kind, read(numbers)]),
    );
  actor('alive', 'Living actors by kind', (kind) => kind.alive);
  actor('mailbox_depth', 'Messages that wait, by kind', (kind) => kind.depth);
  actor('oldest_message_seconds', 'Age of the oldest waiting message, by kind', (kind) => kind.oldestMs / 1000);
  actor('handled_total', 'Messages handled, by kind', (kind) => kind.handled);
  actor('failed_total', 'Messages whose handler failed, by kind', (kind) => kind.failed);
  actor('restarts_total', 'Restarts, by kind', (kind) => kind.restarts);
  actor('dropped_total', 'Messages dropped, by kind', (kind) => kind.dropped);
  actor('expired_total', 'Asks whose deadline passed before their turn, by kind', (kind) => kind.expired);
  const bounds = LATENCY_BOUNDS_MS.map((ms) => ms / 1000);
  const latency = (name: string, help: string, read: (numbers: LatencyNumbers) => LatencyNumbers['queue']) =>
    readHistogram(registry, `troupe_actors_${name}`, `${help}, by kind and message, of a sample`, () =>
      latencies(system).map((numbers) => {
        const { counts, sumMs } = read(numbers);
        return [
          { kind: numbers.kind, message: numbers.type },
          { bounds, counts, sum: sumMs / 1000 },
        ];
      }),
    );
  latency('queue_seconds', 'How long messages wait', ({ queue }) => queue);
  latency('handler_seconds', 'How long handlers take', ({ handler }) => handler);
  const counts = new Map<string, number>();
  return {
    registry,
    /** Replies of a service so far. */
    requests: (service: string): number => counts.get(service) ?? 0,
    onReply: (service: string) => {
      // Looking a counter up by its labels on every reply would cost as much as the routing.
      const counters = new Map<string, Counter.Internal>();
      return (endpoint: string, status: number) => {
        const key = `${status} ${endpoint}`;
        let counter = counters.get(key);
        if (counter === undefined) {
          counter = replies.labels({ service, endpoint, status: String(status) });
          counters.set(key, counter);
        }
        counter.inc();
        counts.set(service, (counts.get(service) ?? 0) + 1);
      };
    },
  };
}

const DESCRIPTIONS = [
  { path: '/', summary: 'What answers here, and where it is described', contentType: 'application/json' },
  {
    path: '/healthz',
    summary: 'Whether the service is well, and what is wrong',
    contentType: 'application/json',
    replies: {
      '200': { description: 'It is well', schema: health('ok') },
      '503': { description: 'It is not, for the reasons in `problems`', schema: health('degraded', true) },
    },
  },
  { path: '/openapi.json', summary: 'This document', contentType: 'application/json' },
  { path: '/metrics', summary: 'Numbers for Prometheus', contentType: 'text/plain' },
] as const satisfies readonly PageDescription[];

function health(status: string, hasProblems = false): object {
  const problems = hasProblems ? { problems: { type: 'array', items: { type: 'string' } } } : {};
  const properties = { status: { const: status }, ...problems };
  return { type: 'object', required: Object.keys(properties), properties };
}

/** Which services speak otherwise than the rest. */
export const API_STYLES: { readonly [name in ServiceName]?: ApiStyle } = {
  network: { isPlain: true, cookie: 'token' },
};

/** For people who open the address of a service. */
function whatIsThis(name: ServiceName, plain: boolean): HttpReply {
  const text = `This is the ${name} service of Troupe ${version}, an API for programs. See /openapi.json.`;
  if (!plain)
    return jsonReply(200, { service: name, version, description: text, openapi: '/openapi.json', health: '/healthz' });
  return { status: 200, headers: [['content-type', 'text/plain; charset=utf-8']], body: `${text}\n` };
}

/** Who may read `/metrics` from elsewhere. */
type MetricsReaders = Partial<Pick<Environment, 'METRICS_TOKEN'>>;

/** The pages of one service. */
export function servicePages(service: Service, registry: Registry, { METRICS_TOKEN }: MetricsReaders = {}): Pages {
  const style = API_STYLES[service.name];
  let made: ReturnType<typeof openapi> | undefined;
  const document = () =>
    (made ??= openapi(`Troupe: ${service.name} service`, version, service.endpoints, DESCRIPTIONS, style));
  const plain = style?.isPlain === true;
  const pages: Record<(typeof DESCRIPTIONS)[number]['path'], Page> = {
    '/': { reply: () => whatIsThis(service.name, plain) },
    '/healthz': {
      reply: async () => {
        const { ok, problems } = await service.health();
        return ok ? jsonReply(200, { status: 'ok' }) : jsonReply(503, { status: 'degraded', problems });
      },
    },
    '/openapi.json': { reply: () => jsonReply(200, document()) },
    // They tell how busy whom is.
    '/metrics': {
      refuse: metricsAccess(METRICS_TOKEN),
      reply: async () => ({
        status: 200,
        headers: [['content-type', registry.contentType]],
        body: await registry.metrics(),
      }),
    },
  };
  return new Map(Object.entries(pages));
}

/**
 * Lets in whoever asks from this machine, and whoever has `token` (METRICS_TOKEN, as `Authorization: Bearer`). Through
 * a proxy, the gateway for one, there is no such page.
 */
export function metricsAccess(
  token: string | undefined,
): (request: Pick<HttpRequest, 'header' | 'remoteAddress'>) => Refusal | undefined {
  const known = token === undefined ? undefined : digest(token);
  return (request) => {
    if (request.header('x-forwarded-for') !== undefined) return new Refusal('not_found');
    if (isLoopback(request.remoteAddress)) return undefined;
    if (known === undefined)
      return new Refusal('forbidden', {
        message:
          'Metrics are for this machine alone. With METRICS_TOKEN others may read them, who send it as a bearer.',
      });
    const given = bearer(request.header('authorization'));
    // Digests have one length, and comparing them tells nothing of the token.
    return given !== undefined && timingSafeEqual(digest(given), known) ? undefined : new Refusal('unauthorized');
  };
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
