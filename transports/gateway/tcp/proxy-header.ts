/** The PROXY protocol's header, versions 1 and 2 (haproxy's proxy-protocol.txt): what a proxy says of a connection. */
import { isIP } from 'node:net';
import { addressText } from '../../../lib/ip-address.ts';

/** A header: its length, and the client's address; undefined: the proxy speaks for itself (LOCAL, UNKNOWN). */
interface ProxyHeader {
  readonly length: number;
  readonly address: string | undefined;
}

const SIGNATURE = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1');
const V1 = Buffer.from('PROXY ', 'latin1');
/** Longest line of version 1, with its CRLF. */
const MAX_V1 = 107;
const HEAD_V2 = 16;
/** Most bytes of addresses and extensions in version 2 that are read past. */
const MAX_V2 = 4096;

/** Reads the header at the beginning of `bytes` (all that came so far). `none`: there is no valid header. */
export function readProxyHeader(bytes: Buffer): ProxyHeader | 'incomplete' | 'none' {
  if (begins(bytes, SIGNATURE)) return bytes.length < HEAD_V2 ? 'incomplete' : readV2(bytes);
  if (begins(bytes, V1)) return readV1(bytes);
  return 'none';
}

/** Whether `bytes` begin like `start`, as far as they have come. */
function begins(bytes: Buffer, start: Buffer): boolean {
  const length = Math.min(bytes.length, start.length);
  return bytes.compare(start, 0, length, 0, length) === 0;
}

/** `PROXY TCP4 <from> <to> <from port> <to port>\r\n`, with one space each. */
const LINE = /^PROXY (TCP[46]) (\S+) (\S+) (0|[1-9][0-9]{0,4}) (0|[1-9][0-9]{0,4})$/;

function readV1(bytes: Buffer): ProxyHeader | 'incomplete' | 'none' {
  const end = bytes.indexOf('\r\n');
  if (end < 0) return bytes.length < MAX_V1 ? 'incomplete' : 'none';
  const length = end + 2;
  if (length > MAX_V1) return 'none';
  const line = bytes.toString('latin1', 0, end);
  if (/^PROXY UNKNOWN(?: |$)/.test(line)) return { length, address: undefined };
  const [, kind, from = '', to = '', ...ports] = LINE.exec(line) ?? [];
  const family = kind === 'TCP4' ? 4 : 6;
  if (kind === undefined || isIP(from) !== family || isIP(to) !== family) return 'none';
  return ports.every((port) => Number(port) <= 65_535) ? { length, address: from } : 'none';
}

function readV2(bytes: Buffer): ProxyHeader | 'incomplete' | 'none' {
  const [command = 0, family = 0] = bytes.subarray(12, 14);
  const size = bytes.readUInt16BE(14);
  // Version 2; LOCAL or PROXY.
  if (command >> 4 !== 2 || (command & 15) > 1 || size > MAX_V2) return 'none';
  const length = HEAD_V2 + size;
  if (bytes.length < length) return 'incomplete';
  // LOCAL, or a family that says nothing of addresses: the connection is the proxy's own.
  if ((command & 15) === 0 || family === 0) return { length, address: undefined };
  // TCP over IPv4 or IPv6; datagrams and local sockets do not come this way.
  const bytesOfOne = family === 0x11 ? 4 : family === 0x21 ? 16 : undefined;
  if (bytesOfOne === undefined || size < 2 * bytesOfOne + 4) return 'none';
  return { length, address: addressText(bytes.subarray(HEAD_V2, HEAD_V2 + bytesOfOne)) };
}
