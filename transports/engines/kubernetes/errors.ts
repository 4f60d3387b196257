import { EngineError, type EngineErrorCode } from '../../../proto/ports/engine.ts';
import { cleanReason } from '../common/calls.ts';

/** An answer of 300 or above from the API server, or what it said in a watch. */
export class KubeReplyError extends EngineError {
  readonly status: number;
  /** The machine's word: `AlreadyExists`, `Conflict`, `Invalid`, ... */
  readonly reason: string;
  /** The server's own sentence, cleaned and cut. */
  readonly said: string;
  /** How long the server asks to wait, ms; undefined when it does not. */
  readonly retryAfterMs: number | undefined;
  /** What is missing is being made by the cluster's own controllers, or read by a server that was just started. */
  readonly isTooEarly: boolean;

  /** `afterTrouble`: the server was out of reach a moment ago, and may not have read who has which rights. */
  constructor(status: number, reason: string, said: string, retryAfterMs?: number, afterTrouble = false) {
    const isEarly = status === 403 && (isTooEarly(said) || (afterTrouble && isMissingRight(said)));
    super(codeOf(status, said), messageOf(status, reason, cleanReason(said), isEarly));
    this.status = status;
    this.reason = reason;
    this.said = cleanReason(said);
    this.retryAfterMs = retryAfterMs;
    this.isTooEarly = isEarly;
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

/**
 * The authorizer's 403, which begins with what is forbidden and then names the user and the verb (k8s.io/apiserver,
 * `forbiddenMessage`), or says no more when an apply may not create; or one without a body. Admission says 403, too, in
 * words of its own, which may be any.
 */
function isMissingRight(said: string): boolean {
  const byAuthorizer = /^(?:[a-z0-9./-]+(?: "[^"]*")? is )?forbidden: User "[^"]*" cannot [a-z]+ /;
  return byAuthorizer.test(said) || /^[^:]*is forbidden:\s*$|^Unexpected server response|^$/.test(said);
}

/** Controllers have not seen a new namespace yet, or a server that was just started has not read all roles. */
function isTooEarly(said: string): boolean {
  if (/error looking up service account|not yet ready to handle request/i.test(said)) return true;
  return isMissingRight(said) && /RBAC: .*not found/.test(said);
}

function messageOf(status: number, reason: string, said: string, isEarly: boolean): string {
  if (status < 400) return 'The Kubernetes API server sends elsewhere, where credentials are not taken.';
  if (status === 401) return 'The Kubernetes API server does not accept the credentials of the platform.';
  if (status === 429) return 'The Kubernetes API server has too much to do at the moment.';
  if (status === 403 && /exceeded quota/i.test(said)) return `The cluster's quota is used up: ${said}`;
  if (isEarly) return `The cluster is not ready for it yet: ${said}`;
  if (status === 403 && isMissingRight(said))
    return `The platform lacks a right in the cluster (deploy/kubernetes has them): ${said}`;
  if (status === 403) return `The cluster does not allow it: ${said}`;
  if (said !== '') return said;
  return `The Kubernetes API server answered ${status}${reason === '' ? '' : ` ${reason}`}.`;
}

/** True when `error` is an answer with one of `statuses`. */
export function isReply(error: unknown, ...statuses: number[]): error is KubeReplyError {
  return error instanceof KubeReplyError && statuses.includes(error.status);
}
