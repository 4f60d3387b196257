/** Key pairs in OpenSSH's own format (PROTOCOL.key of OpenSSH), which `ssh`, `ssh-keygen` and ssh2 all read. */
import { generateKeyPair as generate, generateKeyPairSync, randomBytes, sign } from 'node:crypto';
import { promisify } from 'node:util';
import ssh2, { type ParsedKey } from 'ssh2';
import { readPrivateKey } from '../../lib/private-key.ts';

/** A new key pair as text. */
export interface KeyPair {
  /** `-----BEGIN OPENSSH PRIVATE KEY-----` ... with a final newline, not encrypted. A secret. */
  readonly privateKey: string;
  /** `ssh-ed25519 <base64> <comment>`, one line without a newline. */
  readonly publicKey: string;
}

const TYPE = 'ssh-ed25519';
/** The cipher block size that applies to a key without encryption. */
const BLOCK = 8;

/**
 * Makes an Ed25519 key pair. `comment` ends up in both halves; a control character in it throws a RangeError, since the
 * public half is written into files of one key a line.
 *
 * The text is made here because ssh2's own generator drops leading zero bytes: one of its keys in 256 is unreadable.
 */
export function generateKeyPair(comment: string): KeyPair {
  if (/\p{Cc}/u.test(comment)) throw new RangeError('A key comment holds no control characters.');
  const { d, x } = generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' });
  if (d === undefined || x === undefined) throw new Error('An exported Ed25519 key has two halves.');
  const seed = Buffer.from(d, 'base64url');
  const point = Buffer.from(x, 'base64url');
  const blob = Buffer.concat([string(TYPE), string(point)]);
  const publicKey = `${TYPE} ${blob.toString('base64')} ${comment}`.trimEnd();
  return { privateKey: privateText(blob, Buffer.concat([seed, point]), point, comment), publicKey };
}

/** Makes an RSA key of 3072 bits: the private half in PEM (PKCS #1), which ssh2 and ssh-keygen read too. A secret. */
export async function generateRsaKey(): Promise<string> {
  const { privateKey } = await promisify(generate)('rsa', {
    modulusLength: 3072,
    publicKeyEncoding: { type: 'pkcs1', format: 'pem' },
    privateKeyEncoding: { type: 'pkcs1', format: 'pem' },
  });
  return privateKey;
}

function privateText(blob: Buffer, secret: Buffer, point: Buffer, comment: string): string {
  const check = randomBytes(4);
  const inner = Buffer.concat([check, check, string(TYPE), string(point), string(secret), string(comment)]);
  const padding = Buffer.from(Array.from({ length: (BLOCK - (inner.length % BLOCK)) % BLOCK }, (_, i) => i + 1));
  const whole = Buffer.concat([
    Buffer.from('openssh-key-v1\0'),
    string('none'),
    string('none'),
    string(''),
    Buffer.from([0, 0, 0, 1]),
    string(blob),
    string(Buffer.concat([inner, padding])),
  ]);
  const lines = whole.toString('base64').match(/.{1,70}/g) ?? [];
  return ['-----BEGIN OPENSSH PRIVATE KEY-----', ...lines, '-----END OPENSSH PRIVATE KEY-----', ''].join('\n');
}

/** A string of RFC 4251 section 5: 32-bit length, then the bytes. */
export function string(value: string | Buffer): Buffer {
  const bytes = typeof value === 'string' ? Buffer.from(value) : value;
  return Buffer.concat([uint32(bytes.length), bytes]);
}

/** A number of 32 bits. */
export function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

let last: { readonly text: string; readonly key: ParsedKey | Error } | undefined;

/**
 * Reads a private key in OpenSSH or PEM form; an Error when it is none. It signs fast: ssh2 reads its PEM anew for each
 * signature, ten times the signature's own work. The key that was read last is remembered.
 */
export function signingKey(text: string): ParsedKey | Error {
  if (last?.text !== text) last = { text, key: read(text) };
  return last.key;
}

function read(text: string): ParsedKey | Error {
  const key = ssh2.utils.parseKey(text);
  // Of other types ssh2 knows the hash that goes with the curve.
  if (key instanceof Error || !(key.type === 'ssh-ed25519' || key.type === 'ssh-rsa')) return key;
  const secret = readPrivateKey(key.getPrivatePEM());
  const usual = key.type === 'ssh-ed25519' ? null : 'sha256';
  Object.defineProperty(key, 'sign', {
    value: (data: Buffer, hash?: string) => sign(hash === undefined || hash === '' ? usual : hash, data, secret),
  });
  return key;
}
