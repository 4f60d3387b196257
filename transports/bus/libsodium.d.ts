/** What is used of libsodium.js's raw form, which has no types: C functions over WebAssembly's memory. */
declare module 'libsodium' {
  /** A pointer into `HEAPU8`. */
  type Address = number;
  export interface Libsodium {
    /** All memory. Another array when memory has grown. */
    readonly HEAPU8: Uint8Array;
    _malloc(bytes: number): Address;
    /** Once, before all else. 0, or 1 when it was called before; -1 when it failed. */
    _sodium_init(): number;
    /** Lengths of 64 bits come as two halves, the low one first. Returns 0. */
    _crypto_aead_chacha20poly1305_ietf_encrypt_detached(
      to: Address,
      tag: Address,
      tagLengthAt: Address,
      from: Address,
      fromLow: number,
      fromHigh: number,
      about: Address,
      aboutLow: number,
      aboutHigh: number,
      unused: Address,
      nonce: Address,
      key: Address,
    ): number;
    /** Returns 0, or -1 when the tag is another: nothing was decrypted then. */
    _crypto_aead_chacha20poly1305_ietf_decrypt_detached(
      to: Address,
      unused: Address,
      from: Address,
      fromLow: number,
      fromHigh: number,
      tag: Address,
      about: Address,
      aboutLow: number,
      aboutHigh: number,
      nonce: Address,
      key: Address,
    ): number;
  }
  /** A copy of the library with a memory of its own. */
  const load: (options: { getRandomValue: () => number }) => Promise<Libsodium>;

  // biome-ignore lint/style/noDefaultExport: it is what the library has.
  export { load as default };
}
