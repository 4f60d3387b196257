/**
 * Every refusal Troupe can give: one table, code -> HTTP status -> public text. Code that refuses throws a `Refusal`;
 * only transports/api turns it into a status and a body.
 */

/** The table. `text` is what a user reads when the refusal gives no sentence of its own. */
export const ERRORS = {
  invalid_json: { status: 400, text: 'The request body is not valid JSON.' },
  invalid_request: { status: 400, text: 'The request is not valid.' },
  unauthorized: { status: 401, text: 'You are not logged in: send a valid token as "Authorization: Bearer <token>".' },
  invalid_credentials: { status: 401, text: 'The username or the password is wrong.' },
  invalid_credential: { status: 401, text: 'The security key could not be verified: begin again.' },
  proof_needed: { status: 403, text: 'Prove again who you are: send your password, too.' },
  wrong_password: { status: 403, text: 'The current password is wrong.' },
  forbidden: { status: 403, text: 'You may not do this.' },
  missing_scope: { status: 403, text: 'forbidden: missing scope' },
  limit_reached: { status: 403, text: 'You have reached the limit.' },
  not_found: { status: 404, text: 'There is nothing here under that name.' },
  method_not_allowed: { status: 405, text: 'This path does not answer that method.' },
  conflict: { status: 409, text: 'The present state does not allow this.' },
  idempotency_key_in_use: { status: 409, text: 'The first request with this Idempotency-Key still runs: ask again.' },
  not_running: { status: 409, text: 'The container is not running: start it first.' },
  discards_files: { status: 409, text: 'This would lose files: send "discard": true if that is meant.' },
  is_folder: { status: 409, text: 'A folder is in the place of a file.' },
  no_folder: { status: 409, text: 'Something on the way to the path is not a folder.' },
  read_only: { status: 409, text: 'Nothing can be changed there: it is read-only.' },
  no_space: { status: 507, text: 'No space is left in the container.' },
  bad_range: { status: 416, text: 'The file has no such range of bytes.' },
  body_too_large: { status: 413, text: 'The request body is larger than 1 MiB.' },
  idempotency_key_reused: {
    status: 422,
    text: 'This Idempotency-Key came with another request before: each request needs a key of its own.',
  },
  upgrade_required: { status: 426, text: 'This path is a WebSocket: connect with an upgrade request.' },
  too_many_attempts: { status: 429, text: 'Too many failed attempts: wait before you try again.' },
  too_many_changes: { status: 429, text: 'You change things too fast: wait before you go on.' },
  bad_gateway: { status: 502, text: 'A service outside of the platform does not do as it should.' },
  not_configured: { status: 503, text: 'This is not set up on this platform.' },
  internal: { status: 500, text: 'Something went wrong on our side.' },
  unavailable: { status: 503, text: 'A part this needs is not available at the moment: try again soon.' },
  overloaded: { status: 503, text: 'The service is busy: try again soon.' },
} as const;

/** A code of the table. */
export type ErrorCode = keyof typeof ERRORS;

/** One field of a body, query or path that was refused: `path` in dotted form. */
export interface FieldError {
  readonly path: string;
  readonly message: string;
}

/** A TXT record that proves a hostname to be the caller's. */
export interface TxtProof {
  readonly name: string;
  readonly value: string;
}

/** What a refusal may carry besides its code. */
interface RefusalDetail {
  /** The sentence for the user; the table's text without it. */
  readonly message?: string;
  readonly fields?: readonly FieldError[];
  /** Whole seconds, sent as Retry-After. */
  readonly retryAfter?: number;
  /** What would have the request go well, sent as X-Troupe-Proof-Name and X-Troupe-Proof-Value. */
  readonly proof?: TxtProof;
  readonly cause?: unknown;
}

/** An answer of "no" that the user should read. Not a fault: the actor that throws it lives on. */
export class Refusal extends Error {
  readonly code: ErrorCode;
  readonly fields: readonly FieldError[] | undefined;
  readonly retryAfter: number | undefined;
  readonly proof: TxtProof | undefined;

  constructor(code: ErrorCode, detail: RefusalDetail = {}) {
    super(detail.message ?? ERRORS[code].text, detail.cause === undefined ? undefined : { cause: detail.cause });
    this.name = 'Refusal';
    this.code = code;
    this.fields = detail.fields;
    this.retryAfter = detail.retryAfter;
    this.proof = detail.proof;
  }
}
