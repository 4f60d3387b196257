import { EngineError, type EngineErrorCode } from '../../proto/ports.ts';
import { cleanReason } from '../docker/errors.ts';

/** An answer of 300 or above from the API server, or what it said in a watch. */
export class KubeReplyError extends EngineError {
  readonly status: number;
  /** The machine's word: `AlreadyExists`, `Conflict`, `Invalid`, ... */
  readonly reason: string;
  /** The server's own sentence, cleaned and cut. */
  readonly said: string;
  /** How long the server asks to wait, ms; undefined when it does not. */
  readonly retryAfterMs: number | undefined;

  constructor(status: number, reason: string, said: string, retryAfterMs?: number) {
    super(codeOf(status, said), messageOf(status, reason, cleanReason(said)));
    this.name = 'KubeReplyError';
    this.status = status;
    this.reason = reason;
    this.said = cleanReason(said);
    this.retryAfterMs = retryAfterMs;
  }

  /** What is missing is being made by the cluster's own controllers. */
  get isTooEarly(): boolean {
    return this.status === 403 && isTooEarly(this.said);
  }

  /** The namespace goes: nothing new comes into it. */
  get isTerminating(): boolean {
    return (this.status === 403 || this.status === 409) && /being terminated|is terminating/i.test(this.said);
  }
}

/** A right that is missing is not the user's fault, and may come: it is as if the cluster were away. */
function codeOf(status: number, said: string): EngineErrorCode {
  if (status === 404) return 'not_found';
  if (status === 403) return isMissingRight(said) || isTooEarly(said) ? 'unavailable' : 'refused';
  return status >= 500 || status === 429 || status === 409 || status < 400 || status === 401
    ? 'unavailable'
    : 'refused';
}

/** The authorizer's 403, which says no more when an apply may not create, or one without a body; admission says 403, too. */
function isMissingRight(said: string): boolean {
  return /\bcannot [a-z]+\b|is forbidden:\s*$|^Unexpected server response|^$/.test(said);
}

/** Controllers have not seen a namespace yet that was just made, or a server was just started. */
function isTooEarly(said: string): boolean {
  return /error looking up service account|not yet ready to handle request/i.test(said);
}

function messageOf(status: number, reason: string, said: string): string {
  if (status < 400) return 'The Kubernetes API server sends elsewhere, where credentials are not taken.';
  if (status === 401) return 'The Kubernetes API server does not accept the credentials of the platform.';
  if (status === 429) return 'The Kubernetes API server has too much to do at the moment.';
  if (status === 403 && /exceeded quota/i.test(said)) return `The cluster's quota is used up: ${said}`;
  if (status === 403 && isMissingRight(said))
    return `The platform lacks a right in the cluster (deploy/kubernetes has them): ${said}`;
  if (status === 403 && isTooEarly(said)) return `The cluster is not ready for it yet: ${said}`;
  if (status === 403) return `The cluster does not allow it: ${said}`;
  if (said !== '') return said;
  return `The Kubernetes API server answered ${status}${reason === '' ? '' : ` ${reason}`}.`;
}

/** True when `error` is an answer with one of `statuses`. */
export function isReply(error: unknown, ...statuses: number[]): error is KubeReplyError {
  return error instanceof KubeReplyError && statuses.includes(error.status);
}
