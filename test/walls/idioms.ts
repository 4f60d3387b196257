/** How a line is written (CONTRIBUTING.md, idioms), as far as a pattern can tell. */

const MAX_COLUMNS = 120;

interface Idiom {
  readonly pattern: RegExp;
  readonly message: string;
  /** Folders where it is written otherwise: in classes made by the million, whose change has to be measured first. */
  readonly except?: RegExp;
}

/** X11 is a window system. */
const CITATION: Idiom = {
  pattern: /\bdesign\.md\b|\binterface,? \(?sections? \d|\bhazards? [A-Z]\d\d|\b(?!X11\b)[ACHKLMNSTWX]\d\d\b/,
  message: 'cites a document that the project does not hold: say the rule itself',
};

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
  CITATION,
  {
    pattern: /^(?:export )?const [a-z]\w* = (?:-?\d[\d_.]*|'[^']*'|"[^"]*"|`[^`$]*`|\/[^/*].*\/[a-z]*);/,
    message: 'has a constant in small letters: write NAME_OF_IT',
  },
];

/** Of tests and benchmarks. */
const TEST_IDIOMS: readonly Idiom[] = [
  CITATION,
  {
    pattern: /\bsetTimeout\b.*'node:timers\/promises'|\bsetTimeout\((?:resolve|done|r)\b|new Promise.*\bsetTimeout\(/,
    message: 'waits for time: wait for a condition (until), or say with pause() why time is the subject',
    except: /^bench\/|^test\/support\/(?:pause|until)\.ts$/,
  },
];

/** A line that is written otherwise, from 1, and how. */
export interface OddLine {
  readonly line: number;
  readonly message: string;
}

/** The lines of a source file (`file`: path from the root, with `/`) that are not as others. */
export function oddLines(file: string, source: string): OddLine[] {
  // What holds the rules writes down what they forbid.
  if (file.startsWith('test/walls/')) return [];
  const idioms = (/^(test|bench)\//.test(file) ? TEST_IDIOMS : IDIOMS).filter(({ except }) => !except?.test(file));
  return source
    .split('\n')
    .flatMap((text, at) =>
      idioms.filter(({ pattern }) => pattern.test(text)).map(({ message }) => ({ line: at + 1, message })),
    );
}
