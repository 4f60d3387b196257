/**
 * Numbers that other parts keep, shown to Prometheus when it asks. No label holds what a user chooses: there are only
 * so many series.
 */
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { MonitorNumbers } from '../../actors/monitor/deps.ts';
import type { CertificateNumbers } from '../../actors/network/certificate-deps.ts';
import type { NotifyNumbers } from '../../actors/notify/deps.ts';
import type { MetricsSource } from '../../proto/ports/metrics-source.ts';
import { auditGrowth } from '../../storage/audit.ts';
import type { Db } from '../../storage/db.ts';
import { accountBudget } from '../../storage/network/acme.ts';
import { certificateCounts } from '../../storage/network/certificates.ts';

/** Values by what labels them. */
type Pairs = readonly (readonly [string, number])[];

/**
 * Adds one: a counter when its name ends in `_total`, else a gauge (a rule of Prometheus that `promtool check metrics`
 * holds). `read` gives a value for each of `label`; without a label, the only pair's first part is ignored.
 */
export function readMetric(
  registry: Registry,
  name: string,
  help: string,
  label: string | undefined,
  read: () => Pairs | Promise<Pairs>,
): void {
  const common = { name, help, labelNames: label === undefined ? [] : [label], registers: [registry] };
  const labels = (value: string) => (label === undefined ? {} : { [label]: value });
  if (name.endsWith('_total')) {
    new Counter({
      ...common,
      async collect() {
        const pairs = await read();
        this.reset();
        for (const [value, count] of pairs) this.inc(labels(value), count);
      },
    });
    return;
  }
  new Gauge({
    ...common,
    async collect() {
      const pairs = await read();
      this.reset();
      for (const [value, count] of pairs) this.set(labels(value), count);
    },
  });
}

/** A histogram whose counts others keep. */
class ReadHistogram extends Histogram {
  readonly #name: string;
  readonly #help: string;
  readonly #read: () => Iterable<readonly [labels: Record<string, string>, counts: HistogramCounts]>;

  constructor(...[registry, name, help, read]: Parameters<typeof readHistogram>) {
    super({ name, help, registers: [registry] });
    this.#name = name;
    this.#help = help;
    this.#read = read;
  }

  /** What prom-client makes its page of, and `get` of this class; its types do not have it. */
  getForPromString() {
    const values = [...this.#read()].flatMap(([labels, counts]) => this.#series(labels, counts));
    return { name: this.#name, help: this.#help, type: 'histogram', values };
  }

  #series(labels: Record<string, string>, { bounds, counts, sum }: HistogramCounts) {
    let count = 0;
    const buckets = counts.map((n, at) => {
      count += n;
      return { metricName: `${this.#name}_bucket`, labels: { ...labels, le: bounds[at] ?? '+Inf' }, value: count };
    });
    return [
      ...buckets,
      { metricName: `${this.#name}_sum`, labels, value: sum },
      { metricName: `${this.#name}_count`, labels, value: count },
    ];
  }
}

/** Counts by bucket, not cumulative; the last one of what is above all bounds. */
interface HistogramCounts {
  readonly bounds: readonly number[];
  readonly counts: readonly number[];
  readonly sum: number;
}

/** Adds a histogram of numbers that other parts keep. */
export function readHistogram(
  registry: Registry,
  name: string,
  help: string,
  read: () => Iterable<readonly [labels: Record<string, string>, counts: HistogramCounts]>,
): void {
  new ReadHistogram(registry, name, help, read);
}

/** Makes what adds numbers without a label, whose names begin with `prefix`. */
export function readNumbers(registry: Registry, prefix: string) {
  return (name: string, help: string, read: () => number | Promise<number>): void =>
    readMetric(registry, `${prefix}_${name}`, help, undefined, async () => [['', await read()]]);
}

/** Adds how fast the audit trail grows: only age takes an entry away, so whoever watches the disk watches this. */
export function auditMetrics(registry: Registry, db: Db): void {
  const help = 'Entries that the audit trail got in the last hour, from all nodes';
  readNumbers(registry, 'troupe_audit')('entries_last_hour', help, async () => (await auditGrowth(db)).entries);
}

/** Adds the numbers of certificates and of the account at their authority. */
export function certificateMetrics(
  registry: Registry,
  { db, numbers, directoryUrl }: { db: Db; numbers: CertificateNumbers; directoryUrl: string | undefined },
): void {
  const states = 'Certificates of mapped hostnames: valid, expired, being ordered, and those whose last order failed';
  readMetric(registry, 'troupe_certificates', states, 'state', async () => Object.entries(await certificateCounts(db)));
  const orders = 'Orders of this process by how they ended';
  readMetric(registry, 'troupe_acme_orders_total', orders, 'outcome', () => [...numbers.outcomes]);
  if (directoryUrl === undefined) return;
  const number = readNumbers(registry, 'troupe_acme');
  number('budget', 'Orders that the account may place now', async () => (await accountBudget(db, directoryUrl)).left);
  number('hold_seconds', 'How long the authority has asked the account to wait from now on', async () => {
    const { holdUntil } = await accountBudget(db, directoryUrl);
    return holdUntil === undefined ? 0 : Math.max(0, (holdUntil.getTime() - Date.now()) / 1000);
  });
}

/** Adds the numbers of the cluster monitor. */
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

/** Adds the numbers of the notification service. */
export function notifyMetrics(registry: Registry, numbers: Readonly<NotifyNumbers>): void {
  const number = readNumbers(registry, 'troupe_notify');
  number('received_total', 'Messages of the stream, repeated deliveries included', () => numbers.received);
  number('stored_total', 'Notifications stored', () => numbers.stored);
  number('known_total', 'Deliveries of notifications that were stored before', () => numbers.known);
  number('muted_total', 'Notifications dropped because their user muted them', () => numbers.muted);
  number('refused_total', 'Messages that were no notification, or to nobody', () => numbers.refused);
  number('retried_total', 'Messages given back after a failed insert', () => numbers.retried);
  number('lost_total', 'Messages given up after the last attempt', () => numbers.lost);
  number('pushed_total', 'Notifications sent to sockets', () => numbers.pushed);
  number('sockets', 'Sockets of /ws/notifications that are open', () => numbers.sockets);
  number('webhooks_total', 'Requests to webhooks that succeeded', () => numbers.webhooks);
  number('webhook_failures_total', 'Requests to webhooks that failed', () => numbers.webhookFailures);
  number('mails_total', 'Mails that the mail server took', () => numbers.mails);
  number('mail_failures_total', 'Mails that the mail server did not take', () => numbers.mailFailures);
}
