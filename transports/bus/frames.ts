/** A message as it crosses: a head, which is authenticated, then a tag, then what was encrypted; by node:crypto. */
import { type CipherGCM, createCipheriv, createDecipheriv, type KeyObject } from 'node:crypto';

/** Bytes of a tag, in all ciphers here. */
export const TAG_BYTES = 16;
/** Bytes of a nonce: four zeros, then the number of the frame. */
export const NONCE_BYTES = 12;
export const NUMBER_BYTES = 8;

/** Where things are in a frame. */
export interface FrameLayout {
  readonly headBytes: number;
  /** The number, within the head. A key must never meet one twice. */
  readonly numberAt: number;
}

/** Seals and opens frames under one key. */
export interface FrameCipher {
  /** Fills in tag and content of a frame with its head, and room for exactly these. `text` is authenticated, too. */
  seal(frame: Buffer, text: string, data: Uint8Array): void;
  /** The content, in memory of its own; undefined unless head, text and content are what was sealed. */
  open(frame: Buffer, text: string): Uint8Array | undefined;
}

const OPTIONS = { authTagLength: TAG_BYTES };

/**
 * AES-256-GCM (NIST SP 800-38D) or ChaCha20-Poly1305 (RFC 8439), under a key of 32 bytes. Each frame takes a context of
 * OpenSSL, which for short ones costs more than the cipher.
 */
export class OpensslFrames implements FrameCipher {
  readonly #algorithm: 'aes-256-gcm' | 'chacha20-poly1305';
  readonly #key: KeyObject;
  readonly #layout: FrameLayout;

  constructor(algorithm: 'aes-256-gcm' | 'chacha20-poly1305', key: KeyObject, layout: FrameLayout) {
    this.#algorithm = algorithm;
    this.#key = key;
    this.#layout = layout;
  }

  seal(frame: Buffer, text: string, data: Uint8Array): void {
    const { headBytes } = this.#layout;
    const nonce = this.#nonceOf(frame);
    const cipher: CipherGCM =
      this.#algorithm === 'aes-256-gcm'
        ? createCipheriv(this.#algorithm, this.#key, nonce, OPTIONS)
        : createCipheriv(this.#algorithm, this.#key, nonce, OPTIONS);
    cipher.setAAD(this.#about(frame, text), { plaintextLength: data.length });
    frame.set(cipher.update(data), headBytes + TAG_BYTES);
    cipher.final();
    frame.set(cipher.getAuthTag(), headBytes);
  }

  open(frame: Buffer, text: string): Uint8Array | undefined {
    const { headBytes } = this.#layout;
    const nonce = this.#nonceOf(frame);
    const contentAt = headBytes + TAG_BYTES;
    try {
      const decipher =
        this.#algorithm === 'aes-256-gcm'
          ? createDecipheriv(this.#algorithm, this.#key, nonce, OPTIONS)
          : createDecipheriv(this.#algorithm, this.#key, nonce, OPTIONS);
      decipher.setAAD(this.#about(frame, text), { plaintextLength: frame.length - contentAt });
      decipher.setAuthTag(frame.subarray(headBytes, contentAt));
      const content = decipher.update(frame.subarray(contentAt));
      // Compares the tags in constant time; nothing of the content is used before.
      decipher.final();
      return content;
    } catch {
      return undefined;
    }
  }

  #nonceOf(frame: Buffer): Buffer {
    const { numberAt } = this.#layout;
    const nonce = Buffer.alloc(NONCE_BYTES);
    frame.copy(nonce, NONCE_BYTES - NUMBER_BYTES, numberAt, numberAt + NUMBER_BYTES);
    return nonce;
  }

  #about(frame: Buffer, text: string): Buffer {
    const { headBytes } = this.#layout;
    const about = Buffer.allocUnsafe(headBytes + Buffer.byteLength(text));
    frame.copy(about, 0, 0, headBytes);
    about.write(text, headBytes);
    return about;
  }
}

/**
 * Bytes of one's own: the client's are a window on all that came in one piece from the socket, and a caller may use its
 * buffer again. Small ones share Node's pool, which spares the collector an array of bytes each.
 */
export function copied(data: Uint8Array): Uint8Array {
  const { buffer, byteOffset, byteLength } = Buffer.from(data);
  return new Uint8Array(buffer, byteOffset, byteLength);
}
