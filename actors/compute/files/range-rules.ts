/** Which bytes of a file a `Range` header asks for (RFC 9110, section 14). */

const ONE_RANGE = /^bytes=(\d{0,15})-(\d{0,15})$/;

/**
 * From `begin` to before `end`. Undefined: all of it, also for a header of another form or with several ranges, which
 * may be passed over. `none`: the file has none of them.
 */
export function readRange(
  header: string | undefined,
  size: number,
): { readonly begin: number; readonly end: number } | 'none' | undefined {
  const [, first = '', last = ''] = ONE_RANGE.exec(header?.trim() ?? '') ?? [];
  if (first === '' && last === '') return undefined;
  if (first === '') {
    const length = Math.min(Number(last), size);
    return length === 0 ? 'none' : { begin: size - length, end: size };
  }
  const begin = Number(first);
  const end = last === '' ? size : Math.min(Number(last) + 1, size);
  if (last !== '' && Number(last) < begin) return undefined;
  return begin >= size ? 'none' : { begin, end };
}
