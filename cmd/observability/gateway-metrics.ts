/** Numbers of the gateway for Prometheus. No label holds what clients or tenants choose: series stay few. */
import { Counter, Histogram, type Registry } from 'prom-client';
import type { AccessEntry } from '../../proto/gateway/traffic.ts';
import type { ResponseCache } from '../../transports/gateway/cache/response-cache.ts';
import type { GatewayListeners } from '../../transports/gateway/listeners.ts';
import { readMetric, readNumbers } from './metrics.ts';

/** Who answered: a static route or the fallback, a container, the cache, the gateway; or it was no request. */
type AnsweredBy = 'route' | 'container' | 'cache' | 'gateway' | 'malformed';

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

/** Which kind of answer an entry of the access log is about. */
export function answeredBy({ method, host, upstream }: AccessEntry, containersDomain: string): AnsweredBy {
  if (method === '-') return 'malformed';
  if (upstream === '') return 'gateway';
  if (upstream === 'cache') return 'cache';
  return host.endsWith(`.${containersDomain}`) ? 'container' : 'route';
}

/** Makes them in `registry`. */
export function gatewayMetrics(registry: Registry, containersDomain: string) {
  const registers = [registry];
  const requests = new Counter({
    name: 'troupe_gateway_requests_total',
    help: 'Requests by who answered and the class of the status',
    labelNames: ['kind', 'status'],
    registers,
  });
  const seconds = new Histogram({
    name: 'troupe_gateway_request_seconds',
    help: 'From the end of the head of a request to the end of its response',
    labelNames: ['kind'],
    buckets: SECONDS,
    registers,
  });
  const bytes = new Counter({
    name: 'troupe_gateway_response_bytes_total',
    help: 'Bytes of response bodies sent to clients',
    labelNames: ['kind'],
    registers,
  });
  const failures = new Counter({
    name: 'troupe_gateway_upstream_failures_total',
    help: 'Requests to which an origin gave no answer, or not all of it',
    labelNames: ['kind'],
    registers,
  });
  // Labels are looked up once, not for each request.
  const known = new Map<string, (entry: AccessEntry) => void>();
  const seriesOf = (kind: AnsweredBy, status: string) => {
    const [count, time, sent] = [requests.labels(kind, status), seconds.labels(kind), bytes.labels(kind)];
    const failed = failures.labels(kind);
    return (entry: AccessEntry) => {
      count.inc();
      time.observe(entry.ms / 1000);
      sent.inc(entry.bytes);
      if (entry.isBroken) failed.inc();
    };
  };
  return {
    /** Counts a finished request. */
    onAccess: (entry: AccessEntry): void => {
      const kind = answeredBy(entry, containersDomain);
      const status = classOf(entry.status);
      const key = kind + status;
      let count = known.get(key);
      if (count === undefined) {
        count = seriesOf(kind, status);
        known.set(key, count);
      }
      count(entry);
    },
    /** Shows what listeners and cache hold, whenever somebody asks. */
    watch: (listeners: Pick<GatewayListeners, 'connections'>, cache: ResponseCache | undefined): void => {
      readMetric(registry, 'troupe_gateway_connections', 'Open connections by kind', 'kind', () =>
        Object.entries(listeners.connections()),
      );
      if (cache !== undefined) watchCache(registry, cache);
    },
  };
}

function watchCache(registry: Registry, cache: ResponseCache): void {
  const number = readNumbers(registry, 'troupe_gateway_cache');
  number('hits_total', 'Requests answered from the cache', () => cache.numbers().hits);
  number('misses_total', 'Requests that the cache could have answered', () => cache.numbers().misses);
  number('bypasses_total', 'Requests that have nothing to do with the cache', () => cache.numbers().bypasses);
  number('waited_total', 'Requests that waited for the response to another', () => cache.numbers().waited);
  number('stored_total', 'Responses that were kept', () => cache.numbers().stored);
  number('evictions_total', 'Responses that made room for others', () => cache.numbers().evictions);
  number('sent_bytes_total', 'Bytes of bodies sent from the cache', () => cache.numbers().bytesSent);
  number('bytes', 'Memory of the cache', () => cache.numbers().bytes);
  number('entries', 'Responses in the cache', () => cache.numbers().entries);
}

function classOf(status: number): string {
  return status >= 100 && status < 600 ? `${Math.floor(status / 100)}xx` : 'none';
}
