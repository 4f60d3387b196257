/** The one error of the library. */
import type { ErrorCode, FieldError, TxtProof } from '../proto/errors.ts';

/** What goes wrong before there is an answer. */
export type LocalErrorCode =
  /** No connection, or it broke. */
  | 'unreachable'
  /** The certificate is not one that this client trusts. */
  | 'untrusted'
  | 'timeout'
  /** By the caller's signal. */
  | 'cancelled'
  /** The path leads to another server than the client's own: nothing was sent. */
  | 'elsewhere'
  /** The answer is not what the endpoint promises. */
  | 'unreadable';

/** What is known of an error besides its code and its sentence. */
interface ErrorDetail {
  readonly status?: number;
  readonly fields?: readonly FieldError[];
  readonly requestId?: string | undefined;
  /** Seconds. */
  readonly retryAfter?: number | undefined;
  readonly proof?: TxtProof | undefined;
  readonly cause?: unknown;
}

/** A call or a stream that failed. `message` is a sentence for people. */
export class TroupeError extends Error {
  /** Of the table in proto/errors.ts, or one of the client's own. A newer server may send one that is in neither. */
  readonly code: ErrorCode | LocalErrorCode | (string & Record<never, never>);
  /** HTTP status; 0 without an answer. */
  readonly status: number;
  /** Which fields of the request were refused, and why. */
  readonly fields: readonly FieldError[];
  /** Names the request in the server's log. */
  readonly requestId: string | undefined;
  /** Seconds after which another attempt makes sense, if the server said so. */
  readonly retryAfter: number | undefined;
  /** A hostname is claimed by another account: the TXT record that proves it to be the caller's. */
  readonly proof: TxtProof | undefined;

  constructor(code: TroupeError['code'], message: string, detail: ErrorDetail = {}) {
    super(message, detail.cause === undefined ? undefined : { cause: detail.cause });
    this.name = 'TroupeError';
    this.code = code;
    this.status = detail.status ?? 0;
    this.fields = detail.fields ?? [];
    this.requestId = detail.requestId;
    this.retryAfter = detail.retryAfter;
    this.proof = detail.proof;
  }
}

/** Codes of answers whose body has none: plain text, or the page of a proxy. */
const CODES: Readonly<Record<number, ErrorCode>> = {
  400: 'invalid_request',
  401: 'unauthorized',
  403: 'forbidden',
  404: 'not_found',
  405: 'method_not_allowed',
  409: 'conflict',
  413: 'body_too_large',
  426: 'upgrade_required',
  429: 'too_many_changes',
  502: 'bad_gateway',
  503: 'unavailable',
  504: 'unavailable',
};

/** What an answer that is no success says. */
export function errorOf(status: number, body: string, header: (name: string) => string | undefined): TroupeError {
  const parsed = parse(body);
  const said =
    typeof parsed.error === 'string' ? parsed.error : (ofRegistry(parsed) ?? plain(body, header('content-type')));
  const code = typeof parsed.code === 'string' ? parsed.code : (CODES[status] ?? 'internal');
  return new TroupeError(code, said ?? `The server answered with status ${status}.`, {
    status,
    fields: Array.isArray(parsed.fields) ? parsed.fields.filter(isField) : [],
    requestId: header('x-request-id'),
    retryAfter: secondsOf(header('retry-after')),
    proof: proofOf(header('x-troupe-proof-name'), header('x-troupe-proof-value')),
  });
}

function proofOf(name: string | undefined, value: string | undefined): TxtProof | undefined {
  return name === undefined || value === undefined ? undefined : { name, value };
}

/** Seconds of a Retry-After header, which holds seconds or a date. */
function secondsOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const seconds = /^\d+$/.test(text) ? Number(text) : (Date.parse(text) - Date.now()) / 1000;
  return Number.isFinite(seconds) ? Math.max(0, seconds) : undefined;
}

function plain(body: string, type: string | undefined): string | undefined {
  const text = body.trim();
  return type?.startsWith('text/plain') && text !== '' && text.length < 500 ? text : undefined;
}

/** What an image registry says (OCI distribution specification, error codes). */
function ofRegistry({ errors }: ParsedError): string | undefined {
  const [first]: readonly unknown[] = Array.isArray(errors) ? errors : [];
  if (typeof first !== 'object' || first === null || !('message' in first)) return undefined;
  return typeof first.message === 'string' && first.message !== '' ? first.message : undefined;
}

interface ParsedError {
  readonly error?: unknown;
  readonly code?: unknown;
  readonly fields?: unknown;
  readonly errors?: unknown;
}

function parse(body: string): ParsedError {
  try {
    const value: unknown = JSON.parse(body);
    return typeof value === 'object' && value !== null ? value : {};
  } catch {
    return {};
  }
}

function isField(value: unknown): value is FieldError {
  return (
    typeof value === 'object' &&
    value !== null &&
    'path' in value &&
    'message' in value &&
    typeof value.path === 'string' &&
    typeof value.message === 'string'
  );
}
