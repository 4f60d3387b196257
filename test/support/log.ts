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

/** A log whose lines are kept, with their fields and those of its parents. */
export interface KeptLog extends Log {
  readonly lines: { readonly level: string; readonly message: string; readonly fields: Record<string, unknown> }[];
}

/** A log that keeps its lines; `more`: fields of each. */
export function keptLog(lines: KeptLog['lines'] = [], more: object = {}): KeptLog {
  const at = (level: string) => (fields: object, message: string) =>
    void lines.push({ level, message, fields: { ...more, ...fields } });
  return {
    lines,
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    child: (fields) => keptLog(lines, { ...more, ...fields }),
  };
}
