/**
 * Where the images of a registry are, as Distribution keeps them: in a folder of this machine (store.ts), or in a
 * bucket (bucket/store.ts). Paths are those below `docker/registry/v2` there, such as `repositories/ann/app`.
 */

/** The store is elsewhere, and does not answer, or not as it should. */
export class StoreAway extends Error {
  override readonly name = 'StoreAway';
}

/** It has more than is looked at. */
export class StoreTooLarge extends Error {
  override readonly name = 'StoreTooLarge';
}

/** What is there under a path. A folder has no bytes. */
export interface StoreEntry {
  readonly bytes: number;
  /** When it was written last, as `Date.now()` says. */
  readonly atMs: number;
}

/** An upload that was begun, and is not finished. */
export interface UnfinishedUpload {
  /** As its requests name it. */
  readonly name: string;
  readonly folder: string;
  readonly bytes: number;
  /** Of its last byte. */
  readonly atMs: number;
}

/** What is seen of a store. All reject when it cannot be read. */
export interface StoreView {
  /** The folders in one; none when it is not there. */
  namesIn(folder: string): Promise<readonly string[]>;
  /** The text of a file; undefined when it is not there. */
  read(path: string): Promise<string | undefined>;
  /** Undefined when it is not there. */
  look(path: string): Promise<StoreEntry | undefined>;
  /** Unfinished uploads. */
  uploads(): Promise<readonly UnfinishedUpload[]>;
  /** Says what will be read, and looked at, one by one: several at a time cost less where each takes a while. */
  ahead(wanted: { readonly read?: readonly string[]; readonly look?: readonly string[] }): Promise<void>;
}

/** What is to be seen. */
export interface ViewOptions {
  /** This user's repositories alone, and the parts of images that these have; not which others have them, too. */
  readonly owner?: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** See above. */
export interface ImageStore {
  /** Whether each look takes a while, and costs something. */
  readonly isRemote: boolean;
  view(options?: ViewOptions): Promise<StoreView>;
  /** The size of one part of images, by its digits; undefined when it is not there. */
  sizeOf(hex: string): Promise<number | undefined>;
  /** Removes folders; `signal` ends it between two. */
  remove(folders: readonly string[], signal: AbortSignal): Promise<void>;
  /** What was removed does not come back when the machine loses power. */
  settle(folders: readonly string[]): Promise<void>;
  removeUploads(uploads: readonly UnfinishedUpload[]): Promise<void>;
  /** Somebody had Distribution delete what is in this folder, which takes room until it is collected. */
  noteDeleted(folder: string): void;
}

/** The folder of a part of images, and its file. */
export function blobFolder(hex: string): string {
  return `blobs/sha256/${hex.slice(0, 2)}/${hex}`;
}

/** See `blobFolder`. */
export function blobFile(hex: string): string {
  return `${blobFolder(hex)}/data`;
}

/** Folders that a name of a repository has at most: names have 255 characters. */
const MAX_DEPTH = 128;

/** The folder of a tag in the folder of a repository. */
export function tagFolder(repository: string, tag: string): string {
  return `${repository}/_manifests/tags/${tag}`;
}

/** The folder that a user's repositories are in. */
export function repositoriesOf(owner: string): string {
  return `repositories/${owner}`;
}

/**
 * The folders of repositories that have this part, of all users, or within the folder `within`. Rejects with the reason
 * of `signal` once it is aborted.
 */
export async function repositoriesWith(
  view: Pick<StoreView, 'namesIn'>,
  part: '_manifests' | '_uploads' | '_layers',
  signal?: AbortSignal,
  within = 'repositories',
): Promise<string[]> {
  const walk = async (folder: string, depth: number): Promise<string[]> => {
    signal?.throwIfAborted();
    const inside = await view.namesIn(folder);
    const found = inside.includes(part) ? [folder] : [];
    if (depth === MAX_DEPTH) return found;
    for (const name of inside) if (!name.startsWith('_')) found.push(...(await walk(`${folder}/${name}`, depth + 1)));
    return found;
  };
  return walk(within, 0);
}
