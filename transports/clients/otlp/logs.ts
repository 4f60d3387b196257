/**
 * Ships log lines to a collector over OTLP/gRPC (https://opentelemetry.io/docs/specs/otlp/). Lines wait in a bounded
 * queue: while the collector is away the oldest are dropped and counted, and nobody who logs ever waits.
 */

import { type LogAttributes, SeverityNumber } from '@opentelemetry/api-logs';
import { OTLPLogExporter } from '@opentelemetry/exporter-logs-otlp-grpc';
import { resourceFromAttributes } from '@opentelemetry/resources';
import { LoggerProvider, type ReadableLogRecord } from '@opentelemetry/sdk-logs';
import { jsonOf } from '../../../lib/input.ts';
import { waitAtMost } from '../../../lib/waiting.ts';

/** What became of the lines so far. */
interface ShippingNumbers {
  readonly shipped: number;
  readonly dropped: number;
  readonly waiting: number;
}

/** Takes log lines. */
interface LogShipper {
  /** One line of JSON as the log writes it, secrets already removed. */
  write(line: string): void;
  numbers(): ShippingNumbers;
  /** Sends what waits, for at most `graceMs`; the rest counts as dropped. */
  close(graceMs: number): Promise<void>;
}

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

const BATCH = 512;
/** Lines of one moment leave together. */
const GATHER_MS = 200;

/** Makes it; connects when there is something to send. */
export function logShipper(options: ShipperOptions): LogShipper {
  const { address, source, capacity = 10_000, retryMs = 1000, timeoutMs = 5000 } = options;
  const url = /^https?:\/\//.test(address) ? address : `http://${address}`;
  const exporter = new OTLPLogExporter({ url, timeoutMillis: timeoutMs });
  const queue: ReadableLogRecord[] = [];
  let [shipped, dropped, isClosed] = [0, 0, false];
  let timer: NodeJS.Timeout | undefined;
  let sending: Promise<void> | undefined;
  let closing: Promise<void> | undefined;

  const trim = () => {
    const excess = queue.length - capacity;
    if (excess > 0) dropped += queue.splice(0, excess).length;
  };
  const send = async (): Promise<boolean> => {
    const batch = queue.splice(0, BATCH);
    const isTaken = await new Promise<boolean>((resolve) => exporter.export(batch, ({ code }) => resolve(code === 0)));
    if (isTaken) shipped += batch.length;
    else {
      queue.unshift(...batch);
      trim();
    }
    return isTaken;
  };
  const later = (ms: number) => {
    if (timer !== undefined || sending !== undefined || isClosed) return;
    timer = setTimeout(() => {
      timer = undefined;
      sending = (async () => {
        let isTaken = true;
        while (isTaken && queue.length > 0) isTaken = await send();
        return isTaken;
      })()
        .catch(() => false)
        .then((isTaken) => {
          sending = undefined;
          if (queue.length > 0) later(isTaken ? GATHER_MS : retryMs);
        });
    }, ms);
    timer.unref();
  };
  const provider = new LoggerProvider({
    resource: resourceFromAttributes({ 'service.name': source }),
    processors: [
      {
        onEmit: (record) => {
          queue.push(record);
          trim();
          later(GATHER_MS);
        },
        forceFlush: async () => {},
        shutdown: async () => {},
      },
    ],
  });
  const logger = provider.getLogger('troupe');

  const close = async (graceMs: number): Promise<void> => {
    const deadline = performance.now() + graceMs;
    clearTimeout(timer);
    isClosed = true;
    const drain = async () => {
      await sending;
      while (queue.length > 0 && performance.now() < deadline) if (!(await send())) return;
    };
    await waitAtMost(drain(), graceMs);
    dropped += queue.splice(0).length;
    await exporter.shutdown().catch(() => undefined);
  };

  return {
    write: (line) => {
      if (isClosed) return;
      const record = recordOf(line);
      if (record !== undefined) logger.emit(record);
    },
    numbers: () => ({ shipped, dropped, waiting: queue.length }),
    close: (graceMs) => {
      closing ??= close(graceMs);
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
  const attributes: LogAttributes = {};
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
