/** How a line of the product is written (CONTRIBUTING.md, idioms), as far as a pattern can tell. */

const MAX_COLUMNS = 120;

interface Idiom {
  readonly pattern: RegExp;
  readonly message: string;
  /** Folders where it is written otherwise: in classes made by the million, whose change has to be measured first. */
  readonly except?: RegExp;
}

const IDIOMS: readonly Idiom[] = [
  {
    pattern: new RegExp(`^.{${MAX_COLUMNS + 1},}$`),
    message: `is longer than ${MAX_COLUMNS} columns`,
  },
  {
    pattern: /(?<![.\w'"`])\.\.\.\{(?!\s*\})/,
    message: 'spreads an object literal: write its members one by one',
  },
  {
    pattern: /^\s+private (?!constructor)/,
    message: 'has a private member: write #name',
    except: /^supervision\//,
  },
  {
    pattern: /\bdesign\.md\b|\binterface,? sections? \d|\bhazards? [A-Z]\d\d/,
    message: 'cites a document that the project does not hold: say the rule itself',
  },
  {
    pattern: /^(?:export )?const [a-z]\w* = (?:-?\d[\d_.]*|'[^']*'|"[^"]*"|`[^`$]*`|\/[^/*].*\/[a-z]*);/,
    message: 'has a constant in small letters: write NAME_OF_IT',
  },
];

/** A line that is written otherwise, from 1, and how. */
export interface OddLine {
  readonly line: number;
  readonly message: string;
}

/** The lines of a source file of the product (`file`: path from the root, with `/`) that are not as others. */
export function oddLines(file: string, source: string): OddLine[] {
  if (/^(test|bench)\//.test(file)) return [];
  const idioms = IDIOMS.filter(({ except }) => !except?.test(file));
  return source
    .split('\n')
    .flatMap((text, at) =>
      idioms.filter(({ pattern }) => pattern.test(text)).map(({ message }) => ({ line: at + 1, message })),
    );
}
