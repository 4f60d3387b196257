/**
 * Reads the server name and the offered protocols out of a TLS ClientHello, before any handshake, however its bytes are
 * cut and over however many records (RFC 8446, sections 4.1.2 and 5.1; RFC 6066, section 3; RFC 7301). Nothing is
 * decrypted or changed: the bytes go on.
 */

/** What a ClientHello asks for. */
export interface ClientHello {
  /** In lower case, without a trailing dot; undefined when none is named. */
  readonly serverName: string | undefined;
  /** ALPN protocols in the client's order; empty without the extension. */
  readonly protocols: readonly string[];
}

/** Most bytes of a ClientHello with its records; the largest in use (post-quantum keys, ECH) are below 4 KiB. */
export const MAX_CLIENT_HELLO = 16_384;

const RECORD_HEAD = 5;
const MAX_RECORD = 16_384;
const HANDSHAKE = 0x16;
const CLIENT_HELLO = 1;
const EXT_SERVER_NAME = 0;
const EXT_ALPN = 16;

/** `incomplete`: more bytes are needed. `invalid`: no ClientHello, or one that nobody means well. */
type HelloResult = ClientHello | 'incomplete' | 'invalid';

/** Reads the hello at the beginning of `bytes` (all that came so far). */
export function readClientHello(bytes: Buffer): HelloResult {
  const message = handshakeMessage(bytes);
  if (typeof message === 'string') return message;
  try {
    return readMessage(message);
  } catch (error) {
    if (error instanceof OutOfBytes) return 'invalid';
    throw error;
  }
}

/** The body of the first handshake message, put together from its records. */
function handshakeMessage(bytes: Buffer): Buffer | 'incomplete' | 'invalid' {
  const parts: Buffer[] = [];
  let have = 0;
  for (let at = 0; ; ) {
    if (bytes.length > at && bytes[at] !== HANDSHAKE) return 'invalid';
    // The record's version is 3.x and says nothing more (RFC 8446, section 5.1).
    if (bytes.length > at + 1 && bytes[at + 1] !== 3) return 'invalid';
    if (bytes.length < at + RECORD_HEAD) return tooLong(at + RECORD_HEAD);
    const length = bytes.readUInt16BE(at + 3);
    // Handshake records are never empty.
    if (length === 0 || length > MAX_RECORD) return 'invalid';
    const part = bytes.subarray(at + RECORD_HEAD, at + RECORD_HEAD + length);
    parts.push(part);
    have += part.length;
    const joined = parts.length === 1 ? part : have >= 4 ? Buffer.concat(parts) : undefined;
    if (joined !== undefined && joined.length > 0 && joined[0] !== CLIENT_HELLO) return 'invalid';
    if (joined !== undefined && joined.length >= 4) {
      const size = joined.readUIntBE(1, 3);
      if (size > MAX_CLIENT_HELLO) return 'invalid';
      if (joined.length >= 4 + size) return joined.subarray(4, 4 + size);
    }
    if (part.length < length) return tooLong(bytes.length);
    at += RECORD_HEAD + length;
  }
}

function tooLong(needed: number): 'incomplete' | 'invalid' {
  return needed > MAX_CLIENT_HELLO ? 'invalid' : 'incomplete';
}

class OutOfBytes extends Error {}

/** A place in a buffer that cannot be read past. */
class Cursor {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get isAtEnd(): boolean {
    return this.#at === this.#bytes.length;
  }

  number(size: 1 | 2): number {
    const end = this.#at + size;
    if (end > this.#bytes.length) throw new OutOfBytes();
    const value = this.#bytes.readUIntBE(this.#at, size);
    this.#at = end;
    return value;
  }

  bytes(length: number): Buffer {
    const end = this.#at + length;
    if (end > this.#bytes.length) throw new OutOfBytes();
    const value = this.#bytes.subarray(this.#at, end);
    this.#at = end;
    return value;
  }

  /** A vector with a length of `size` bytes before it. */
  vector(size: 1 | 2): Buffer {
    return this.bytes(this.number(size));
  }
}

function readMessage(message: Buffer): ClientHello | 'invalid' {
  const cursor = new Cursor(message);
  cursor.number(2); // legacy_version
  cursor.bytes(32); // random
  if (cursor.vector(1).length > 32) return 'invalid'; // legacy_session_id
  const suites = cursor.vector(2);
  if (suites.length < 2 || suites.length % 2 !== 0) return 'invalid';
  if (cursor.vector(1).length < 1) return 'invalid'; // legacy_compression_methods
  if (cursor.isAtEnd) return { serverName: undefined, protocols: [] };
  const extensions = new Cursor(cursor.vector(2));
  if (!cursor.isAtEnd) return 'invalid';
  const seen = new Set<number>();
  let serverName: string | undefined;
  let protocols: readonly string[] = [];
  while (!extensions.isAtEnd) {
    const type = extensions.number(2);
    const body = extensions.vector(2);
    // RFC 8446, section 4.2: none comes twice. Who reads the first and who the last would differ.
    if (seen.has(type)) return 'invalid';
    seen.add(type);
    if (type === EXT_SERVER_NAME) {
      const name = readServerName(body);
      if (name === undefined) return 'invalid';
      serverName = name;
    } else if (type === EXT_ALPN) {
      const list = readProtocols(body);
      if (list === undefined) return 'invalid';
      protocols = list;
    }
  }
  return { serverName, protocols };
}

/** A DNS name as RFC 6066 wants it: ASCII, no trailing dot (one is forgiven), no address. */
const NAME = /^(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*$/;

function readServerName(body: Buffer): string | undefined {
  const outer = new Cursor(body);
  const list = new Cursor(outer.vector(2));
  // One name of type host_name, and nothing beside it.
  if (!outer.isAtEnd || list.isAtEnd || list.number(1) !== 0) return undefined;
  const name = list.vector(2).toString('latin1').toLowerCase().replace(/\.$/, '');
  return list.isAtEnd && NAME.test(name) && !/^[0-9.]+$/.test(name) ? name : undefined;
}

function readProtocols(body: Buffer): string[] | undefined {
  const outer = new Cursor(body);
  const list = new Cursor(outer.vector(2));
  if (!outer.isAtEnd || list.isAtEnd) return undefined;
  const protocols: string[] = [];
  while (!list.isAtEnd) {
    const name = list.vector(1);
    if (name.length === 0) return undefined;
    protocols.push(name.toString('latin1'));
  }
  return protocols;
}
