/** What a process says when something went wrong where nobody looked: one line of its log, and then it ends. */
import type { Log } from '../../proto/ports/log.ts';

/** The exit code that Node has for the same. */
const UNCAUGHT = 1;

/**
 * From here on an exception that nobody catches and a rejection that nobody handles are a line of the log, with secrets
 * left out as in every line, and end the process with exit code 1: nobody knows what was left half done. At once, since
 * whatever would still happen, would in that state; whoever started the process starts another.
 */
export function logUncaught(log: Log): void {
  process.setUncaughtExceptionCaptureCallback((thrown: unknown) => {
    try {
      log.error({ err: asError(thrown) }, 'an error that nobody caught ends the process');
    } finally {
      process.exit(UNCAUGHT);
    }
  });
}

/** Anything can be thrown; what is no error says at least what it is. */
function asError(thrown: unknown): Error {
  if (thrown instanceof Error) return thrown;
  return new Error(typeof thrown === 'object' ? 'an object was thrown that is no error' : `thrown: ${String(thrown)}`);
}
