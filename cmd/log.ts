/** The structured log: pino behind the Log port, one JSON line an event, on stderr. */
import pino from 'pino';
import type { Log } from '../proto/ports.ts';

/** Fields that would hold a secret if somebody passed one on by mistake. */
const SECRET_FIELDS = ['password', 'token', 'secret', 'authorization', 'cookie', 'privateKey'];
const REDACTED = SECRET_FIELDS.flatMap((field) => [field, `*.${field}`]);

/** Opens the log, on stderr if not told otherwise. Written at once, so that nothing is missing after a crash. */
export function openLog(
  level: 'debug' | 'info' | 'warn' | 'error' | 'silent',
  destination: { write(line: string): void } = pino.destination({ fd: 2, sync: true }),
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
