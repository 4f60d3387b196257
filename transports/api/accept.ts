/** Which of two forms of an answer a client asks for (RFC 9110, section 12.5.1). */

/** Longest header that is read: a longer one says nothing. */
const MAX_ACCEPT = 1024;

/**
 * Whether `accept` prefers JSON to plain text. Not if it likes both as well, as one that takes everything does: plain
 * text is what the interface promises.
 */
export function prefersJson(accept: string | undefined): boolean {
  if (accept === undefined || accept.length > MAX_ACCEPT) return false;
  const ranges = accept.toLowerCase().split(',').map(rangeOf);
  const quality = (...names: readonly string[]) =>
    names.map((name) => ranges.find((range) => range.name === name)?.quality).find((found) => found !== undefined) ?? 0;
  // The most specific range that fits counts.
  return quality('application/json', 'application/*', '*/*') > quality('text/plain', 'text/*', '*/*');
}

function rangeOf(text: string): { readonly name: string; readonly quality: number } {
  const [name = '', ...parameters] = text.split(';').map((part) => part.trim());
  const [, given] =
    parameters.map((part) => /^q=([01](?:\.\d{0,3})?)$/.exec(part)).find((found) => found !== null) ?? [];
  return { name, quality: given === undefined ? 1 : Number(given) };
}
