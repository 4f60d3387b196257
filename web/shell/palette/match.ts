/** Which lines a few letters mean: those that hold them in this order, the closest together first. */

/** Lines that match, best first. Without letters all of them, as they are. */
export function matching<T extends { readonly name: string }>(lines: readonly T[], typed: string): readonly T[] {
  const letters = typed.toLowerCase().replace(/\s+/g, ' ').trim();
  if (letters === '') return lines;
  return lines
    .map((line) => ({ line, score: scoreOf(line.name.toLowerCase(), letters) }))
    .filter(({ score }) => score > 0)
    .sort((a, b) => b.score - a.score)
    .map(({ line }) => line);
}

/** 0: no match. A whole word counts most, then letters that stand together. */
function scoreOf(name: string, letters: string): number {
  const whole = name.indexOf(letters);
  if (whole >= 0) return 1000 - whole + (whole === 0 || name[whole - 1] === ' ' ? 500 : 0);
  let from = 0;
  let gaps = 0;
  for (const letter of letters.replaceAll(' ', '')) {
    const at = name.indexOf(letter, from);
    if (at < 0) return 0;
    gaps += at - from;
    from = at + 1;
  }
  return Math.max(1, 400 - gaps * 4);
}
