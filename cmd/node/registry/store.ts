/** The store of Distribution as folders: where repositories are, and what unfinished uploads hold. */
import type { Dirent } from 'node:fs';
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { isCode } from '../../../lib/errors.ts';
import type { StoreFiles } from './files.ts';

/** Folders that a name of a repository has at most: names have 255 characters. */
const MAX_DEPTH = 128;

/** Where a store has its blobs and repositories. */
export function rootOf(files: StoreFiles): string {
  return join(files.store, 'docker/registry/v2');
}

/** The folder that a user's repositories are in. */
export function repositoriesOf(files: StoreFiles, owner: string): string {
  return join(rootOf(files), 'repositories', owner);
}

/**
 * The folders of repositories that have this part, of all users, or within the folder `within`. Rejects with the reason
 * of `signal` once it is aborted.
 */
export async function repositoriesWith(
  part: '_manifests' | '_uploads' | '_layers',
  files: StoreFiles,
  signal?: AbortSignal,
  within = join(rootOf(files), 'repositories'),
): Promise<string[]> {
  const walk = async (folder: string, depth: number): Promise<string[]> => {
    signal?.throwIfAborted();
    const inside = await namesIn(folder);
    const found = inside.includes(part) ? [folder] : [];
    if (depth === MAX_DEPTH) return found;
    for (const name of inside) if (!name.startsWith('_')) found.push(...(await walk(join(folder, name), depth + 1)));
    return found;
  };
  return walk(within, 0);
}

/** The folders of uploads that were begun, and not finished; of one user if `owner` is given. */
export async function unfinishedUploads(files: StoreFiles, owner?: string): Promise<string[]> {
  const found: string[] = [];
  const within = owner === undefined ? undefined : repositoriesOf(files, owner);
  for (const repository of await repositoriesWith('_uploads', files, undefined, within)) {
    const uploads = join(repository, '_uploads');
    for (const upload of await namesIn(uploads)) found.push(join(uploads, upload));
  }
  return found;
}

/** Removes these folders. While a registry runs it would write on: what it has open takes room until it ends. */
export async function removeUploads(uploads: readonly string[]): Promise<void> {
  for (const upload of uploads) await rm(upload, { recursive: true, force: true });
}

/** The folders in one; none when it is not there. */
export async function namesIn(folder: string): Promise<string[]> {
  let entries: Dirent[];
  try {
    entries = await readdir(folder, { withFileTypes: true });
  } catch (error) {
    if (isCode(error, 'ENOENT')) return [];
    throw error;
  }
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
}
