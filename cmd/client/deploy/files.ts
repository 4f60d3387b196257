/** The files of a folder that a deployment takes along. */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { lstat, open, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { ClientFailure } from '../failure.ts';

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

/** What a walk has found. */
interface FolderWalk {
  readonly files: readonly FolderFile[];
  /** What stays behind because it looks like a secret. */
  readonly secrets: readonly string[];
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
const SECRET_NAMES = [/^\.env(\..*)?$/, /^id_(rsa|dsa|ecdsa|ed25519)$/, /\.(pem|key|p12|pfx)$/];
/** Examples are no secrets. */
const NO_SECRET = /^\.env\.(example|sample|template)$/;
/** A private key begins with this, whatever its file is called (RFC 7468). */
const PRIVATE_KEY = /-----BEGIN [A-Z ]*PRIVATE KEY-----/;
const KEY_BYTES = 4096;

/**
 * A pattern of `exclude` or .troupeignore as a test of a path: `name` at any depth, `folder/file` from the top; `*` is
 * any text without `/`, `**` any text.
 */
export function excluding(patterns: readonly string[]): (path: string) => boolean {
  const tests = patterns
    .map((pattern) => pattern.trim().replace(/\/$/, ''))
    .filter((pattern) => pattern !== '' && !pattern.startsWith('#'))
    .map((pattern) => {
      const isAnywhere = !pattern.includes('/');
      const text = pattern
        .replace(/^\//, '')
        .replace(/[.+?^${}()|[\]\\]/g, '\\$&')
        .replace(/\*+/g, (stars) => (stars.length > 1 ? '.*' : '[^/]*'));
      return new RegExp(`^${isAnywhere ? '(?:.*/)?' : ''}${text}(?:/.*)?$`, 'su');
    });
  return (path) => tests.some((test) => test.test(path));
}

/** Walks a folder. `withSecrets`: takes along what looks like a secret. Throws ClientFailure. */
export async function walk(
  folder: string,
  { exclude, withSecrets }: { readonly exclude: readonly string[]; readonly withSecrets: boolean },
): Promise<FolderWalk> {
  const isExcluded = excluding(exclude);
  const files: FolderFile[] = [];
  const secrets: string[] = [];
  const waiting = [''];
  for (let at = waiting.pop(); at !== undefined; at = waiting.pop()) {
    for (const entry of await readdir(join(folder, at), { withFileTypes: true })) {
      const path = at === '' ? entry.name : `${at}/${entry.name}`;
      if (NEVER.has(entry.name) || isExcluded(path)) continue;
      if (/[\n\r\\]/.test(path))
        throw new ClientFailure('usage', `${JSON.stringify(path)} has a name that cannot be deployed: exclude it.`);
      if (entry.isDirectory()) waiting.push(path);
      else if (entry.isSymbolicLink()) files.push({ path, kind: 'link', mode: '777', size: 0 });
      else if (entry.isFile()) {
        const { mode, size } = await lstat(join(folder, path));
        if (!withSecrets && (await isSecret(join(folder, path), entry.name, size))) secrets.push(path);
        else files.push({ path, kind: 'file', mode: mode & 0o100 ? '755' : '644', size });
      }
      if (files.length > MOST_FILES)
        throw new ClientFailure(
          'usage',
          `The folder has more than ${MOST_FILES} files. Name what stays behind in .troupeignore.`,
        );
    }
  }
  files.sort((a, b) => (a.path < b.path ? -1 : 1));
  return { files, secrets: secrets.sort() };
}

async function isSecret(path: string, name: string, size: number): Promise<boolean> {
  if (NO_SECRET.test(name)) return false;
  if (SECRET_NAMES.some((pattern) => pattern.test(name))) return true;
  // A private key is some kilobytes at most.
  if (size === 0 || size > 4 * KEY_BYTES || /\.(js|ts|py|md|html|sh|txt|json)$/.test(name)) return false;
  const file = await open(path);
  try {
    const { buffer, bytesRead } = await file.read({ buffer: Buffer.alloc(KEY_BYTES), position: 0 });
    return PRIVATE_KEY.test(buffer.toString('latin1', 0, bytesRead));
  } finally {
    await file.close();
  }
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
