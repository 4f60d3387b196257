/** The files of a folder that a deployment takes along. */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { lstat, readdir, readlink } from 'node:fs/promises';
import { join, posix } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { ClientFailure } from '../failure.ts';
import { dockerRules, GitRules, rulesOf, textOfRules } from './ignored.ts';
import { isNamedSecret, SecretSearch } from './secrets.ts';

/** A file, or a link; folders come along with what they hold, and empty ones do not. */
export interface FolderFile {
  /** From the folder, with `/`. */
  readonly path: string;
  readonly kind: 'file' | 'link';
  /** Permissions, octal: 644 or 755. */
  readonly mode: string;
  /** Bytes. */
  readonly size: number;
}

/** A file or folder that stays behind. */
export interface LeftFile {
  /** From the folder. */
  readonly path: string;
  /** Of a secret, what was found in it; of a link, where it leads. Undefined: its name says it all. */
  readonly why?: string | undefined;
}

/** What a walk has found. */
interface FolderWalk {
  readonly files: readonly FolderFile[];
  /** What stays behind because it looks like a secret. */
  readonly secrets: readonly LeftFile[];
  /** Links that lead out of the folder, which stay behind. */
  readonly links: readonly LeftFile[];
  /** What stays behind because git or Docker ignores it. */
  readonly ignored: readonly LeftFile[];
  /** Texts that were not searched for secrets, as there were too many. */
  readonly unread: number;
}

interface WalkOptions {
  /** Lines as in .gitignore: what stays, and after `!` what comes although it would stay. */
  readonly exclude: readonly string[];
  /** Takes along what looks like a secret. */
  readonly withSecrets: boolean;
}

/** Most files of a deployment. */
const MOST_FILES = 50_000;

/** Names of what is made anew where the app runs, or is nobody else's business. */
const NEVER = new Set([
  '.git',
  '.hg',
  '.svn',
  'node_modules',
  '.venv',
  'venv',
  '__pycache__',
  '.pytest_cache',
  '.mypy_cache',
  '.DS_Store',
  '.troupeignore',
]);

/** A folder on the way. */
interface Waiting {
  readonly path: string;
  /** A line with `!` named it: what git and Docker say of what is in it does not count. */
  readonly isNamed: boolean;
}

/** Walks a folder. Throws ClientFailure. */
export async function walk(folder: string, { exclude, withSecrets }: WalkOptions): Promise<FolderWalk> {
  const own = rulesOf(exclude);
  const docker = dockerRules(await textOfRules(join(folder, '.dockerignore')));
  const git = new GitRules(folder);
  const search = new SecretSearch(folder);
  const files: FolderFile[] = [];
  const [secrets, links, ignored]: [LeftFile[], LeftFile[], LeftFile[]] = [[], [], []];
  const waiting: Waiting[] = [{ path: '', isNamed: false }];
  for (let at = waiting.pop(); at !== undefined; at = waiting.pop()) {
    const entries = await readdir(join(folder, at.path), { withFileTypes: true });
    await git.enter(at.path, new Set(entries.map(({ name }) => name)));
    for (const entry of entries) {
      const path = at.path === '' ? entry.name : `${at.path}/${entry.name}`;
      const isFolder = entry.isDirectory();
      const word = NEVER.has(entry.name) ? 'stays' : own(path, isFolder);
      if (word === 'stays') continue;
      if (/[\n\r\\]/.test(path))
        throw new ClientFailure('usage', `${JSON.stringify(path)} has a name that cannot be deployed: exclude it.`);
      const isNamed = at.isNamed || word === 'comes';
      const isIgnored = !isNamed && (git.stays(path, isFolder) || docker.stays(path));
      if (isFolder) {
        // Docker takes a file along that an exception names in a folder that stays.
        if (!isIgnored || (docker.hasExceptions && !git.stays(path, true))) waiting.push({ path, isNamed });
        else ignored.push({ path });
      } else if (entry.isFile() && word !== 'comes' && isNamedSecret(path)) {
        // Those are asked for by --with-secrets, also where git ignores them.
        if (withSecrets) files.push(await fileOf(folder, path));
        else secrets.push({ path });
      } else if (isIgnored) ignored.push({ path });
      else if (entry.isSymbolicLink()) {
        const target = await readlink(join(folder, path));
        if (await leadsOut(path, target)) links.push({ path, why: target });
        else files.push({ path, kind: 'link', mode: '777', size: 0 });
      } else if (entry.isFile()) {
        const file = await fileOf(folder, path);
        const why = withSecrets || word === 'comes' ? undefined : await search.inFile(path, file.size);
        if (why === undefined) files.push(file);
        else secrets.push({ path, why });
      }
      if (files.length > MOST_FILES)
        throw new ClientFailure(
          'usage',
          `The folder has more than ${MOST_FILES} files. Name what stays behind in .troupeignore.`,
        );
    }
  }
  const byPath = (a: LeftFile, b: LeftFile) => (a.path < b.path ? -1 : 1);
  for (const list of [files, secrets, links, ignored]) list.sort(byPath);
  return { files, secrets, links, ignored, unread: search.unread };
}

async function fileOf(folder: string, path: string): Promise<FolderFile> {
  const { mode, size } = await lstat(join(folder, path));
  return { path, kind: 'file', mode: mode & 0o100 ? '755' : '644', size };
}

/**
 * Whether a link leads to what is not sent. An absolute path that is not on this machine is one of the container, such
 * as /root/data.
 */
async function leadsOut(path: string, target: string): Promise<boolean> {
  if (!target.startsWith('/')) return climbsOut(path, target);
  return lstat(target).then(
    () => true,
    () => false,
  );
}

const climbsOut = (path: string, target: string) =>
  !target.startsWith('/') && /^\.\.(\/|$)/.test(posix.join(posix.dirname(path), target));

/** Relative links that lead out of a folder. An engine refuses an archive that has one. */
export async function linksOut(folder: string): Promise<LeftFile[]> {
  const links: LeftFile[] = [];
  const waiting = [''];
  for (let at = waiting.pop(); at !== undefined; at = waiting.pop())
    for (const entry of await readdir(join(folder, at), { withFileTypes: true })) {
      const path = posix.join(at, entry.name);
      if (entry.isDirectory()) waiting.push(path);
      if (!entry.isSymbolicLink()) continue;
      const why = await readlink(join(folder, path));
      if (climbsOut(path, why)) links.push({ path, why });
    }
  return links;
}

/** A line for each file, by which its content is known: `MODE SHA256  PATH`. */
export async function manifestOf(folder: string, files: readonly FolderFile[]): Promise<string> {
  const lines: string[] = [];
  for (const { path, kind, mode } of files) {
    if (kind === 'link') continue;
    const hash = createHash('sha256');
    await pipeline(createReadStream(join(folder, path)), hash);
    lines.push(`${mode} ${hash.digest('hex')}  ${path}`);
  }
  // As comm(1) wants it in the C locale: by bytes.
  lines.sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  return lines.map((line) => `${line}\n`).join('');
}
