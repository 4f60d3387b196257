/** A short text of anything thrown: an error's message; of what is no error `otherwise`, or itself as a string. */
export function errorText(error: unknown, otherwise?: string): string {
  return error instanceof Error ? error.message : (otherwise ?? String(error));
}
