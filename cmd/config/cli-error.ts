import { Refusal } from '../../proto/errors.ts';

/** A mistake or a lack that the person at the command line can mend: shown as it is, without a stack, exit code 1. */
export class CliError extends Error {
  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'CliError';
  }
}

/**
 * What the person at the command line reads of an error that ended a command: a sentence where they can do something
 * about it, else the stack, for whoever mends the defect.
 */
export function wordsFor(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error instanceof CliError || error instanceof Refusal) return error.message;
  const system = systemWords(error);
  if (system !== undefined) return system;
  // Known by its name: the class comes with the whole database client, which `--help` need not load.
  const isDatabaseAway = error.name === 'StorageError' && 'code' in error && error.code === 'unavailable';
  if (!isDatabaseAway) return error.stack ?? error.message;
  return (
    `${error.message}\nSee that PostgreSQL runs and, if you set it, that DATABASE_URL is right. \`troupe doctor\` ` +
    'looks, too.'
  );
}

/** What the system refused, where the person can mend it: a file that is not theirs, an address that is taken. */
function systemWords(error: Error): string | undefined {
  if (!('code' in error) || !('syscall' in error)) return undefined;
  if (error.syscall === 'listen' && 'port' in error) {
    const where = `${'address' in error ? error.address : ''}:${error.port}`;
    if (error.code === 'EADDRINUSE')
      return `Cannot listen on ${where}: it is taken. Stop that program, or choose another port.`;
    if (error.code === 'EACCES') return `Cannot listen on ${where}: you may not. Ports below 1024 are root's.`;
    if (error.code === 'EADDRNOTAVAIL') return `Cannot listen on ${where}: that is no address of this machine.`;
  }
  if ((error.code === 'EACCES' || error.code === 'EPERM') && 'path' in error)
    return `You may not use ${error.path}: run the command as the user who runs Troupe.`;
  return undefined;
}
