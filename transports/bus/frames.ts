/**
 * A message as it crosses: a head, which is authenticated, then a tag, then what was encrypted. Frames sealed with
 * ChaCha20-Poly1305 (RFC 8439): short ones by libsodium in WebAssembly, long ones by node:crypto. Both write the same
 * bytes. A call of libsodium costs what the cipher does, in memory that is there already; OpenSSL's part of a short
 * frame is mostly the making of a context.
 */
import { type CipherGCM, createCipheriv, createDecipheriv, type KeyObject, randomBytes } from 'node:crypto';
import type { Libsodium } from 'libsodium';

/** Bytes of a tag, in all ciphers here. */
export const TAG_BYTES = 16;
/** Bytes of a nonce: four zeros, then the number of the frame. */
const NONCE_BYTES = 12;
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

/** Bytes of a frame and its text up to which libsodium is the faster one; measured, not critical. */
export const SHORT_BYTES = 2048;

const KEY_BYTES = 32;
/** Where things are in the memory that is ours. */
const KEY_AT = 0;
const NONCE_AT = KEY_AT + KEY_BYTES;
/** Head and text; then tag and content. Neither is longer than a short frame. */
const ABOUT_AT = 48;
const TAG_AT = ABOUT_AT + SHORT_BYTES;
const CONTENT_AT = TAG_AT + TAG_BYTES;
const MEMORY_BYTES = TAG_AT + SHORT_BYTES;

/** The library with memory for one frame: calls do not overlap. */
interface Sodium {
  readonly functions: Libsodium;
  readonly memory: Buffer;
  readonly address: number;
}

let loaded: Sodium | undefined;
let loading: Promise<void> | undefined;

/** Loads libsodium, once in a process; until then, and should it reject, node:crypto seals all frames. */
export function loadSodium(): Promise<void> {
  loading ??= (async () => {
    const { default: load } = await import('libsodium');
    // Not used by the cipher; initialising asks for it, and finds none by itself in a module.
    const functions = await load({ getRandomValue: () => randomBytes(4).readUInt32LE() });
    if (functions._sodium_init() < 0) throw new Error('libsodium cannot be initialised');
    const address = functions._malloc(MEMORY_BYTES);
    if (address === 0) throw new Error('libsodium has no memory');
    // It stays where it is: nothing else takes memory from this copy, so it does not grow.
    const memory = Buffer.from(functions.HEAPU8.buffer, address, MEMORY_BYTES);
    memory.fill(0);
    loaded = { functions, memory, address };
  })();
  return loading;
}

/** ChaCha20-Poly1305 under a key of 32 bytes. */
export class SodiumFrames implements FrameCipher {
  readonly #long: OpensslFrames;
  readonly #key: Buffer;
  readonly #layout: FrameLayout;

  constructor(key: KeyObject, layout: FrameLayout) {
    this.#long = new OpensslFrames('chacha20-poly1305', key, layout);
    this.#key = key.export();
    this.#layout = layout;
  }

  seal(frame: Buffer, text: string, data: Uint8Array): void {
    if (loaded === undefined || isLong(frame, text)) {
      this.#long.seal(frame, text, data);
      return;
    }
    const { functions, memory, address } = loaded;
    const aboutBytes = this.#begin(memory, frame, text);
    memory.set(data, CONTENT_AT);
    functions._crypto_aead_chacha20poly1305_ietf_encrypt_detached(
      address + CONTENT_AT,
      address + TAG_AT,
      0,
      address + CONTENT_AT,
      data.length,
      0,
      address + ABOUT_AT,
      aboutBytes,
      0,
      0,
      address + NONCE_AT,
      address + KEY_AT,
    );
    memory.copy(frame, this.#layout.headBytes, TAG_AT, CONTENT_AT + data.length);
  }

  open(frame: Buffer, text: string): Uint8Array | undefined {
    if (loaded === undefined || isLong(frame, text)) return this.#long.open(frame, text);
    const { functions, memory, address } = loaded;
    const aboutBytes = this.#begin(memory, frame, text);
    const { headBytes } = this.#layout;
    const length = frame.length - headBytes - TAG_BYTES;
    frame.copy(memory, TAG_AT, headBytes);
    const result = functions._crypto_aead_chacha20poly1305_ietf_decrypt_detached(
      address + CONTENT_AT,
      0,
      address + CONTENT_AT,
      length,
      0,
      address + TAG_AT,
      address + ABOUT_AT,
      aboutBytes,
      0,
      address + NONCE_AT,
      address + KEY_AT,
    );
    return result === 0 ? copied(memory.subarray(CONTENT_AT, CONTENT_AT + length)) : undefined;
  }

  /** Writes key, nonce, head and text. Returns the bytes of head and text. */
  #begin(memory: Buffer, frame: Buffer, text: string): number {
    const { headBytes, numberAt } = this.#layout;
    memory.set(this.#key, KEY_AT);
    // Its first bytes are 0 and stay so.
    frame.copy(memory, NONCE_AT + NONCE_BYTES - NUMBER_BYTES, numberAt, numberAt + NUMBER_BYTES);
    frame.copy(memory, ABOUT_AT, 0, headBytes);
    return headBytes + memory.write(text, ABOUT_AT + headBytes);
  }
}

function isLong(frame: Buffer, text: string): boolean {
  // A character has at most three bytes.
  return frame.length + 3 * text.length > SHORT_BYTES;
}
