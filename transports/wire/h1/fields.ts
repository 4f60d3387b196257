/** The header fields of a head, read once into lines that can be sent on as they came. */
import { ParseCache } from './parse-cache.ts';
import { listOf, type Malformed, parseLength, TOKEN, trim } from './syntax.ts';

/** Most fields of a request's head, unless told otherwise. */
const MAX_FIELDS = 100;

/** One field: its name in lower case, its value without the blanks around it. */
export interface Field {
  readonly name: string;
  readonly value: string;
  /** Name and value as they came, without the line's end. */
  readonly line: string;
}

/** How a message's body is delimited (RFC 9112, section 6). `until_close`: responses only. */
export type Framing =
  | { readonly kind: 'none' }
  | { readonly kind: 'length'; readonly length: number }
  | { readonly kind: 'chunked' }
  | { readonly kind: 'until_close' };

/** A field in the text of its head: most are only passed on, and their values never asked for. */
class LineOfHead implements Field {
  readonly name: string;
  readonly #text: string;
  readonly #start: number;
  readonly #colon: number;
  readonly #end: number;
  #value: string | undefined;

  constructor(name: string, text: string, start: number, colon: number, end: number) {
    this.name = name;
    this.#text = text;
    this.#start = start;
    this.#colon = colon;
    this.#end = end;
  }

  get value(): string {
    this.#value ??= trim(this.#text, this.#colon + 1, this.#end);
    return this.#value;
  }

  get line(): string {
    return this.#text.slice(this.#start, this.#end);
  }
}

/** A field's name in lower case; undefined when it is none. */
const NAMES = new ParseCache(1000, (text) => (TOKEN.test(text) ? text.toLowerCase() : undefined));

/** Reads the field lines of `text` from `start`, at most `most`; the text is clean and ends with an empty line. */
export function readFields(text: string, start: number, most = MAX_FIELDS): Field[] | Malformed {
  const fields: Field[] = [];
  for (let at = start; at < text.length; ) {
    const end = text.indexOf('\r\n', at);
    if (end < 0 || end === at) break;
    if (fields.length === most) return { status: 431, reason: `more than ${most} header fields` };
    const first = text.charCodeAt(at);
    // A folded line (RFC 9112, section 5.2), or a blank before the first name.
    if (first === 0x20 || first === 0x09) return { status: 400, reason: 'a header line begins with a blank' };
    const colon = text.indexOf(':', at);
    if (colon < 0 || colon > end) return { status: 400, reason: 'a header line without a colon' };
    const name = NAMES.get(text.slice(at, colon));
    if (name === undefined) return { status: 400, reason: 'a header name that is none' };
    fields.push(new LineOfHead(name, text, at, colon, end));
    at = end + 2;
  }
  return fields;
}

/** Values of all fields of one name, in order. */
export function valuesOf(fields: readonly Field[], name: string): readonly string[] {
  let values: string[] | undefined;
  for (const field of fields) {
    if (field.name !== name) continue;
    values ??= [];
    values.push(field.value);
  }
  return values ?? NONE;
}

const NONE: readonly string[] = [];

/** Elements of all lists in `values`, in lower case. */
export function elementsOf(values: readonly string[]): readonly string[] {
  const [first] = values;
  if (first === undefined) return NONE;
  return values.length === 1 ? LISTS.get(first) : values.flatMap(listOf);
}

const LISTS = new ParseCache<readonly string[]>(200, listOf);

/**
 * The framing that the fields say: `undefined` when they say none. What other readers might take differently is
 * malformed: a length beside a coding, two lengths even if equal, any coding but one `chunked` (RFC 9112, sections 6.1
 * to 6.3 allow a server to refuse).
 */
export function framingOf(fields: readonly Field[], isHttp11: boolean): Framing | undefined | Malformed {
  let coding: string | undefined;
  let length: string | undefined;
  for (const { name, value } of fields) {
    if (name === 'transfer-encoding') {
      if (coding !== undefined) return { status: 400, reason: 'two Transfer-Encoding fields' };
      coding = value;
    } else if (name === 'content-length') {
      if (length !== undefined) return { status: 400, reason: 'two Content-Length fields' };
      length = value;
    }
  }
  if (coding !== undefined) {
    if (length !== undefined) return { status: 400, reason: 'both Transfer-Encoding and Content-Length' };
    if (!isHttp11) return { status: 400, reason: 'a Transfer-Encoding in HTTP/1.0' };
    return coding.toLowerCase() === 'chunked' ? { kind: 'chunked' } : wrongCoding(coding);
  }
  if (length === undefined) return undefined;
  const parsed = parseLength(length);
  if (parsed === undefined) return { status: 400, reason: 'a Content-Length that is none' };
  return { kind: 'length', length: parsed };
}

/** The body's end is known only when `chunked` is last, once (RFC 9112, 6.3); any before it is not understood (6.1). */
function wrongCoding(coding: string): Malformed {
  const codings = listOf(coding);
  const others = codings.slice(0, -1);
  const isFramed = codings.at(-1) === 'chunked' && others.length > 0 && !others.includes('chunked');
  return isFramed && others.every((other) => TOKEN.test(other))
    ? { status: 501, reason: 'a transfer coding other than chunked' }
    : { status: 400, reason: 'a Transfer-Encoding that does not end in chunked' };
}

/** Fields that belong to one connection and are never sent on (RFC 9110, section 7.6.1; RFC 9112, section 6.1). */
const HOP_BY_HOP = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'http2-settings',
]);

/** Fields that `Connection` may not remove: without them the message would mean something else to the origin. */
const KEPT = new Set([
  'host',
  'content-length',
  'authorization',
  'cookie',
  'set-cookie',
  'cdn-loop',
  'x-forwarded-for',
  'x-forwarded-proto',
  'x-forwarded-host',
]);

/** Names that are not sent on: the hop-by-hop ones, and those that `Connection` names. */
export function hopByHop(connection: readonly string[]): ReadonlySet<string> {
  if (connection.length === 0) return HOP_BY_HOP;
  let names: Set<string> | undefined;
  for (const value of connection) {
    for (const option of LISTS.get(value)) {
      if (HOP_BY_HOP.has(option) || KEPT.has(option) || option === 'close') continue;
      names ??= new Set(HOP_BY_HOP);
      names.add(option);
    }
  }
  return names ?? HOP_BY_HOP;
}
