/**
 * OpenSSH public keys as people paste them: one line `type base64 [comment]`. A key that gets past `parsePublicKey` is
 * safe to write into an authorized_keys file: nothing in it can start an options field or a second line.
 */
import { createHash, createPublicKey } from 'node:crypto';

/** Longest text looked at, in UTF-16 units; an RSA key of 16384 bits needs under 3,000. */
export const MAX_PUBLIC_KEY_LENGTH = 16 * 1024;

/** The accepted types, in the order in which a refusal lists them. */
export const PUBLIC_KEY_TYPES = [
  'ssh-rsa',
  'ssh-ed25519',
  'ecdsa-sha2-nistp256',
  'ecdsa-sha2-nistp384',
  'ecdsa-sha2-nistp521',
] as const;

/** One of the accepted types. */
type PublicKeyType = (typeof PUBLIC_KEY_TYPES)[number];

/** A public key, taken apart. `${type} ${base64}` is the key in its shortest form. */
interface PublicKey {
  readonly type: PublicKeyType;
  /** The key blob (RFC 4253 section 6.6) in padded base64. */
  readonly base64: string;
  /** What followed the blob, without surrounding blanks; empty when there was nothing. */
  readonly comment: string;
  /** `SHA256:` and the unpadded base64 of the blob's hash, as `ssh-keygen -l` prints it. */
  readonly fingerprint: string;
}

const MIN_RSA_BITS = 2048;
const MAX_RSA_BITS = 16384;
const LINE = /^([a-z0-9-]{7,19})[ \t]+([A-Za-z0-9+/]{16,}={0,2})(?:[ \t]+(.*))?$/;
/** Controls (tabs may only stand between the fields), halves of surrogate pairs and the Unicode line separators. */
const UNPRINTABLE = /[\p{Cc}\p{Cs}\u2028\u2029]/u;

const CURVES: Readonly<Record<string, { readonly name: string; readonly jwk: string; readonly bytes: number }>> = {
  'ecdsa-sha2-nistp256': { name: 'nistp256', jwk: 'P-256', bytes: 32 },
  'ecdsa-sha2-nistp384': { name: 'nistp384', jwk: 'P-384', bytes: 48 },
  'ecdsa-sha2-nistp521': { name: 'nistp521', jwk: 'P-521', bytes: 66 },
};

/**
 * Takes one OpenSSH public key line apart. Returns undefined for anything else: another type, an options prefix, a line
 * break or control character, base64 that is not canonical, a blob of another type than the line says or with bytes
 * missing or left over, a point off its curve, an Ed25519 point of small order, an RSA modulus outside 2048..16384
 * bits. Never throws. Surrounding line breaks are the caller's to trim.
 */
export function parsePublicKey(text: string): PublicKey | undefined {
  if (text.length > MAX_PUBLIC_KEY_LENGTH) return undefined;
  const match = LINE.exec(text);
  const type = PUBLIC_KEY_TYPES.find((known) => known === match?.[1]);
  const base64 = match?.[2];
  const comment = (match?.[3] ?? '').trim();
  if (type === undefined || base64 === undefined || UNPRINTABLE.test(comment)) return undefined;
  const blob = Buffer.from(base64, 'base64');
  if (blob.toString('base64') !== base64) return undefined;
  const fields = readStrings(blob);
  if (fields === undefined || fields[0]?.toString('latin1') !== type || !isSane(type, fields)) return undefined;
  return { type, base64, comment, fingerprint: `SHA256:${sha256(blob)}` };
}

function sha256(blob: Buffer): string {
  return createHash('sha256').update(blob).digest('base64').replace(/=+$/, '');
}

/** The length-prefixed strings (RFC 4251 section 5) a blob is made of; undefined unless they fill it exactly. */
function readStrings(blob: Buffer): Buffer[] | undefined {
  const strings: Buffer[] = [];
  let at = 0;
  while (at < blob.length) {
    if (at + 4 > blob.length || strings.length === 3) return undefined;
    const end = at + 4 + blob.readUInt32BE(at);
    if (end > blob.length) return undefined;
    strings.push(blob.subarray(at + 4, end));
    at = end;
  }
  return strings;
}

