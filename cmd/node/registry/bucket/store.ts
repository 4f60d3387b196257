/**
 * The store of Distribution in a bucket. What is looked at is listed first, a thousand objects with each request, and
 * answered from the list. The parts of images never change under their digests, so what is known of them is kept.
 */
import { LRUCache } from 'lru-cache';
import type { RegistryBucket } from '../files.ts';
import {
  blobFile,
  blobFolder,
  type ImageStore,
  repositoriesOf,
  repositoriesWith,
  type StoreEntry,
  type StoreView,
  type UnfinishedUpload,
  type ViewOptions,
} from '../image-store.ts';
import { MOST_ANSWER, S3Bucket, type S3Object, type S3Upload } from './s3.ts';
import { ListedTree } from './tree.ts';

const ROOT = 'docker/registry/v2/';
/** Pages that are listed at most: of one user, and of each half of the store. */
const MOST_PAGES = { owner: 100, all: 300 } as const;
/** Texts that are kept, in bytes. */
const KEPT_TEXT = 32 * 2 ** 20;
/** Parts of images whose size is kept. */
const KEPT_SIZES = 100_000;
/** What clients deleted is remembered for a day: then it counts for nobody. */
const NOTED = { max: 10_000, ttl: 24 * 60 * 60_000 } as const;

const LINKED = /\/_(?:layers|manifests\/revisions)\/sha256\/([0-9a-f]{64})(?:\/|$)/;

interface KeptText {
  readonly etag: string;
  readonly text: string;
}

