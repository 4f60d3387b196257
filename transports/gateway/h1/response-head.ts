/** Reads the head of an origin's response (RFC 9112, 4 and 6.3). What is doubtful is a bad gateway, never passed on. */
import {
  elementsOf,
  type Field,
  type Framing,
  framingOf,
  hopByHop,
  readFields,
  valuesOf,
} from '../../wire/h1/fields.ts';
import { ParseCache } from '../../wire/h1/parse-cache.ts';
import { isClean } from '../../wire/h1/syntax.ts';

/** A response's head. */
export interface ResponseHead {
  readonly status: number;
  /** May be empty. */
  readonly reason: string;
  readonly minor: 0 | 1;
  readonly fields: readonly Field[];
  readonly framing: Framing;
  /** Whether another request may go on this connection. */
  readonly keepAlive: boolean;
  /** Protocols of `101 Switching Protocols`, in lower case. */
  readonly upgrade: readonly string[];
  readonly hopByHop: ReadonlySet<string>;
}

/** Frameworks send a Link or a Set-Cookie for each thing. What bounds them is the size of the head. */
const MAX_FIELDS = 1000;

const STATUS_LINE = /^HTTP\/1\.([01]) ([1-5][0-9]{2})(?: (.*))?$/;

const STATUS_LINES = new ParseCache(200, (text): Pick<ResponseHead, 'status' | 'reason' | 'minor'> | undefined => {
  const [, digit, code, reason = ''] = STATUS_LINE.exec(text) ?? [];
  return code === undefined ? undefined : { status: Number(code), reason, minor: digit === '1' ? 1 : 0 };
});

/**
 * A response head from `text` (up to and with its empty line) to a request of `method`. A string says why it is no
 * response that can be passed on.
 */
export function readResponseHead(text: string, method: string): ResponseHead | string {
  if (!isClean(text)) return 'a control character, or a line that does not end in CRLF';
  const lineEnd = text.indexOf('\r\n');
  const line = STATUS_LINES.get(text.slice(0, lineEnd));
  if (line === undefined) return 'the first line is no status line';
  const { status, reason, minor } = line;
  const fields = readFields(text, lineEnd + 2, MAX_FIELDS);
  if (!Array.isArray(fields)) return fields.reason;
  const said = framingOf(fields, minor === 1);
  if (said !== undefined && 'status' in said) return said.reason;
  const connection = valuesOf(fields, 'connection');
  const options = elementsOf(connection);
  const framing = framingOfResponse(said, status, method);
  const closes = options.includes('close') || framing.kind === 'until_close' || mayBringMore(said, status, method);
  return {
    status,
    reason,
    minor,
    fields,
    framing,
    keepAlive: !closes && (minor === 1 || options.includes('keep-alive')),
    upgrade: options.includes('upgrade') ? elementsOf(valuesOf(fields, 'upgrade')) : [],
    hopByHop: hopByHop(connection),
  };
}

/** RFC 9112, section 6.3: responses that never have a body, whatever fields say; then the fields; then the end. */
function framingOfResponse(said: Framing | undefined, status: number, method: string): Framing {
  if (method === 'HEAD' || status < 200 || status === 204 || status === 304) return { kind: 'none' };
  return said ?? { kind: 'until_close' };
}

/**
 * Whether a body may follow that must not be there: of HEAD and 204 it is announced in vain, and an origin that sends
 * it all the same, later than the head, would answer the next request with it. 304 announces the length of what it
 * stands for as a matter of course.
 */
function mayBringMore(said: Framing | undefined, status: number, method: string): boolean {
  if (method !== 'HEAD' && status !== 204) return false;
  return said?.kind === 'chunked' || (said?.kind === 'length' && said.length > 0);
}
