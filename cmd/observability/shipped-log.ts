/** The log of a service command: on standard error and, with `--log-service`, at a collector, too. */
import type { Registry } from 'prom-client';
import type { Log } from '../../proto/ports/log.ts';
import { openLog, standardError } from './log.ts';
import { readNumbers } from './read-metric.ts';
import { logUncaught } from './uncaught.ts';

/** Where logs go, as the command line says it. */
export interface LogServiceOptions {
  /** gRPC address of the collector; undefined: none. */
  readonly logService?: string | undefined;
  /** Name of the source; undefined: the command's own. */
  readonly logSource?: string | undefined;
}

interface ShippedLog {
  readonly log: Log;
  /** Shows what was shipped and dropped. */
  metrics(registry: Registry): void;
  /** Sends what waits. Never rejects. */
  close(): Promise<void>;
}

const GRACE_MS = 3000;

/**
 * Opens it; what nobody catches from here on is its last line. The exporter is only loaded when there is somewhere to
 * ship to: it costs memory and time.
 */
export async function openShippedLog(
  level: Parameters<typeof openLog>[0],
  options: LogServiceOptions,
  source: string,
): Promise<ShippedLog> {
  const shipped = await openTarget(level, options, source);
  logUncaught(shipped.log);
  return shipped;
}

async function openTarget(
  level: Parameters<typeof openLog>[0],
  { logService, logSource }: LogServiceOptions,
  source: string,
): Promise<ShippedLog> {
  if (logService === undefined) return { log: openLog(level), metrics: () => {}, close: async () => {} };
  const { logShipper } = await import('../../transports/clients/otlp/logs.ts');
  const shipper = logShipper({ address: logService, source: logSource ?? source });
  const here = standardError();
  const log = openLog(level, {
    write: (line) => {
      here.write(line);
      shipper.write(line);
    },
  });
  return {
    log,
    metrics: (registry) => {
      const number = readNumbers(registry, 'troupe_logs');
      number('shipped_total', 'Log lines that the log service took', () => shipper.numbers().shipped);
      number('dropped_total', 'Log lines that were not shipped', () => shipper.numbers().dropped);
      number('waiting', 'Log lines that wait to be shipped', () => shipper.numbers().waiting);
    },
    close: () => shipper.close(GRACE_MS),
  };
}
