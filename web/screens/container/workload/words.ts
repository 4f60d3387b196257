/** A command as it is typed in one line, and as the list of words that it is. */
import { shellWord } from '../../../core/shell-word.ts';

/** A quoted part, an escaped character, or what needs neither. */
const PART = /'([^']*)'|"((?:[^"\\]|\\[\s\S])*)"|\\([\s\S])|([^\s'"\\]+)/y;

/** The words of a line, split as a shell does it, without its variables. Undefined: a quote is not closed. */
export function wordsOf(line: string): string[] | undefined {
  const words: string[] = [];
  let isInWord = false;
  let at = 0;
  while (at < line.length) {
    if (/\s/.test(line.charAt(at))) {
      isInWord = false;
      at++;
      continue;
    }
    PART.lastIndex = at;
    const found = PART.exec(line);
    if (found === null) return undefined;
    const [whole, single, double, escaped, plain] = found;
    const text = single ?? double?.replace(/\\(["\\$`])/g, '$1') ?? escaped ?? plain ?? '';
    if (isInWord) words.push(`${words.pop() ?? ''}${text}`);
    else words.push(text);
    isInWord = true;
    at += whole.length;
  }
  return words;
}

/** The line whose words these are. */
export function lineOf(words: readonly string[] | null): string {
  return (words ?? []).map(shellWord).join(' ');
}
