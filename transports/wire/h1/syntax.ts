/** HTTP/1.1's letters (RFC 9110, 5.6; RFC 9112) as accepted here: nothing that two readers read in two ways. */

/** Why a message is refused: the status to answer with, and what a person should read. */
export interface Malformed {
  readonly status: 400 | 414 | 417 | 431 | 501 | 505;
  readonly reason: string;
}

/** RFC 9110, section 5.6.2: token. */
export const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;

/**
 * No control characters but tab, and no CR or LF that are not a pair: they mean different things to different readers
 * (RFC 9112, section 2.2; RFC 9110, section 5.5). In this form each character is looked at once, and nothing is read
 * twice when it does not match.
 */
const CLEAN = /^(?:[\t -~\x80-\xff]*\r\n)*[\t -~\x80-\xff]*$/;

/** Whether latin1 text from the wire holds no control characters and no bare CR or LF. */
export function isClean(text: string): boolean {
  return CLEAN.test(text);
}

/** Removes spaces and tabs at both ends (OWS, RFC 9110, section 5.6.3). */
export function trim(text: string, start: number, end: number): string {
  let from = start;
  let to = end;
  while (from < to && isBlank(text.charCodeAt(from))) from++;
  while (to > from && isBlank(text.charCodeAt(to - 1))) to--;
  return text.slice(from, to);
}

function isBlank(code: number): boolean {
  return code === 0x20 || code === 0x09;
}

/** A content length: digits only, and few enough that they are exact (RFC 9110, section 8.6). */
export function parseLength(text: string): number | undefined {
  return /^[0-9]{1,15}$/.test(text) ? Number(text) : undefined;
}

/** Elements of a comma-separated list in lower case, empty ones left out (RFC 9110, section 5.6.1). */
export function listOf(value: string): string[] {
  return value
    .toLowerCase()
    .split(',')
    .map((element) => element.trim())
    .filter((element) => element !== '');
}

/** A host with its port, which may be empty, as in RFC 3986, without userinfo: name, IPv4, or IPv6 in brackets. */
const HOST = /^(?:([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9_.])?)|(\[[0-9A-Fa-f:.]{2,45}\]))(?::([0-9]{0,5}))?$/;

/** The host in lower case without a trailing dot, and its port if it has one; undefined when it is none. */
export function parseHost(text: string): { host: string; port: number | undefined } | undefined {
  if (text.length > 262) return undefined;
  const [, name, address, digits] = HOST.exec(text) ?? [];
  const host = (name ?? address)?.toLowerCase().replace(/\.$/, '');
  if (host === undefined || host === '' || host.includes('..')) return undefined;
  const port = digits ? Number(digits) : undefined;
  if (port !== undefined && (port < 1 || port > 65_535)) return undefined;
  return { host, port };
}
