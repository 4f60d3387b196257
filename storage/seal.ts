import { createCipheriv, createDecipheriv, createSecretKey, type KeyObject, randomBytes } from 'node:crypto';
import { CodedError } from '../lib/errors.ts';

/** Why sealing or opening failed; never says more than that, and never holds key or text. */
export class SealError extends CodedError<'bad_key' | 'cannot_open'> {}

const CIPHER_NAME = 'aes-256-gcm';
const VERSION = 1;
// NIST SP 800-38D: a 96-bit nonce, here random (at most 2^32 seals under one key), and the full 128-bit tag.
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** The key from ENCRYPTION_KEY: 32 bytes as base64, base64url or hex. Throws SealError `bad_key`. */
export function parseSealKey(text: string): KeyObject {
  const trimmed = text.trim();
  const hex = /^[0-9a-fA-F]{64}$/.test(trimmed);
  // 32 bytes are 43 base64 characters and one of padding; Buffer would skip over anything else.
  const base64 = /^[A-Za-z0-9+/_-]{43}=?$/.test(trimmed);
  const bytes = hex || base64 ? Buffer.from(trimmed, hex ? 'hex' : 'base64') : undefined;
  if (bytes?.length !== 32) throw new SealError('bad_key', 'The encryption key must be 32 bytes in base64 or hex.');
  return createSecretKey(bytes);
}

/**
 * Seals `plaintext` with AES-256-GCM. `context` names the row and column it is for (`dns_providers/42/token`): it opens
 * there and nowhere else. Layout: version (1 byte), nonce (12), tag (16), ciphertext.
 */
export function seal(key: KeyObject, context: string, plaintext: Uint8Array): Buffer {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(CIPHER_NAME, key, nonce, { authTagLength: TAG_BYTES });
  cipher.setAAD(Buffer.from(`${VERSION}:${context}`));
  const body = Buffer.concat([cipher.update(plaintext), cipher.final()]);
  return Buffer.concat([Buffer.of(VERSION), nonce, cipher.getAuthTag(), body]);
}

/** Opens what `seal` made. Throws SealError `cannot_open` when a bit changed, or the key or the context is another. */
export function open(key: KeyObject, context: string, sealed: Uint8Array): Buffer {
  const head = 1 + NONCE_BYTES + TAG_BYTES;
  if (sealed.length < head || sealed[0] !== VERSION) throw new SealError('cannot_open', 'Not a sealed value.');
  try {
    const decipher = createDecipheriv(CIPHER_NAME, key, sealed.subarray(1, 1 + NONCE_BYTES), {
      authTagLength: TAG_BYTES,
    });
    decipher.setAAD(Buffer.from(`${VERSION}:${context}`));
    decipher.setAuthTag(sealed.subarray(1 + NONCE_BYTES, head));
    return Buffer.concat([decipher.update(sealed.subarray(head)), decipher.final()]);
  } catch (cause) {
    throw new SealError('cannot_open', 'The sealed value does not open: wrong key, wrong place, or damaged.', {
      cause,
    });
  }
}

/** As `open`; undefined for what does not open. */
export function openedOrNone(key: KeyObject, context: string, sealed: Uint8Array): Buffer | undefined {
  try {
    return open(key, context, sealed);
  } catch (error) {
    if (error instanceof SealError) return undefined;
    throw error;
  }
}
