/**
 * The log of a service command: on standard error and, with `--log-service`, at a collector, too. What nobody caught is
 * its last line.
 */
import type { Registry } from 'prom-client';
import type { Log } from '../../proto/ports/log.ts';
import { tracedLog } from '../../supervision/index.ts';
import { nodeRelease } from '../config/node-release.ts';
import { openLog, standardError } from './log.ts';

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
  const { version, supportEnds, words } = nodeRelease();
  shipped.log.info({ node: version, supportEnds }, `runs on Node.js ${words}`);
  return { ...shipped, log: tracedLog(shipped.log) };
}

async function openTarget(
  level: Parameters<typeof openLog>[0],
  { logService, logSource }: LogServiceOptions,
  source: string,
): Promise<ShippedLog> {
  if (logService === undefined) return { log: openLog(level), metrics: () => {}, close: async () => {} };
  const { logShipper } = await import('../../transports/clients/otlp/logs.ts');
  const { readNumbers } = await import('./metrics.ts');
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

/** The exit code that Node has for the same. */
const UNCAUGHT = 1;

/**
 * From here on an exception that nobody catches and a rejection that nobody handles are a line of the log, with secrets
 * left out as in every line, and end the process with exit code 1: nobody knows what was left half done. At once, since
 * whatever would still happen, would in that state; whoever started the process starts another.
 */
function logUncaught(log: Log): void {
  process.setUncaughtExceptionCaptureCallback((thrown: unknown) => {
    try {
      log.error({ err: asError(thrown) }, 'an error that nobody caught ends the process');
    } finally {
      process.exit(UNCAUGHT);
    }
  });
}

/** Anything can be thrown; what is no error says at least what it is. */
function asError(thrown: unknown): Error {
  if (thrown instanceof Error) return thrown;
  return new Error(typeof thrown === 'object' ? 'an object was thrown that is no error' : `thrown: ${String(thrown)}`);
}
