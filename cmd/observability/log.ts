/** The structured log: pino behind the Log port, one JSON line an event, on stderr. */
import pino from 'pino';
import type { Log } from '../../proto/ports/log.ts';

/** Fields that would hold a secret if somebody passed one on by mistake. */
const SECRET_FIELDS = ['password', 'token', 'secret', 'authorization', 'cookie', 'privateKey'];
const REDACTED = SECRET_FIELDS.flatMap((field) => [field, `*.${field}`]);

/** Opens the log, on stderr if not told otherwise. Written at once, so that nothing is missing after a crash. */
export function openLog(
  level: 'debug' | 'info' | 'warn' | 'error' | 'silent',
  destination: { write(line: string): void } = standardError(),
): Log {
  return pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      redact: REDACTED,
      formatters: { level: (label) => ({ level: label }) },
    },
    destination,
  );
}

/** Lines that are kept while they cannot be written, in bytes; the newest beyond it are lost. */
const MAX_KEPT = 1 << 20;

/** Where lines go: standard error. On a full disk they wait for room, and what is said is no reason to end. */
export function standardError(): { write(line: string): void } {
  const destination = pino.destination({ fd: 2, sync: true, maxLength: MAX_KEPT });
  destination.on('error', () => {});
  return destination;
}

/** Writes lines that are not the log's there, too. */
export function plainLines(): (line: string) => void {
  const destination = standardError();
  return (line) => destination.write(`${line}\n`);
}
