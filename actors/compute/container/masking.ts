/** Takes the secrets of a container out of what it printed, before that is told to others. */

const MASK = '***';
/** What is shorter is in every other text by chance. */
const MIN_LENGTH = 4;

/**
 * `text` without the values of `secrets`: neither whole, nor a line of one with several, nor, where `text` was cut at
 * its end, the beginning of one there. Values of fewer than four characters stay.
 */
export function withoutSecrets(text: string, secrets: Iterable<string>, isCut = false): string {
  const parts = new Set<string>();
  for (const value of secrets) for (const part of [value, ...value.split(/\r?\n/)]) parts.add(part.trim());
  // The longest first: one may hold another.
  const wanted = [...parts].filter((part) => part.length >= MIN_LENGTH).sort((a, b) => b.length - a.length);
  let masked = text;
  for (const part of wanted) masked = masked.replaceAll(part, MASK);
  return isCut ? withoutBeginning(masked, wanted) : masked;
}

function withoutBeginning(text: string, parts: readonly string[]): string {
  for (const part of parts)
    for (let length = Math.min(part.length - 1, text.length); length >= MIN_LENGTH; length--)
      if (text.endsWith(part.slice(0, length))) return `${text.slice(0, -length)}${MASK}`;
  return text;
}
