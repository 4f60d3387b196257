/** A message as it crosses: a head, which is authenticated, then a tag, then what was encrypted. */

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
