/** The words of a command line that SSH sends as one text. */

/** Longest command line that is read, in characters. */
const MOST = 32_768;

/**
 * Splits as a shell does, with quotes and backslashes and nothing else: no variables, no patterns, no other programs.
 * Undefined for a text that is too long, or whose quotes do not end.
 */
export function wordsOf(text: string): string[] | undefined {
  if (text.length > MOST) return undefined;
  const words: string[] = [];
  let word: string | undefined;
  let quote: '"' | "'" | undefined;
  for (let at = 0; at < text.length; at++) {
    const character = text[at] ?? '';
    if (quote === "'") {
      if (character === "'") quote = undefined;
      else word += character;
    } else if (character === '\\') {
      const next = text[++at];
      if (next === undefined) return undefined;
      // Within double quotes it stands for itself before anything but these.
      word = (word ?? '') + (quote === '"' && !'"\\$`\n'.includes(next) ? `\\${next}` : next);
    } else if (quote === '"') {
      if (character === '"') quote = undefined;
      else word += character;
    } else if (character === "'" || character === '"') {
      quote = character;
      word ??= '';
    } else if (/\s/.test(character)) {
      if (word !== undefined) words.push(word);
      word = undefined;
    } else word = (word ?? '') + character;
  }
  if (quote !== undefined) return undefined;
  if (word !== undefined) words.push(word);
  return words;
}
