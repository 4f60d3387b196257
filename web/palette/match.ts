/** Which names fit what is typed, how well, and which of their letters do. */

/** A name that fits. */
export interface NameMatch {
  /** More fits better. */
  readonly score: number;
  /** Places of the letters that fit. */
  readonly at: ReadonlySet<number>;
}

const [WHOLE_WORD, INSIDE, SCATTERED] = [4, 2, 1];

/** Each word of `text` has to be in `name`, as it is or letter by letter in order; undefined where one is not. */
export function matchName(name: string, text: string): NameMatch | undefined {
  const low = name.toLowerCase();
  const at = new Set<number>();
  let score = 0;
  for (const word of text.toLowerCase().split(/\s+/)) {
    if (word === '') continue;
    const found = wordIn(low, word);
    if (found === undefined) return undefined;
    score += found.score;
    for (const place of found.at) at.add(place);
  }
  return { score, at };
}

function wordIn(low: string, word: string): { score: number; at: readonly number[] } | undefined {
  const begin = startOfWord(low, word) ?? low.indexOf(word);
  if (begin >= 0) {
    const isStart = begin === 0 || low[begin - 1] === ' ';
    return { score: isStart ? WHOLE_WORD : INSIDE, at: Array.from(word, (_, n) => begin + n) };
  }
  const at: number[] = [];
  for (const letter of word) {
    const next = low.indexOf(letter, (at.at(-1) ?? -1) + 1);
    if (next < 0) return undefined;
    at.push(next);
  }
  // Letters far apart are a coincidence.
  const spread = (at.at(-1) ?? 0) - (at[0] ?? 0);
  return spread <= word.length * 3 ? { score: SCATTERED, at } : undefined;
}

function startOfWord(low: string, word: string): number | undefined {
  if (low.startsWith(word)) return 0;
  const after = low.indexOf(` ${word}`);
  return after < 0 ? undefined : after + 1;
}
