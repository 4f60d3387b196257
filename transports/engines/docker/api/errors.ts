import { EngineError, type EngineErrorCode } from '../../../../proto/ports/engine.ts';

/** An answer of 400 or above from the Docker Engine. `reason` is Docker's own sentence, cleaned and cut. */
export class DockerReplyError extends EngineError {
  readonly status: number;
  readonly reason: string;

  constructor(status: number, reason: string) {
    super(codeOfStatus(status), reason === '' ? `The Docker Engine answered ${status}.` : reason);
    this.status = status;
    this.reason = reason;
  }
}

function codeOfStatus(status: number): EngineErrorCode {
  if (status >= 500 || status === 429) return 'unavailable';
  return status === 404 ? 'not_found' : 'refused';
}

/** What a call resolves with; undefined when Docker answers with one of `statuses`. */
export function unlessReply<T>(call: Promise<T>, ...statuses: number[]): Promise<T | undefined> {
  return call.catch((error: unknown) => {
    if (!isReply(error, ...statuses)) throw error;
    return undefined;
  });
}

/** True when `error` is a Docker reply with one of `statuses`. */
export function isReply(error: unknown, ...statuses: number[]): error is DockerReplyError {
  return error instanceof DockerReplyError && statuses.includes(error.status);
}
