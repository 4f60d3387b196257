/** What stays at home because the folder's own rules say so: git's, `.dockerignore`, and those of the deployment. */
import { execFile } from 'node:child_process';
import { readFile, stat } from 'node:fs/promises';
import { join, posix } from 'node:path';
import { promisify } from 'node:util';
import ignore from 'ignore';
import { ClientFailure } from '../failure.ts';

const run = promisify(execFile);

/** What a rule says of a path: it stays, it comes whatever others say, or nothing. */
type Word = 'stays' | 'comes' | undefined;
/** `path`: from the folder of the rules, with `/`. */
type IgnoreRule = (path: string, isFolder: boolean) => Word;

/** Most that is read of a file of rules, bytes. */
const MOST_RULES = 1024 * 1024;
/** Most that git may list, bytes, and how long it may take. */
const MOST_LISTED = 64 * 1024 * 1024;
const GIT_MS = 30_000;
/** What a hook of git says of its own repository. */
const OF_ANOTHER = /^GIT_(?!CONFIG_|CEILING_DIRECTORIES)/;

/** Lines as gitignore(5) has them: those of .troupeignore and `exclude`. */
export function rulesOf(lines: readonly string[]): IgnoreRule {
  const rules = ignore({ ignorecase: false }).add(lines.map((line) => line.trimStart()).join('\n'));
  return (path, isFolder) => {
    const { ignored, unignored } = rules.test(isFolder ? `${path}/` : path);
    if (ignored) return 'stays';
    return unignored ? 'comes' : undefined;
  };
}

/**
 * What git ignores in a folder. In a work tree git itself is asked: what it tracks is not ignored. Elsewhere, and
 * without git, the `.gitignore` files of the folder count. So they do where git ignores the folder as a whole: whoever
 * names it wants what is in it.
 */
export class GitRules {
  readonly #root: string;
  /** Repositories, by their folder: whether git said what it ignores there. */
  readonly #repositories = new Map<string, boolean>();
  /** What it said. A folder stands for all in it. */
  readonly #ignored = new Set<string>();
  /** The rules of `.gitignore` files, by their folder. */
  readonly #files = new Map<string, IgnoreRule>();

  constructor(root: string) {
    this.#root = root;
  }

  /** Reads what holds below a folder, whose `names` are given. Called for it before it is asked for what is in it. */
  async enter(folder: string, names: ReadonlySet<string>): Promise<void> {
    if (folder === '' || names.has('.git')) {
      const listed = await ignoredByGit(join(this.#root, folder));
      this.#repositories.set(folder, listed !== undefined);
      for (const path of listed ?? []) this.#ignored.add(posix.join(folder, path));
    }
    if (!names.has('.gitignore')) return;
    const isKnown = [folder, ...foldersOf(folder)].map((each) => this.#repositories.get(each));
    if (isKnown.find((each) => each !== undefined)) return;
    const text = await textOfRules(join(this.#root, folder, '.gitignore'));
    this.#files.set(folder, rulesOf(text.split(/\r?\n/)));
  }

  /** Whether it is ignored. */
  stays(path: string, isFolder: boolean): boolean {
    if (this.#ignored.has(path)) return true;
    for (const folder of foldersOf(path)) {
      const word = this.#files.get(folder)?.(folder === '' ? path : path.slice(folder.length + 1), isFolder);
      if (word !== undefined) return word === 'stays';
    }
    return false;
  }
}

/** The folders that a path is in, from the nearest to the top. */
function foldersOf(path: string): string[] {
  const folders: string[] = [];
  for (let at = path.lastIndexOf('/'); at > 0; at = path.lastIndexOf('/', at - 1)) folders.push(path.slice(0, at));
  return path === '' ? [] : [...folders, ''];
}

/** What git ignores in a folder, from there; undefined where it does not say it. */
async function ignoredByGit(folder: string): Promise<string[] | undefined> {
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !OF_ANOTHER.test(name)));
  const git = (...words: string[]) =>
    // A repository's settings may name a program to be run.
    run('git', ['-C', folder, '-c', 'core.fsmonitor=false', ...words], {
      env: { ...env, GIT_OPTIONAL_LOCKS: '0' },
      maxBuffer: MOST_LISTED,
      timeout: GIT_MS,
    });
  // 0: the folder is ignored as a whole; 1: it is not; else git has no say there.
  const code = await git('check-ignore', '-q', '.').then(
    () => 0,
    (error: unknown) => (error instanceof Error && 'code' in error ? error.code : undefined),
  );
  if (code !== 1) return undefined;
  const listed = await git('ls-files', '--others', '--ignored', '--exclude-standard', '--directory', '-z').catch(
    () => undefined,
  );
  return listed?.stdout
    .split('\0')
    .filter((path) => path !== '')
    .map((path) => path.replace(/\/$/, ''));
}

/** A file of rules as a text; empty if there is none. Throws ClientFailure for one that is too large. */
export async function textOfRules(path: string): Promise<string> {
  const found = await stat(path).catch(() => undefined);
  if (!found?.isFile()) return '';
  if (found.size > MOST_RULES) throw new ClientFailure('usage', `${path} is larger than 1 MiB.`);
  return readFile(path, 'utf8');
}

/** What `.dockerignore` leaves out. */
interface DockerRules {
  /** Of a path from the top. */
  stays(path: string): boolean;
  /** Whether a file may come that is in a folder which stays. */
  readonly hasExceptions: boolean;
}

/** The rules of a `.dockerignore`: from the top of the folder, the last that fits (github.com/moby/patternmatcher). */
export function dockerRules(text: string): DockerRules {
  const rules = text
    .replace(/^\uFEFF/, '')
    .split(/\r?\n/)
    .filter((line) => !line.startsWith('#'))
    .map((line) => line.trim())
    .map((line) => ({ isException: line.startsWith('!'), pattern: line.replace(/^!\s*/, '') }))
    .map(({ isException, pattern }) => ({
      isException,
      pattern: pattern === '' ? '' : posix.normalize(pattern).replace(/^\/+|\/+$/g, ''),
    }))
    .filter(({ pattern }) => pattern !== '' && pattern !== '.')
    .map(({ isException, pattern }) => ({ isException, test: dockerPattern(pattern) }));
  return {
    hasExceptions: rules.some(({ isException }) => isException),
    stays: (path) => rules.findLast(({ test }) => test.test(path))?.isException === false,
  };
}

/** `*`, `?` and `[...]` are within a name, `**` is any number of folders; what fits a folder fits all in it. */
function dockerPattern(pattern: string): RegExp {
  const text = pattern.replace(/\*\*\/?|\[\^?[^\]]+\]|\\.|[*?.+()[\]{}|$^]/gsu, (part, at: number) => {
    if (part.startsWith('**')) return at + part.length === pattern.length ? '.*' : '(?:.*/)?';
    if (part.startsWith('[') && part.length > 1) return part;
    if (part === '*' || part === '?') return `[^/]${part === '*' ? '*' : ''}`;
    return part.slice(-1).replace(/[\\^$.*+?()[\]{}|/]/, '\\$&');
  });
  try {
    return new RegExp(`^${text}(?:/.*)?$`, 'su');
  } catch (cause) {
    throw new ClientFailure('usage', `.dockerignore has a pattern that cannot be read: ${pattern}`, { cause });
  }
}
