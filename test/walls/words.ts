/**
 * One word for one thing: the glossary of ARCHITECTURE.md names the file that defines each of its terms, and words that
 * had several meanings are not used any more.
 */

/** Words that are gone, in any form of an identifier or a sentence, and what is said instead. */
const FORMER_WORDS: ReadonlyMap<string, string> = new Map([
  ['desk', 'pool, or the name of what answers'],
  ['door', 'listener, admission, entry or entities'],
  ['doorkeeper', 'admission'],
  ['farewell', 'close reason'],
  ['hearsay', 'peer hint'],
  ['heed', 'apply'],
  ['janitor', 'retention'],
  ['kin', 'spawn site'],
  ['leaver', 'offboarded user'],
  ['manners', 'style'],
  ['seat', 'quota'],
  ['seated', 'counted'],
  ['vouch', 'sign, or gateway token'],
]);

/** Whole identifiers that are gone, whose words alone mean something. */
const FORMER_NAMES: ReadonlyMap<string, string> = new Map([
  ['lastWords', 'lastLines'],
  ['letGo', 'cancelJob'],
  ['lookAgain', 'reconcileAgain'],
  ['lookIn', 'reconcileIn'],
  ['relayOnce', 'startOutboxRelay'],
  ['startOnce', 'startSingleton'],
]);

/** Where a former word stays, since others know it by that. */
const KEPT: ReadonlyMap<string, readonly string[]> = new Map([
  // Names between nodes of different versions.
  ['actors/notify/connection-quota.ts', ['seat', 'seated']],
  // The name of a view, which a migration gave.
  ['storage/gateway/ssh-access.ts', ['door']],
  ['storage/ownership.ts', ['door']],
  ['storage/rights.ts', ['door']],
  ['test/gateway/ssh-control.test.ts', ['door']],
  // What a key is derived by.
  ['proto/gateway/gateway-token.ts', ['vouch']],
]);

/** Files that hold these words to find them, and a list of passwords. */
const ABOUT_WORDS = /^(?:test\/walls\/words(?:\.test)?|proto\/auth\/common-passwords)\.ts$/;

/** A former word, by its line from 1. */
export interface FormerWord {
  readonly line: number;
  readonly message: string;
}

/** The former words of a text (`file`: path from the root, with `/`), and of the path itself. */
export function formerWords(file: string, text: string): FormerWord[] {
  if (ABOUT_WORDS.test(file)) return [];
  const kept = KEPT.get(file) ?? [];
  return [file, ...text.split('\n')].flatMap((line, at) =>
    [...new Set(wordsOf(line))]
      .filter((word) => !kept.includes(word))
      .flatMap((word) => {
        const instead = FORMER_WORDS.get(word) ?? FORMER_NAMES.get(word);
        return instead === undefined ? [] : [{ line: Math.max(1, at), message: `says ${word}: say ${instead}` }];
      }),
  );
}

/** Identifiers as they are, and their words in small letters, without a plural or a verb's ending. */
function wordsOf(line: string): string[] {
  const names = line.match(/[A-Za-z]+/g) ?? [];
  return names.flatMap((name) => {
    const words = name
      .replace(/([a-z])([A-Z])/g, '$1 $2')
      .toLowerCase()
      .split(' ');
    return [name, ...words, ...words.map((word) => word.replace(/(?:(?<=ch)es|(?<!s)s|ed)$/, ''))];
  });
}

/** A row of the glossary. */
interface GlossaryRow {
  /** The word as it is, and in brackets the subject where it has two: `snapshot (gateway)`. */
  readonly term: string;
  readonly word: string;
  readonly file: string;
}

/** The rows of the glossary in the text of ARCHITECTURE.md. */
export function glossaryOf(architecture: string): GlossaryRow[] {
  const section = architecture.split(/^## /m).find((text) => text.startsWith('Glossary\n')) ?? '';
  return [...section.matchAll(/^\| (?!term )(([\w ]+?)(?: \(\w+\))?) \|.*\| `([\w./-]+)` \|$/gm)].map(
    ([, term = '', word = '', file = '']) => ({ term, word, file }),
  );
}

/** Types, classes and exported functions that a source text declares at its top; not the makers of a type of the name. */
export function declaredIn(source: string): string[] {
  const types = [...source.matchAll(/^(?:export )?(?:abstract )?(?:class|interface|type) (\w+)/gm)];
  const functions = [...source.matchAll(/^export (?:async )?function (\w+)(.*)/gm)].filter(
    ([, name = '', rest = '']) => !rest.toLowerCase().includes(`: ${name.toLowerCase()} `),
  );
  return [...types, ...functions].map(([, name = '']) => name);
}

/** A term as a type and as a function would have it: `DeadLetter`, `deadLetter`. */
export function namesOf(word: string): string[] {
  const pascal = word.replace(/(?:^| )([A-Za-z])/g, (_, letter: string) => letter.toUpperCase());
  return [pascal, `${pascal.charAt(0).toLowerCase()}${pascal.slice(1)}`];
}
