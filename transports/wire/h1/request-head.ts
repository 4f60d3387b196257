/** Reads a request's head (RFC 9112, sections 3 and 5). Strict: what is forwarded means the same to all origins. */
import { elementsOf, type Field, type Framing, framingOf, hopByHop, readFields, valuesOf } from './fields.ts';
import { KnownFields, ParseCache } from './parse-cache.ts';
import { isClean, type Malformed, parseHost, TOKEN } from './syntax.ts';

/** Most bytes of a head, and of the target in it. */
export const MAX_HEAD_BYTES = 16_384;
const MAX_TARGET = 8192;
const MAX_METHOD = 32;

/** A request's head. */
export interface RequestHead {
  readonly method: string;
  /** Path and query as sent, beginning with `/`; `*` for OPTIONS of the server itself. */
  readonly target: string;
  /** 1 for HTTP/1.1, 0 for HTTP/1.0. */
  readonly minor: 0 | 1;
  /** In lower case, without port and trailing dot; empty in HTTP/1.0 without a Host. */
  readonly host: string;
  /** Port in the Host, if it names one. */
  readonly port: number | undefined;
  /** All fields, in order. */
  readonly fields: readonly Field[];
  readonly framing: Exclude<Framing, { kind: 'until_close' }>;
  /** Whether the client wants to send another request on this connection. */
  readonly keepAlive: boolean;
  /** Protocols of a wanted upgrade, in lower case; empty without one. */
  readonly upgrade: readonly string[];
  /** Whether the client waits for `100 Continue`. */
  readonly expectsContinue: boolean;
  /** Names of fields that are not sent on. */
  readonly hopByHop: ReadonlySet<string>;
}

/**
 * RFC 3986's characters and what browsers send beside them; no space, quote, angle, fragment, non-ASCII. A backslash
 * stands in queries only (WHATWG URL, "query percent-encode set"): some origins read it in a path as a slash.
 */
const TARGET = /^\/[!$-;=@-[\]^_`a-z{|}~]*(?:\?[!$-;=?-_`a-z{|}~]*)?$/;
const ABSOLUTE = /^https?:\/\/([^/?]*)([/?].*)?$/i;

/** Hosts come again with each request. */
const HOSTS = new ParseCache(1000, parseHost);

/** What fields of HTTP/1.1 without a body say, whatever the request line before them. */
type Said = Omit<RequestHead, 'method' | 'target'>;
const KNOWN = new KnownFields<Said>();

/** A request head from `text`: clean or not, up to and with its empty line. */
export function readRequestHead(text: string): RequestHead | Malformed {
  const fieldsAt = text.indexOf('\r\n') + 2;
  const known = KNOWN.find(text, fieldsAt);
  const head = known === undefined ? undefined : withKnownFields(text, fieldsAt, known);
  if (head !== undefined) return head;
  const read = readWhole(text);
  if ('method' in read && isPlain(read)) KNOWN.saw(text, fieldsAt, saidBy);
  return read;
}

/** Whether nothing but its target depends on the request line. */
function isPlain({ minor, target, framing }: RequestHead): boolean {
  return minor === 1 && framing.kind === 'none' && target !== '*';
}

/** What a block of fields says. */
function saidBy(block: string): Said | undefined {
  const head = readWhole(`GET / HTTP/1.1\r\n${block}`);
  if (!('method' in head)) return undefined;
  const { method: _method, target: _target, ...said } = head;
  return said;
}

/** The head with fields that were read before, if its first line is a plain one: any other is read with them. */
function withKnownFields(text: string, fieldsAt: number, said: Said): RequestHead | undefined {
  const first = text.indexOf(' ');
  const second = text.indexOf(' ', first + 1);
  if (first <= 0 || first > MAX_METHOD || second - first > MAX_TARGET) return undefined;
  if (second + 11 !== fieldsAt || !text.startsWith('HTTP/1.1', second + 1)) return undefined;
  const method = text.slice(0, first);
  const target = text.slice(first + 1, second);
  if (method === 'CONNECT' || !TOKEN.test(method) || !TARGET.test(target)) return undefined;
  const { minor, host, port, fields, framing, keepAlive, upgrade, expectsContinue, hopByHop: names } = said;
  return { method, target, host, port, minor, fields, framing, keepAlive, upgrade, expectsContinue, hopByHop: names };
}

