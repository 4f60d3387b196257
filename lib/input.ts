/** What comes from outside: JSON that may be none, bytes up to a bound. */

/** The value of a JSON text; undefined for what is none. */
export function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** All bytes of a stream; undefined when they are more than `most`: the rest is not read. Rejects as it does. */
export async function readAtMost(stream: AsyncIterable<unknown>, most: number): Promise<Buffer | undefined> {
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of stream) {
    if (!(part instanceof Uint8Array)) continue;
    size += part.byteLength;
    if (size > most) return undefined;
    parts.push(part);
  }
  return Buffer.concat(parts);
}

/** The same bytes as a Buffer: no copy. */
export function viewOf({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}
