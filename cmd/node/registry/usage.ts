/** What of the store a user's repositories hold: each blob once, however many of them have it. */
import { join } from 'node:path';
import type { StoreFiles } from './files.ts';
import { Manifests, otherNames, statIfThere } from './garbage.ts';
import { namesIn, repositoriesOf, repositoriesWith, rootOf, unfinishedUploads } from './store.ts';

/** A file system's clock may tell the times of two files this much apart in the wrong order, ms. */
const SAME_MS = 1000;

/**
 * What no manifest of the user mentions is counted for so long after it was pushed, ms: a collection takes it then, or
 * leaves it to others who need it.
 */
const COUNTED_MS = 24 * 60 * 60_000;

/** See above. In bytes. */
export interface StoreUsage {
  /** Of all blobs, manifests among them. */
  readonly held: number;
  /** Of the manifests alone. */
  readonly manifests: number;
  /** What unfinished uploads have on the disk, by their names. */
  readonly uploads: ReadonlyMap<string, number>;
  /** The digits of what is counted. */
  readonly blobs: ReadonlySet<string>;
}

/** Counts, at `now`. Rejects with an error of the file system. */
export async function usageOf(files: StoreFiles, owner: string, now = Date.now()): Promise<StoreUsage> {
  // First: an upload that is finished meanwhile is counted twice then, and not left out.
  const uploads = new Map<string, number>();
  for (const upload of await unfinishedUploads(files, owner)) {
    const size = (await statIfThere(join(upload, 'data')))?.size ?? 0;
    uploads.set(upload.slice(upload.lastIndexOf('/') + 1), size);
  }
  const root = rootOf(files);
  const folder = repositoriesOf(files, owner);
  const links = new Map<string, string>();
  const manifests = new Set<string>();
  const mentioned = new Set<string>();
  const pushed: string[] = [];
  for (const repository of await repositoriesWith('_manifests', files, undefined, folder)) {
    const revisions = join(repository, '_manifests/revisions/sha256');
    for (const hex of await namesIn(revisions)) {
      const link = join(revisions, hex);
      links.set(hex, link);
      manifests.add(hex);
      if ((await statIfThere(join(link, 'link'))) !== undefined) pushed.push(hex);
    }
  }
  for (const repository of await repositoriesWith('_layers', files, undefined, folder)) {
    const layers = join(repository, '_layers/sha256');
    for (const hex of await namesIn(layers)) links.set(hex, join(layers, hex));
    for (const hex of await otherNames(repository)) mentioned.add(hex);
  }
  // The registry takes a manifest once all that it is made of is linked. Other digests in its text may lead nowhere.
  const known = new Manifests(root, new Map([...links.keys()].map((hex) => [hex, hex])));
  for (const hex of pushed) for (const part of [hex, ...((await known.get(hex))?.mentioned ?? [])]) mentioned.add(part);
  let [held, ofManifests] = [0, 0];
  const blobs = new Set<string>();
  for (const hex of new Set([...links.keys(), ...mentioned])) {
    const blob = await statIfThere(blobFile(files, hex));
    if (blob === undefined) continue;
    if (!mentioned.has(hex) && (await isLeft(links.get(hex), blob.mtimeMs, now))) continue;
    blobs.add(hex);
    held += blob.size;
    if (manifests.has(hex)) ofManifests += blob.size;
  }
  return { held, manifests: ofManifests, uploads, blobs };
}

/** The file of a blob. */
export function blobFile(files: StoreFiles, hex: string): string {
  return join(rootOf(files), 'blobs/sha256', hex.slice(0, 2), hex, 'data');
}

/** Whether a link is only left: it is old, or its blob was collected and is another user's, who pushed it since. */
async function isLeft(folder: string | undefined, pushedMs: number, now: number): Promise<boolean> {
  if (folder === undefined) return false;
  // Distribution leaves the folder of what a client deleted: it takes room until it is collected.
  const link = (await statIfThere(join(folder, 'link'))) ?? (await statIfThere(folder));
  return link !== undefined && (link.mtimeMs < pushedMs - SAME_MS || now - link.mtimeMs >= COUNTED_MS);
}
