/** Which files of a folder look like secrets: by their name, and small texts by what is in them. */
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { EXAMPLE, NO_SECRET, SECRET_FORMS, SECRET_MARK, SECRET_NAMES, SECRET_PATHS } from './secret-forms.ts';

/** Most of a file whose text is looked at, bytes. */
const MOST_FILE = 256 * 1024;
/** Most that is read of a folder for it, bytes, and how long that may take. */
const MOST_READ = 128 * 1024 * 1024;
const MOST_MS = 20_000;
/** Most places of a text that are looked at for each form. */
const MOST_PLACES = 100;
/** A file with a zero in its beginning is no text, as git has it. */
const BEGINNING = 8000;

/** Whether the file's name says that it holds a secret. `path`: from the top of the folder. */
export function isNamedSecret(path: string): boolean {
  const name = path.slice(path.lastIndexOf('/') + 1);
  if (NO_SECRET.test(name)) return false;
  return SECRET_NAMES.some((each) => each.test(name)) || SECRET_PATHS.some((each) => each.test(path));
}

/** What a text holds, and on which line: `a GitHub token`. Undefined: nothing that is known. */
export function secretIn(path: string, text: string): { readonly name: string; readonly line: number } | undefined {
  if (!SECRET_MARK.test(text)) return undefined;
  for (const { name, pattern, only, except, entropy } of SECRET_FORMS) {
    if (only?.test(path) === false || except?.test(path) === true) continue;
    let places = 0;
    for (const { 0: word, index } of text.matchAll(pattern)) {
      if (++places > MOST_PLACES) break;
      if (entropy > 0 && (EXAMPLE.test(word) || bitsOf(word) < entropy)) continue;
      return { name, line: text.slice(0, index).split('\n').length };
    }
  }
  return undefined;
}

/** Bits a character, by how often each is there (Shannon). */
function bitsOf(word: string): number {
  const counts = new Map<string, number>();
  for (const character of word) counts.set(character, (counts.get(character) ?? 0) + 1);
  return [...counts.values()].reduce((sum, count) => sum - (count / word.length) * Math.log2(count / word.length), 0);
}

/** Looks into the files of a folder, up to a bound. */
export class SecretSearch {
  readonly #folder: string;
  readonly #until = performance.now() + MOST_MS;
  #left = MOST_READ;
  /** Files that were not looked at: the bound was reached. */
  unread = 0;

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** What a file holds: `GitHub token in line 3`. Undefined: nothing that is known, or it is no small text. */
  async inFile(path: string, size: number): Promise<string | undefined> {
    if (size === 0 || size > MOST_FILE) return undefined;
    if (this.#left < size || performance.now() > this.#until) {
      this.unread += 1;
      return undefined;
    }
    this.#left -= size;
    const file = await open(join(this.#folder, path));
    try {
      const { buffer, bytesRead } = await file.read({ buffer: Buffer.allocUnsafe(size), position: 0 });
      const bytes = buffer.subarray(0, bytesRead);
      if (bytes.subarray(0, BEGINNING).includes(0)) return undefined;
      const found = secretIn(path, bytes.toString('latin1'));
      return found === undefined ? undefined : `${found.name} in line ${found.line}`;
    } finally {
      await file.close();
    }
  }
}