function readWhole(text: string): RequestHead | Malformed {
  if (!isClean(text)) return { status: 400, reason: 'a control character, or a line that does not end in CRLF' };
  const lineEnd = text.indexOf('\r\n');
  const first = text.indexOf(' ');
  const second = text.indexOf(' ', first + 1);
  if (first <= 0 || second < 0 || second > lineEnd) return { status: 400, reason: 'the first line is no request line' };
  const method = text.slice(0, first);
  if (method.length > MAX_METHOD || !TOKEN.test(method)) return { status: 400, reason: 'a method that is none' };
  const version = text.slice(second + 1, lineEnd);
  if (version !== 'HTTP/1.1' && version !== 'HTTP/1.0') {
    return /^HTTP\/[0-9]\.[0-9]$/.test(version)
      ? { status: 505, reason: 'only HTTP/1.0 and HTTP/1.1 are spoken here' }
      : { status: 400, reason: 'a version that is none' };
  }
  const minor = version === 'HTTP/1.1' ? 1 : 0;
  const rawTarget = text.slice(first + 1, second);
  if (rawTarget.length > MAX_TARGET) return { status: 414, reason: `a target of more than ${MAX_TARGET} characters` };
  if (method === 'CONNECT') return { status: 501, reason: 'this is no forward proxy: CONNECT is not served' };

  const fields = readFields(text, lineEnd + 2);
  if (!isFields(fields)) return fields;
  const authority = readAuthority(method, rawTarget, valuesOf(fields, 'host'), minor);
  if ('status' in authority) return authority;

  const framing = framingOf(fields, minor === 1);
  if (framing !== undefined && 'status' in framing) return framing;
  const connection = valuesOf(fields, 'connection');
  const options = elementsOf(connection);
  const expect = valuesOf(fields, 'expect');
  if (expect.length > 1 || (expect[0] !== undefined && expect[0].toLowerCase() !== '100-continue'))
    return { status: 417, reason: 'an expectation other than 100-continue' };
  return {
    method,
    ...authority,
    minor,
    fields,
    framing: framing === undefined || framing.kind === 'until_close' ? { kind: 'none' } : framing,
    keepAlive: !options.includes('close') && (minor === 1 || options.includes('keep-alive')),
    // RFC 9110, section 7.8: an upgrade counts only with its connection option, and never in HTTP/1.0.
    upgrade: minor === 1 && options.includes('upgrade') ? elementsOf(valuesOf(fields, 'upgrade')) : [],
    expectsContinue: minor === 1 && expect.length === 1,
    hopByHop: hopByHop(connection),
  };
}

function isFields(value: Field[] | Malformed): value is Field[] {
  return Array.isArray(value);
}

/** Target and host (RFC 9112, section 3.2): exactly one Host in HTTP/1.1, and an absolute target must say the same. */
export function readAuthority(
  method: string,
  rawTarget: string,
  hosts: readonly string[],
  minor: 0 | 1,
): { target: string; host: string; port: number | undefined } | Malformed {
  if (hosts.length > 1) return { status: 400, reason: 'two Host fields' };
  const [value] = hosts;
  if (value === undefined && minor === 1) return { status: 400, reason: 'no Host field' };
  const named = value === undefined ? { host: '', port: undefined } : HOSTS.get(value);
  if (named === undefined) return { status: 400, reason: 'a Host that is none' };
  if (rawTarget === '*') {
    return method === 'OPTIONS' ? { target: '*', ...named } : { status: 400, reason: 'the target * is for OPTIONS' };
  }
  const [absolute, authority = '', rest = ''] = (rawTarget.startsWith('/') ? null : ABSOLUTE.exec(rawTarget)) ?? [];
  const target = absolute === undefined ? rawTarget : rest.startsWith('/') ? rest : `/${rest}`;
  if (!TARGET.test(target)) return { status: 400, reason: 'a target that is none' };
  if (absolute !== undefined) {
    const asked = parseHost(authority);
    if (asked === undefined || asked.host !== named.host || asked.port !== named.port)
      return { status: 400, reason: 'the target names another host than the Host field' };
  }
  return { target, ...named };
}
