/** Logs of tests. */
import type { Log } from '../../proto/ports/log.ts';

/** A log that says nothing. */
export const silentLog: Log = {
  debug() {},
  info() {},
  warn() {},
  error() {},
  child: () => silentLog,
};

/** A log whose lines are kept, as `level message` with their fields. */
export interface KeptLog extends Log {
  readonly lines: { readonly level: string; readonly message: string; readonly fields: object }[];
}

export function keptLog(): KeptLog {
  const lines: KeptLog['lines'] = [];
  const at = (level: string) => (fields: object, message: string) => void lines.push({ level, message, fields });
  const log: KeptLog = {
    lines,
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    child: () => log,
  };
  return log;
}
