/** What Node says of its process, for Prometheus. */
import { type IntervalHistogram, monitorEventLoopDelay } from 'node:perf_hooks';
import { collectDefaultMetrics, Gauge, type Registry } from 'prom-client';

/** Gauges that are named like counters: their sums say nothing that the series by type does not. */
const SUMS = ['nodejs_active_handles_total', 'nodejs_active_requests_total', 'nodejs_active_resources_total'];

/** Between two looks at the event loop, ms. The ten of the library wake an idle process a hundred times a second. */
const LOOK_MS = 100;
/** The library's own looks: none while a process lives. */
const NEVER_MS = 2 ** 31 - 1;

/** How late the event loop was since it was last asked, by the name of the number, seconds. */
const LAGS: Readonly<Record<string, { readonly help: string; read(histogram: IntervalHistogram): number }>> = {
  min: { help: 'Least lag of the event loop since the last scrape', read: ({ min }) => lagOf(min) },
  max: { help: 'Greatest lag of the event loop since the last scrape', read: ({ max }) => lagOf(max) },
  mean: { help: 'Mean lag of the event loop since the last scrape', read: ({ mean }) => lagOf(mean) },
  stddev: { help: 'Standard deviation of the lag of the event loop', read: ({ stddev }) => stddev / 1e9 },
  p50: { help: 'Median lag of the event loop since the last scrape', read: (all) => lagOf(all.percentile(50)) },
  p90: { help: '90th percentile of the lag of the event loop', read: (all) => lagOf(all.percentile(90)) },
  p99: { help: '99th percentile of the lag of the event loop', read: (all) => lagOf(all.percentile(99)) },
};

/** The one that reads all when it is scraped: what it read is forgotten, so the others cannot read for themselves. */
const FIRST = 'min';

/** Adds them to the registry, under the names that Node's dashboards know. */
export function nodeMetrics(registry: Registry): void {
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: NEVER_MS });
  for (const name of SUMS) registry.removeSingleMetric(name);
  for (const name of Object.keys(LAGS)) registry.removeSingleMetric(lagName(name));
  const histogram = monitorEventLoopDelay({ resolution: LOOK_MS });
  histogram.enable();
  const lags = Object.entries(LAGS).map(([name, { help, read }]) => {
    const first = name === FIRST ? { collect: readAll } : {};
    return { gauge: new Gauge({ name: lagName(name), help, registers: [registry], ...first }), read };
  });
  function readAll(): void {
    for (const { gauge, read } of lags) gauge.set(histogram.count === 0 ? 0 : read(histogram));
    histogram.reset();
  }
}

function lagName(name: string): string {
  return `nodejs_eventloop_lag_${name}_seconds`;
}

/** Seconds, of what Node measured, ns: it counts the time between two looks as well. */
function lagOf(ns: number): number {
  return Math.max(0, ns / 1e9 - LOOK_MS / 1000);
}
