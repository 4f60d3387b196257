/** The longest run of two or more zero groups, as [start, length]; the first of equals. */
function zeroRun(parts: readonly number[]): [start: number, length: number] {
  let best: [number, number] = [0, 0];
  for (let i = 0; i < parts.length; i++) {
    let end = i;
    while (end < parts.length && parts[end] === 0) end++;
    if (end - i > best[1]) best = [i, end - i];
    i = end;
  }
  return best[1] >= 2 ? best : [-1, 0];
}

function ipv6(bytes: Uint8Array): string {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const parts = Array.from({ length: 8 }, (_, i) => view.getUint16(i * 2));
  if (parts.slice(0, 5).every((g) => g === 0) && parts[5] === 0xffff) return bytes.subarray(12).join('.');
  const [start, length] = zeroRun(parts);
  const hex = parts.map((g) => g.toString(16));
  return start < 0 ? hex.join(':') : `${hex.slice(0, start).join(':')}::${hex.slice(start + length).join(':')}`;
}

/**
 * An address of 4 or 16 bytes in network order as text: dotted IPv4, also for IPv4-mapped IPv6, else IPv6 in the short
 * form of RFC 5952. Empty for any other length (a socket that is already gone).
 */
export function addressText(bytes: Uint8Array): string {
  if (bytes.length === 4) return `${bytes[0]}.${bytes[1]}.${bytes[2]}.${bytes[3]}`;
  return bytes.length === 16 ? ipv6(bytes) : '';
}

/** A socket's address as node shows it, with an IPv4-mapped IPv6 address as IPv4. */
export function plainAddress(text: string | undefined): string {
  return text?.startsWith('::ffff:') && text.includes('.') ? text.slice(7) : (text ?? '');
}

/** The address at which a listener on `host` is reached from its own machine. */
export function reachableAddress(host: string): string {
  return host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host;
}
