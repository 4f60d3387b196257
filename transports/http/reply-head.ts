import { STATUS_CODES } from 'node:http';
import { CodedError } from '../../lib/errors.ts';
import type { HttpAnswer, HttpReply } from '../../proto/ports/http.ts';

/** A reply that cannot be sent: a bad status, header name or header value. Answered as a bare 500. */
class ReplyError extends CodedError<'bad_reply'> {
  constructor(message: string) {
    super('bad_reply', message);
  }
}

/** Headers that frame a message (RFC 9112, sections 6 and 9): they belong to the adapter, whatever a handler says. */
const FRAMING = new Set([
  'connection',
  'content-length',
  'date',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);
/** RFC 9110, section 5.6.2. */
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
/** Not tab or printable ASCII: CR and LF are how a header is injected; clients read the rest differently. */
const FOREIGN = /[^\t\x20-\x7e]/;

/** Handlers use few names; remembering them saves a check a reply. Bounded, in case one makes names up. */
const known = new Map<string, boolean>();
const KNOWN_MAX = 512;

function learn(name: string): boolean {
  if (!TOKEN.test(name)) throw new ReplyError('A reply header has a name that is not a token.');
  const sent = !FRAMING.has(name.toLowerCase());
  if (known.size < KNOWN_MAX) known.set(name, sent);
  return sent;
}

/** Whether a header is passed on; false for those the adapter writes itself. Throws ReplyError for no token. */
export function isSent(name: string): boolean {
  return known.get(name) ?? learn(name);
}

/**
 * Checks status and headers before anything is written, so that a bad one can still become a 500.
 * Throws ReplyError on a status outside 200 to 599 and on names or values that could break the head.
 */
export function checkReply(reply: HttpAnswer): void {
  const { status, headers } = reply;
  if (!(Number.isInteger(status) && status >= 200 && status <= 599)) throw new ReplyError('A reply has a bad status.');
  for (const [name, value] of headers) {
    isSent(name);
    if (typeof value !== 'string' || FOREIGN.test(value))
      throw new ReplyError(`The reply header ${name} has a bad value.`);
  }
}

const lines = new Map<number, string>();

/** The status line's code and reason phrase, such as `404 Not Found`. */
export function statusLine(status: number): string {
  let line = lines.get(status);
  if (line === undefined) {
    line = `${status} ${STATUS_CODES[status] ?? 'Unknown'}`;
    lines.set(status, line);
  }
  return line;
}

/** Whether replies of this status have no body and no content-length (RFC 9110, sections 15.3.5 and 15.4.5). */
export function isBodiless(status: number): boolean {
  return status === 204 || status === 304;
}

/** A reply in the error form of the interface, for refusals that no handler saw. */
export function plainError(status: number, code: string, message: string, extra: HttpReply['headers'] = []): HttpReply {
  return {
    status,
    headers: [['content-type', 'application/json; charset=utf-8'], ...extra],
    body: JSON.stringify({ error: message, code }),
  };
}

/** What a handler that threw becomes: no word about why, that is for the log of whoever threw. */
export const internalError: HttpReply = plainError(500, 'internal', 'Something went wrong on our side.');
/** A request whose framing or head cannot be trusted. The connection is closed after it. */
export const badRequest: HttpReply = plainError(400, 'bad_request', 'The request is malformed.');
/** A head over the size or count that is read (RFC 6585, section 5). */
export const headTooLarge: HttpReply = plainError(431, 'head_too_large', 'The request headers are too large.');
/** Codes of what a reader of requests refuses. */
const CODES: Readonly<Record<number, string>> = {
  400: 'bad_request',
  408: 'timeout',
  414: 'target_too_long',
  417: 'unknown_expectation',
  431: 'head_too_large',
  501: 'unknown_method',
  505: 'unknown_version',
};

/** What a request is refused with that did not come to a handler: `why` for a person, or what the status says. */
export function refusalOf(status: number, why?: string): HttpReply {
  const said = why?.trim() ?? (status === 408 ? 'The request took too long to arrive.' : 'The request is malformed.');
  return plainError(status, CODES[status] ?? 'bad_request', said);
}

/** A method nobody here knows (RFC 9110, section 15.6.2). */
export const unknownMethod: HttpReply = plainError(501, 'unknown_method', 'The request method is not supported.');
/** An upgrade that was accepted while the server began to close. */
export const closingReply: HttpReply = plainError(503, 'closing', 'The server is closing.');

/** The reply, or a bare 500 in its place when it cannot be sent as it is. */
export function soundReply(reply: HttpAnswer): HttpAnswer {
  try {
    checkReply(reply);
    return reply;
  } catch {
    dropStream(reply);
    return internalError;
  }
}

/** Ends a stream that nobody will read. */
export function dropStream(reply: HttpAnswer | undefined): void {
  if (typeof reply !== 'object' || reply === null || !('source' in reply)) return;
  try {
    reply.source.closed();
  } catch {
    // It never began, and nobody is left to tell.
  }
}
