import { EngineError, type EngineErrorCode } from '../../proto/ports.ts';

/** An answer of 400 or above from the Docker Engine. `reason` is Docker's own sentence, cleaned and cut. */
export class DockerReplyError extends EngineError {
  readonly status: number;
  readonly reason: string;

  constructor(status: number, reason: string) {
    super(codeOfStatus(status), reason === '' ? `The Docker Engine answered ${status}.` : reason);
    this.name = 'DockerReplyError';
    this.status = status;
    this.reason = reason;
  }
}

function codeOfStatus(status: number): EngineErrorCode {
  if (status >= 500 || status === 429) return 'unavailable';
  return status === 404 ? 'not_found' : 'refused';
}

/** True when `error` is a Docker reply with one of `statuses`. */
export function isReply(error: unknown, ...statuses: number[]): error is DockerReplyError {
  return error instanceof DockerReplyError && statuses.includes(error.status);
}

/** The system's error code (`ECONNREFUSED`, ...) of an unknown error, or undefined. */
export function systemCode(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null || !('code' in error)) return undefined;
  return typeof error.code === 'string' ? error.code : undefined;
}

/** A short text of any thrown value. */
export function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Docker's text made fit for one line of a user's screen: no control characters, at most 500 characters. */
export function cleanReason(text: string): string {
  const oneLine = text.replace(/\p{Cc}+/gu, ' ').trim();
  return oneLine.length > 500 ? `${oneLine.slice(0, 499)}…` : oneLine;
}

/** Turns whatever was thrown while talking to the engine into an EngineError, keeping it as the cause. */
export function toEngineError(error: unknown, fallback: EngineErrorCode = 'unavailable'): EngineError {
  if (error instanceof EngineError) return error;
  return new EngineError(fallback, `The container engine cannot be reached: ${cleanReason(textOf(error))}.`, {
    cause: error,
  });
}
