/** Text of others, as a terminal may be given it. */

/** Colours, and nothing else that a terminal would act on. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what it is about
export const ESCAPE = /\x1b\[[0-9;]*m/g;

/** A text that changes nothing but colours on a terminal: other control characters are shown as a space. */
export function clean(text: string): string {
  const colours = text.match(ESCAPE) ?? [];
  const parts = text.split(ESCAPE).map((part) => part.replace(/[\p{Cc}\u202a-\u202e\u2066-\u2069]/gu, ' '));
  return parts.map((part, at) => part + (colours[at] ?? '')).join('');
}