function isSane(type: PublicKeyType, fields: readonly Buffer[]): boolean {
  const [, first, second] = fields;
  if (first === undefined) return false;
  if (type === 'ssh-ed25519') return second === undefined && isEd25519Point(first);
  if (second === undefined) return false;
  return type === 'ssh-rsa' ? isRsaKey(first, second) : isCurvePoint(type, first, second);
}

/** RFC 4253 section 6.6: exponent, then modulus. The exponent is odd and fits 64 bits, as every verifier demands. */
function isRsaKey(exponent: Buffer, modulus: Buffer): boolean {
  const e = readPositive(exponent);
  const n = readPositive(modulus);
  if (e === undefined || n === undefined) return false;
  const bits = n.toString(2).length;
  if (bits < MIN_RSA_BITS || bits > MAX_RSA_BITS || n % 2n === 0n) return false;
  return e >= 3n && e < 1n << 64n && e % 2n === 1n;
}

/** A positive mpint (RFC 4251 section 5) in its only allowed form: no sign bit, no needless leading zero. */
function readPositive(bytes: Buffer): bigint | undefined {
  const [first, second] = bytes;
  if (first === undefined || first > 0x7f || bytes.length > MAX_RSA_BITS / 8 + 1) return undefined;
  if (first === 0 && (second === undefined || second < 0x80)) return undefined;
  return BigInt(`0x${bytes.toString('hex')}`);
}

/** RFC 5656 section 3.1: the curve's name, then an uncompressed point, which OpenSSL checks to lie on the curve. */
function isCurvePoint(type: PublicKeyType, name: Buffer, point: Buffer): boolean {
  const curve = CURVES[type];
  if (curve === undefined || name.toString('latin1') !== curve.name) return false;
  if (point.length !== 1 + 2 * curve.bytes || point[0] !== 4) return false;
  const x = point.subarray(1, 1 + curve.bytes).toString('base64url');
  const y = point.subarray(1 + curve.bytes).toString('base64url');
  try {
    createPublicKey({ key: { kty: 'EC', crv: curve.jwk, x, y }, format: 'jwk' });
    return true;
  } catch {
    return false;
  }
}

const P = (1n << 255n) - 19n;
/** The curve's d (RFC 8032 section 5.1). */
const D = 0x52036cee2b6ffe738cc740797779e89800700a4d4141d8ab75eb4dca135978a3n;
/**
 * y of the points of order 8 (one; the other is its negative): with 0, 1 and -1 all whose signatures anyone can forge.
 */
const Y_ORDER_8 = 0x7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd83d3d706a17c7n;
const SMALL_ORDER_Y: ReadonlySet<bigint> = new Set([0n, 1n, P - 1n, Y_ORDER_8, P - Y_ORDER_8]);

/** RFC 8032 section 5.1.3: y, little-endian, with x's sign in the top bit; some x must satisfy the curve's equation. */
function isEd25519Point(bytes: Buffer): boolean {
  if (bytes.length !== 32) return false;
  const encoded = BigInt(`0x${Buffer.from(bytes).reverse().toString('hex')}`);
  const y = encoded & ((1n << 255n) - 1n);
  if (y >= P || SMALL_ORDER_Y.has(y)) return false;
  const y2 = (y * y) % P;
  // x^2 = u/v; u/v is a square exactly when u*v is (Euler's criterion).
  const u = (y2 - 1n + P) % P;
  const v = (D * y2 + 1n) % P;
  return power((u * v) % P, (P - 1n) / 2n) === 1n;
}

function power(base: bigint, exponent: bigint): bigint {
  let result = 1n;
  let square = base;
  for (let rest = exponent; rest > 0n; rest >>= 1n) {
    if (rest & 1n) result = (result * square) % P;
    square = (square * square) % P;
  }
  return result;
}
