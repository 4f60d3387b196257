/** The log as it is handed in. */

/** Structured log. Fields first, then a short sentence. Secrets never go in: redaction is a second defence only. */
export interface Log {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
  /** A log that adds `fields` to every line. */
  child(fields: object): Log;
}
