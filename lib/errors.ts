/** Errors by code, and what can be said of anything thrown. */

/**
 * An error that says by its code what went wrong: callers decide by the code, never by the text. It has the name of its
 * class. Extend it once for each part, with the codes of that part.
 */
export abstract class CodedError<C extends string> extends Error {
  readonly code: C;

  constructor(code: C, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
    this.code = code;
  }
}

/** Whether `error` is a system error with this code, such as ENOENT. */
export function isCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}

/** The system's error code (`ECONNREFUSED`, ...) of an unknown error, or undefined. */
export function systemCode(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null || !('code' in error)) return undefined;
  return typeof error.code === 'string' ? error.code : undefined;
}

/** A short text of anything thrown: an error's message; of what is no error `otherwise`, or itself as a string. */
export function errorText(error: unknown, otherwise?: string): string {
  return error instanceof Error ? error.message : (otherwise ?? String(error));
}
