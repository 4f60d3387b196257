/** Words for sh(1) that stand for themselves (POSIX.1-2017, Shell Command Language, section 2.2.2). */

/** The word in quotes. */
export function quotedWord(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`;
}

/** The word as a person would type it: in quotes where it needs them. */
export function shellWord(word: string): string {
  return /^[\w./:@%+=,-]+$/.test(word) ? word : quotedWord(word);
}
