/** Colours in the text of a log (ECMA-48, SGR), as classes of text. Everything else that is no text is dropped. */

/** A stretch of text with one look. `look`: class names; empty for plain text. */
interface StyledText {
  readonly text: string;
  readonly look: string;
}

const ESC = '\u001b';
const BEL = '\u0007';
const SGR = new RegExp(`${ESC}\\[([0-9;]*)m`);
/** Other control sequences: CSI, OSC, and single characters after the escape. */
const OTHERS = new RegExp(
  `${ESC}\\[[0-9;?]*[ -/]*[@-ln-~]|${ESC}\\][^${BEL}${ESC}]*(?:${BEL}|${ESC}\\\\)?|${ESC}[ -/]*[0-Z\\\\^-~]`,
  'g',
);
/** Control characters, and those that turn the direction of text around. */
const NO_TEXT = '\\u0000-\\u0008\\u000b-\\u001a\\u001c-\\u001f\\u007f\\u202a-\\u202e\\u2066-\\u2069';
const HIDDEN = new RegExp(`[${NO_TEXT}]`, 'g');

const HUES = ['k', 'r', 'g', 'y', 'b', 'm', 'c', 'w'] as const;

/** The text in stretches. */
export function styled(line: string): readonly StyledText[] {
  if (!line.includes(ESC)) return [{ text: line.replace(HIDDEN, ''), look: '' }];
  const parts = line.replace(OTHERS, '').split(SGR);
  const looks = new Set<string>();
  return parts.flatMap((part, at): StyledText[] => {
    if (at % 2 === 1) {
      apply(looks, part);
      return [];
    }
    const text = part.replace(HIDDEN, '').replaceAll(ESC, '');
    return text === '' ? [] : [{ text, look: [...looks].join(' ') }];
  });
}

/** The text alone. */
export function plainText(line: string): string {
  return styled(line)
    .map(({ text }) => text)
    .join('');
}

function apply(looks: Set<string>, codes: string): void {
  for (const code of (codes === '' ? '0' : codes).split(';').map(Number)) {
    const hue = code >= 30 && code <= 37 ? HUES[code - 30] : code >= 90 && code <= 97 ? HUES[code - 90] : undefined;
    if (code === 0) looks.clear();
    if (code === 1) looks.add('bold');
    if (code === 2) looks.add('dim');
    if (code === 22) for (const one of ['bold', 'dim']) looks.delete(one);
    if (code === 39 || hue !== undefined) for (const one of HUES) looks.delete(one);
    if (hue !== undefined && hue !== 'k' && hue !== 'w') looks.add(hue);
  }
}
