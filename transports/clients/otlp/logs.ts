/**
 * Ships log lines to a collector over OTLP/gRPC (https://opentelemetry.io/docs/specs/otlp/). Lines wait in a bounded
 * queue: while the collector is away the oldest are dropped and counted, and nobody who logs ever waits.
 */

import { SeverityNumber } from '@opentelemetry/api';
import { OTLPLogExporter } from '@opentelemetry/exporter-logs-otlp-grpc';
import { resourceFromAttributes } from '@opentelemetry/resources';
import { LoggerProvider, type ReadableLogRecord } from '@opentelemetry/sdk-logs';
import { jsonOf } from '../../../lib/input.ts';
import { ShippingQueue } from './shipping-queue.ts';

interface ShipperOptions {
  /** `host:port`, without TLS; or a URL, `https://` with it. */
  readonly address: string;
  /** Name of the source: the resource's `service.name`. */
  readonly source: string;
  /** Most lines that wait. Default 10,000. */
  readonly capacity?: number;
  /** Pause after the collector did not take a batch, ms. Default 1,000. */
  readonly retryMs?: number;
  /** Longest wait for the collector's answer, ms. Default 5,000. */
  readonly timeoutMs?: number;
}

const GATHER_MS = 200;

/** Makes it; connects when there is something to send. */
export function logShipper(options: ShipperOptions) {
  const { address, source, capacity = 10_000, retryMs = 1000, timeoutMs = 5000 } = options;
  const url = /^https?:\/\//.test(address) ? address : `http://${address}`;
  const exporter = new OTLPLogExporter({ url, timeoutMillis: timeoutMs });
  const queue = new ShippingQueue<ReadableLogRecord>({
    capacity,
    retryMs,
    gatherMs: GATHER_MS,
    send: (batch) => new Promise((resolve) => exporter.export(batch, ({ code }) => resolve(code === 0))),
  });
  const processor = {
    onEmit: (record: ReadableLogRecord) => queue.add(record),
    forceFlush: async () => {},
    shutdown: async () => {},
  };
  const resource = resourceFromAttributes({ 'service.name': source });
  const logger = new LoggerProvider({ resource, processors: [processor] }).getLogger('troupe');
  let closing: Promise<void> | undefined;
  return {
    /** One line of JSON as the log writes it, secrets already removed. */
    write: (line: string): void => {
      const record = recordOf(line);
      if (record !== undefined) logger.emit(record);
    },
    /** What became of the lines so far. */
    numbers: () => ({ shipped: queue.shipped, dropped: queue.dropped, waiting: queue.waiting }),
    /** Sends what waits, for at most `graceMs`; the rest counts as dropped. */
    close: (graceMs: number): Promise<void> => {
      closing ??= queue.close(graceMs).then(() => exporter.shutdown().catch(() => undefined));
      return closing;
    },
  };
}

const SEVERITIES: Readonly<Record<string, SeverityNumber>> = {
  debug: SeverityNumber.DEBUG,
  info: SeverityNumber.INFO,
  warn: SeverityNumber.WARN,
  error: SeverityNumber.ERROR,
};

/** A line of the log as a record; undefined when it is no JSON object. */
function recordOf(line: string) {
  const value = jsonOf(line);
  if (typeof value !== 'object' || value === null) return undefined;
  const { level, time, msg, ...fields }: Record<string, unknown> = { ...value };
  const attributes: Record<string, string> = {};
  for (const [name, field] of Object.entries(fields)) {
    const isPlain = ['string', 'number', 'boolean'].includes(typeof field);
    attributes[name] = isPlain ? String(field) : JSON.stringify(field);
  }
  const at = typeof time === 'string' ? Date.parse(time) : Number.NaN;
  return {
    timestamp: Number.isFinite(at) ? at : Date.now(),
    severityNumber: SEVERITIES[String(level)] ?? SeverityNumber.UNSPECIFIED,
    severityText: String(level),
    body: String(msg ?? ''),
    attributes,
  };
}
