/** Which protocol a connection speaks, by its first bytes. */

/** `undecided`: more bytes are needed, as long as a deadline allows. */
type Detected = 'ssh' | 'tls' | 'http' | 'unknown' | 'undecided';

/** Bytes after which every connection is decided. */
export const DETECT_BYTES = 33;

const SSH = Buffer.from('SSH-');
const TLS_HANDSHAKE = 0x16;
const SPACE = 0x20;
/** Longest method. */
const MAX_METHOD = 32;

/** Decides by the bytes that came so far. */
export function detect(bytes: Buffer): Detected {
  const first = bytes[0];
  if (first === undefined) return 'undecided';
  if (first === TLS_HANDSHAKE) return 'tls';
  const compared = Math.min(bytes.length, SSH.length);
  if (bytes.compare(SSH, 0, compared, 0, compared) === 0) {
    // Four bytes decide; fewer may still become a method such as SEARCH, but not one with a dash after SSH.
    return bytes.length >= SSH.length ? 'ssh' : 'undecided';
  }
  return detectMethod(bytes);
}

/** An HTTP method in upper case and a space (RFC 9110, section 9.1). */
function detectMethod(bytes: Buffer): Detected {
  const end = Math.min(bytes.length, MAX_METHOD + 1);
  for (let at = 0; at < end; at++) {
    const byte = bytes[at] ?? 0;
    if (byte === SPACE) return at === 0 ? 'unknown' : 'http';
    const isMethodLetter = (byte >= 0x41 && byte <= 0x5a) || byte === 0x2d || byte === 0x5f;
    if (!isMethodLetter || at === MAX_METHOD) return 'unknown';
  }
  return 'undecided';
}
