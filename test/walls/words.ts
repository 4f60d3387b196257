/**
 * One word for one thing: the glossary of ARCHITECTURE.md names the declaration that each of its words stands for, and
 * words that had several meanings are not used any more.
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
  // What a key is derived by.
  ['proto/gateway/gateway-token.ts', ['vouch']],
]);

/** Files that hold these words to find them. */
const ABOUT_WORDS = /^test\/walls\/words(?:\.test)?\.ts$/;

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
export interface GlossaryRow {
  readonly word: string;
  /** The declaration that the word stands for, and its file. */
  readonly name: string;
  readonly file: string;
}

/** The rows of the glossary in the text of ARCHITECTURE.md. */
export function glossaryOf(architecture: string): GlossaryRow[] {
  const section = architecture.split(/^## /m).find((text) => text.startsWith('Glossary\n')) ?? '';
  return [...section.matchAll(/^\| ([a-z ]+) \|.*\| `(\w+)`, `([\w./-]+)` \|$/gm)].map(
    ([, word = '', name = '', file = '']) => ({ word, name, file }),
  );
}

/** Names that a source text declares at its top. */
export function declaredIn(source: string): string[] {
  const declaration =
    /^(?:export )?(?:abstract )?(?:async )?(?:class|interface|type|function|const) (\w+)(?![^\n]*\bfrom ')/gm;
  return [...source.matchAll(declaration)].map(([, name = '']) => name);
}

/** A word of the glossary as a type and as a function would have it: `EntityKind`, `entityKind`. */
export function namesOf(word: string): string[] {
  const pascal = word.replace(/(?:^| )([a-z])/g, (_, letter: string) => letter.toUpperCase());
  return [pascal, `${pascal.charAt(0).toLowerCase()}${pascal.slice(1)}`];
}
