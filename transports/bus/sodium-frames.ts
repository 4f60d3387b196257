/**
 * Frames sealed with ChaCha20-Poly1305 (RFC 8439): short ones by libsodium in WebAssembly, long ones by node:crypto.
 * Both write the same bytes. A call of libsodium costs what the cipher does, in memory that is there already; OpenSSL's
 * part of a short frame is mostly the making of a context.
 */
import { type KeyObject, randomBytes } from 'node:crypto';
import type { Libsodium } from 'libsodium';
import {
  copied,
  type FrameCipher,
  type FrameLayout,
  NONCE_BYTES,
  NUMBER_BYTES,
  OpensslFrames,
  TAG_BYTES,
} from './frames.ts';

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
