/** A mistake or a lack that the person at the command line can mend: shown as it is, without a stack, exit code 1. */
export class CliError extends Error {
  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'CliError';
  }
}
