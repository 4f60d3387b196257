/** The store of Distribution as folders of this machine. */
import type { Dirent } from 'node:fs';
import { open, readdir, readFile, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { isCode } from '../../../lib/errors.ts';
import type { StoreFiles } from './files.ts';
import {
  blobFile,
  type ImageStore,
  repositoriesOf,
  repositoriesWith,
  type StoreEntry,
  type StoreView,
  type UnfinishedUpload,
} from './image-store.ts';

/** Where a store has its blobs and repositories. */
function rootOf(files: StoreFiles): string {
  return join(files.store, 'docker/registry/v2');
}

/** The images of a folder. Nothing is kept of what was seen: a look is at the folder as it is then. */
export function folderStore(files: StoreFiles): ImageStore {
  const root = rootOf(files);
  const seen = {
    namesIn: (folder: string) => foldersIn(join(root, folder)),
    read: (path: string) => readIfThere(join(root, path)),
    look: (path: string) => lookAt(join(root, path)),
    ahead: async () => {},
  };
  const viewOf = (owner: string | undefined): StoreView => ({ ...seen, uploads: () => uploadsIn(root, seen, owner) });
  return {
    isRemote: false,
    view: async ({ owner } = {}) => viewOf(owner),
    sizeOf: async (hex) => (await seen.look(blobFile(hex)))?.bytes,
    remove: async (folders, signal) => {
      for (const folder of folders) {
        signal.throwIfAborted();
        await rm(join(root, folder), { recursive: true, force: true });
      }
    },
    settle: async (folders) => {
      for (const folder of new Set(folders.map(dirname))) await settle(join(root, folder));
    },
    removeUploads: (uploads) => removeUploads(uploads.map(({ folder }) => join(root, folder))),
    // Its folder stays.
    noteDeleted: () => {},
  };
}

/** The folders of uploads that were begun, and not finished. */
export async function unfinishedUploads(files: StoreFiles): Promise<string[]> {
  const root = rootOf(files);
  const view = { namesIn: (folder: string) => foldersIn(join(root, folder)) };
  return (await uploadFolders(view, undefined)).map((folder) => join(root, folder));
}

/** Removes these folders. While a registry runs it would write on: what it has open takes room until it ends. */
export async function removeUploads(uploads: readonly string[]): Promise<void> {
  for (const upload of uploads) await rm(upload, { recursive: true, force: true });
}

async function uploadFolders(view: Pick<StoreView, 'namesIn'>, owner: string | undefined): Promise<string[]> {
  const found: string[] = [];
  const within = owner === undefined ? undefined : repositoriesOf(owner);
  for (const repository of await repositoriesWith(view, '_uploads', undefined, within)) {
    const uploads = `${repository}/_uploads`;
    for (const upload of await view.namesIn(uploads)) found.push(`${uploads}/${upload}`);
  }
  return found;
}

async function uploadsIn(
  root: string,
  view: Pick<StoreView, 'namesIn'>,
  owner: string | undefined,
): Promise<UnfinishedUpload[]> {
  const found: UnfinishedUpload[] = [];
  for (const folder of await uploadFolders(view, owner)) {
    const at = join(root, folder);
    const own = await lookAt(at);
    // It ended meanwhile.
    if (own === undefined) continue;
    const times = [own.atMs];
    let bytes = 0;
    for (const name of await filesIn(at)) {
      const file = await lookAt(join(at, name));
      if (file !== undefined) times.push(file.atMs);
      if (name === 'data') bytes = file?.bytes ?? 0;
    }
    found.push({ name: folder.slice(folder.lastIndexOf('/') + 1), folder, bytes, atMs: Math.max(...times) });
  }
  return found;
}

async function foldersIn(folder: string): Promise<string[]> {
  let entries: Dirent[];
  try {
    entries = await readdir(folder, { withFileTypes: true });
  } catch (error) {
    if (isCode(error, 'ENOENT')) return [];
    throw error;
  }
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
}

/** What is in a folder; nothing when it is gone: uploads end while it is looked at what may go. */
async function filesIn(folder: string): Promise<string[]> {
  try {
    return await readdir(folder);
  } catch (error) {
    if (isCode(error, 'ENOENT')) return [];
    throw error;
  }
}

async function readIfThere(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if (isCode(error, 'ENOENT')) return undefined;
    throw error;
  }
}

async function lookAt(path: string): Promise<StoreEntry | undefined> {
  try {
    const found = await stat(path);
    return { bytes: found.isFile() ? found.size : 0, atMs: found.mtimeMs };
  } catch (error) {
    if (isCode(error, 'ENOENT')) return undefined;
    throw error;
  }
}

/** Has the disk keep what was removed from a folder. */
async function settle(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
