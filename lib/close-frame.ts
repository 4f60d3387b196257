/** Most bytes of a reason in a close frame (RFC 6455, section 5.5). */
const MAX_REASON_BYTES = 123;

/** As much of a reason as fits into a close frame, in whole characters. */
export function fittingReason(reason: string): string {
  const bytes = Buffer.from(reason, 'utf8');
  if (bytes.byteLength <= MAX_REASON_BYTES) return reason;
  return bytes
    .subarray(0, MAX_REASON_BYTES)
    .toString('utf8')
    .replace(/\uFFFD+$/, '');
}
