import { Refusal } from '../proto/errors.ts';

/** A mistake or a lack that the person at the command line can mend: shown as it is, without a stack, exit code 1. */
export class CliError extends Error {
  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'CliError';
  }
}

/**
 * What the person at the command line reads of an error that ended a command: a sentence where they can do something about it, else the
 * stack, for whoever mends the defect.
 */
export function wordsFor(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error instanceof CliError || error instanceof Refusal) return error.message;
  // Known by its name: the class comes with the whole database client, which `--help` need not load.
  const isDatabaseAway = error.name === 'StorageError' && 'code' in error && error.code === 'unavailable';
  if (!isDatabaseAway) return error.stack ?? error.message;
  return `${error.message}\nSee that PostgreSQL runs and, if you set it, that DATABASE_URL is right. \`troupe doctor\` looks, too.`;
}
