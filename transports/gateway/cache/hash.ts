/** The place of two texts among `counters` of them, a power of two: FNV-1a over both. */
export function counterOf(one: string, other: string, counters: number): number {
  let hash = 0x811c9dc5;
  for (const text of [one, other]) {
    for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  }
  return (hash ^ (hash >>> 16)) & (counters - 1);
}
