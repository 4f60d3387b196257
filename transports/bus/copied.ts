/**
 * Bytes of one's own: the client's are a window on all that came in one piece from the socket, and a caller may use its
 * buffer again. Small ones share Node's pool, which spares the collector an array of bytes each.
 */
export function copied(data: Uint8Array): Uint8Array {
  const { buffer, byteOffset, byteLength } = Buffer.from(data);
  return new Uint8Array(buffer, byteOffset, byteLength);
}
