/** Numbers of the cluster monitor for Prometheus. No label holds what a user chooses: there are only so many series. */
import type { Registry } from 'prom-client';
import type { MonitorNumbers } from '../../actors/monitor/deps.ts';
import type { MetricsSource } from '../../proto/ports/metrics-source.ts';
import { readMetric, readNumbers } from './read-metric.ts';

/** Adds them to `registry`. */
export function monitorMetrics(
  registry: Registry,
  numbers: Readonly<MonitorNumbers>,
  sources: readonly MetricsSource[],
): void {
  const number = readNumbers(registry, 'troupe_monitor');
  number('refreshes_total', 'Refreshes', () => numbers.refreshes);
  number('source_failures_total', 'Reads of a source that failed or took too long', () => numbers.failures);
  number('pushed_total', 'Snapshots handed to clients', () => numbers.pushed);
  number('skipped_total', 'Snapshots replaced by newer ones before a slow client read them', () => numbers.skipped);
  number('published_total', 'Messages published', () => numbers.published);
  number('dropped_total', 'Messages not published because the broker was away or slow', () => numbers.dropped);
  number('alerts_total', 'Alerts about containers', () => numbers.alerts);
  number('event_streams', 'Event streams that are open', () => numbers.streams);
  number('sockets', 'WebSockets that are open', () => numbers.sockets);
  number('nodes_timestamp_seconds', 'When nodes were measured last', () => numbers.nodesAt / 1000);
  number('pods_timestamp_seconds', 'When containers were measured last', () => numbers.podsAt / 1000);
  readMetric(registry, 'troupe_monitor_source_calls_total', 'Calls to what is measured', 'source', () =>
    sources.map(({ name, calls }) => [name, calls]),
  );
}
