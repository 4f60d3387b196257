/**
 * A short text of anything that was thrown: an error's message. What is no error is told as `otherwise`, or without it
 * as a string.
 */
export function errorText(error: unknown, otherwise?: string): string {
  return error instanceof Error ? error.message : (otherwise ?? String(error));
}