/** See above. */
export class BucketStore implements ImageStore {
  readonly isRemote = true;
  readonly #s3: S3Bucket;
  readonly #texts = new LRUCache<string, KeptText>({
    maxSize: KEPT_TEXT,
    sizeCalculation: ({ text }, path) => text.length + path.length + 1,
  });
  readonly #parts = new LRUCache<string, StoreEntry>({ max: KEPT_SIZES });
  readonly #noted = new LRUCache<string, number>(NOTED);

  constructor(bucket: RegistryBucket) {
    this.#s3 = new S3Bucket(bucket);
  }

  /** Requests that the bucket got so far. */
  get requests(): number {
    return this.#s3.requests;
  }

  async view({ owner, signal }: ViewOptions = {}): Promise<StoreView> {
    const tree = new ListedTree();
    const folders = owner === undefined ? ['repositories', 'blobs'] : [repositoriesOf(owner)];
    const most = owner === undefined ? MOST_PAGES.all : MOST_PAGES.owner;
    const put = (key: string, { bytes, atMs, etag }: S3Object) => {
      const path = ownText(key.slice(ROOT.length));
      // Other links have their digest in their name.
      tree.put(path, { bytes, atMs, etag: path.includes('/_manifests/tags/') ? ownText(etag) : '' });
    };
    await Promise.all(folders.map((folder) => this.#s3.list({ prefix: `${ROOT}${folder}/`, most, signal }, put)));
    for (const folder of this.#noted.keys()) {
      const isSeen = owner === undefined || folder.startsWith(`${repositoriesOf(owner)}/`);
      if (isSeen && tree.at(folder) === undefined) tree.put(folder);
    }
    // Of one user, the parts that their repositories have, without asking for each whether it is there.
    if (owner !== undefined) for (const hex of linkedIn(tree, repositoriesOf(owner))) tree.put(blobFolder(hex));
    return this.#viewOf(tree, owner, signal);
  }

  #viewOf(tree: ListedTree, owner: string | undefined, signal: AbortSignal | undefined): StoreView {
    const isListed = (path: string) => owner === undefined || !path.startsWith('blobs/');
    const look = async (path: string): Promise<StoreEntry | undefined> => {
      const found = tree.at(path);
      if (found !== undefined && !(found instanceof Map)) return found;
      if (found !== undefined) return storedFolder(this.#noted.get(path));
      return isListed(path) ? undefined : this.#look(path, signal);
    };
    const read = async (path: string): Promise<string | undefined> => {
      const object = tree.objectAt(path);
      if (object === undefined && isListed(path)) return undefined;
      if (object !== undefined && object.bytes > MOST_ANSWER) return undefined;
      return this.#read(path, object?.etag, signal);
    };
    return {
      namesIn: async (folder) => tree.foldersIn(folder),
      look,
      read,
      ahead: async (wanted) => {
        const reads = (wanted.read ?? []).map(async (path) => void (await read(path)));
        const looks = (wanted.look ?? []).map(async (path) => void (await look(path)));
        await Promise.all([...reads, ...looks]);
      },
      uploads: () => this.#uploads(tree, owner, signal),
    };
  }

  async sizeOf(hex: string): Promise<number | undefined> {
    return (await this.#look(blobFile(hex), undefined))?.bytes;
  }

  async remove(folders: readonly string[], signal: AbortSignal): Promise<void> {
    await this.#s3.remove(
      folders.map((folder) => `${ROOT}${folder}/${folder.startsWith('blobs/') ? 'data' : 'link'}`),
      signal,
    );
    const gone = new Set(folders.filter((folder) => folder.startsWith('blobs/')));
    for (const folder of gone) {
      this.#parts.delete(`${folder}/data`);
      this.#texts.delete(`${folder}/data`);
    }
    for (const noted of this.#noted.keys()) if (gone.has(blobFolder(noted.slice(-64)))) this.#noted.delete(noted);
  }

  /** A bucket keeps what it answered. */
  async settle(): Promise<void> {}

  async removeUploads(uploads: readonly UnfinishedUpload[]): Promise<void> {
    for (const { folder } of uploads) {
      for (const upload of await this.#s3.uploads(`${ROOT}${folder}/data`)) await this.#s3.abort(upload);
      const keys: string[] = [];
      await this.#s3.list({ prefix: `${ROOT}${folder}/`, most: 1 }, (key) => keys.push(key));
      await this.#s3.remove(keys);
    }
  }

  noteDeleted(folder: string): void {
    this.#noted.set(folder, Date.now());
  }

  async #look(path: string, signal: AbortSignal | undefined): Promise<StoreEntry | undefined> {
    const known = this.#parts.get(path);
    if (known !== undefined) return known;
    const found = await this.#s3.head(`${ROOT}${path}`, signal);
    if (found !== undefined) this.#parts.set(path, found);
    return found;
  }

  /** `etag`: of what was listed; undefined for parts of images, which are always the same. */
  async #read(path: string, etag: string | undefined, signal: AbortSignal | undefined): Promise<string | undefined> {
    const kept = this.#texts.get(path);
    if (kept !== undefined && (path.startsWith('blobs/') || kept.etag === etag)) return kept.text;
    const text = await this.#s3.get(`${ROOT}${path}`, signal);
    if (text !== undefined) this.#texts.set(path, { etag: etag ?? '', text });
    return text;
  }

  async #uploads(
    tree: ListedTree,
    owner: string | undefined,
    signal: AbortSignal | undefined,
  ): Promise<UnfinishedUpload[]> {
    const view = { namesIn: async (folder: string) => tree.foldersIn(folder) };
    const within = owner === undefined ? undefined : repositoriesOf(owner);
    const folders: string[] = [];
    for (const repository of await repositoriesWith(view, '_uploads', signal, within))
      for (const name of tree.foldersIn(`${repository}/_uploads`)) folders.push(`${repository}/_uploads/${name}`);
    const found = await Promise.all(
      folders.map(async (folder) => {
        // Some stores tell of the uploads of one object alone.
        const begun = await this.#s3.uploads(`${ROOT}${folder}/data`, signal);
        return this.#upload(tree, folder, begun, signal);
      }),
    );
    if (owner !== undefined) return found;
    // Distribution forgets an upload without ending it: its parts take room, and no folder tells of them.
    const lost = (await this.#s3.uploads(`${ROOT}repositories/`, signal)).filter(({ key }) => {
      const folder = folderOf(key);
      return folder.includes('/_uploads/') && tree.at(folder) === undefined;
    });
    const rest = await Promise.all(lost.map((upload) => this.#upload(tree, folderOf(upload.key), [upload], signal)));
    return [...found, ...rest];
  }

  async #upload(
    tree: ListedTree,
    folder: string,
    begun: readonly S3Upload[],
    signal: AbortSignal | undefined,
  ): Promise<UnfinishedUpload> {
    const objects = tree.objectsBelow(folder);
    let bytes = tree.objectAt(`${folder}/data`)?.bytes ?? 0;
    let atMs = Math.max(0, ...objects.map((object) => object.atMs), ...begun.map((upload) => upload.atMs));
    for (const upload of begun) {
      const parts = await this.#s3.parts(upload, signal);
      bytes += parts.bytes;
      atMs = Math.max(atMs, parts.atMs);
    }
    return { name: folder.slice(folder.lastIndexOf('/') + 1), folder, bytes, atMs };
  }
}

/** A piece of a text would keep all of the text. */
function ownText(piece: string): string {
  return Buffer.from(piece).toString();
}

/** The folder that an object is in, below the root. */
function folderOf(key: string): string {
  return key.slice(ROOT.length, key.lastIndexOf('/'));
}

function storedFolder(atMs: number | undefined): StoreEntry | undefined {
  return atMs === undefined ? undefined : { bytes: 0, atMs };
}

/** The digits of all that repositories have, or had until a client deleted it. */
function linkedIn(tree: ListedTree, folder: string): Set<string> {
  const found = new Set<string>();
  const waiting = [folder];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const hex = LINKED.exec(next)?.[1];
    if (hex !== undefined) found.add(hex);
    else for (const name of tree.foldersIn(next)) waiting.push(`${next}/${name}`);
  }
  return found;
}
