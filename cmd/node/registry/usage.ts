/** What of the store a user's repositories hold: each blob once, however many of them have it. */
import { Manifests, otherNames } from './garbage.ts';
import {
  blobFile,
  type ImageStore,
  repositoriesOf,
  repositoriesWith,
  type StoreView,
  tagFolder,
} from './image-store.ts';

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
  /** The folders of all repositories. */
  readonly repositories: ReadonlySet<string>;
  /** The folders of all tags. */
  readonly tags: ReadonlySet<string>;
  /** The digits of what is counted. */
  readonly blobs: ReadonlySet<string>;
}

/** Counts, at `now`. Rejects when the store cannot be read. */
export async function usageOf(
  store: ImageStore,
  owner: string,
  now = Date.now(),
  signal?: AbortSignal,
): Promise<StoreUsage> {
  const view = await store.view({ owner, signal });
  // First: an upload that is finished meanwhile is counted twice then, and not left out.
  const unfinished = await view.uploads();
  const uploads = new Map(unfinished.map(({ name, bytes }) => [name, bytes]));
  const repositories = new Set(unfinished.map((upload) => upload.folder.replace(/\/_uploads\/.*$/, '')));
  const tags = new Set<string>();
  const folder = repositoriesOf(owner);
  const links = new Map<string, string>();
  const manifests = new Set<string>();
  const mentioned = new Set<string>();
  const pushed: string[] = [];
  for (const repository of await repositoriesWith(view, '_manifests', undefined, folder)) {
    const revisions = `${repository}/_manifests/revisions/sha256`;
    repositories.add(repository);
    for (const tag of await view.namesIn(`${repository}/_manifests/tags`)) tags.add(tagFolder(repository, tag));
    for (const hex of await view.namesIn(revisions)) {
      const link = `${revisions}/${hex}`;
      links.set(hex, link);
      manifests.add(hex);
      if ((await view.look(`${link}/link`)) !== undefined) pushed.push(hex);
    }
  }
  for (const repository of await repositoriesWith(view, '_layers', undefined, folder)) {
    const layers = `${repository}/_layers/sha256`;
    repositories.add(repository);
    for (const hex of await view.namesIn(layers)) links.set(hex, `${layers}/${hex}`);
    for (const hex of await otherNames(view, repository)) mentioned.add(hex);
  }
  // The registry takes a manifest once all that it is made of is linked. Other digests in its text may lead nowhere.
  const known = new Manifests(view, new Map([...links.keys()].map((hex) => [hex, hex])));
  await view.ahead({ read: pushed.map(blobFile) });
  for (const hex of pushed) for (const part of [hex, ...((await known.get(hex))?.mentioned ?? [])]) mentioned.add(part);
  let [held, ofManifests] = [0, 0];
  const blobs = new Set<string>();
  const all = new Set([...links.keys(), ...mentioned]);
  await view.ahead({ look: [...all].map(blobFile) });
  for (const hex of all) {
    const blob = await view.look(blobFile(hex));
    if (blob === undefined) continue;
    if (!mentioned.has(hex) && (await isLeft(view, links.get(hex), blob.atMs, now))) continue;
    blobs.add(hex);
    held += blob.bytes;
    if (manifests.has(hex)) ofManifests += blob.bytes;
  }
  return { held, manifests: ofManifests, uploads, repositories, tags, blobs };
}

/** Whether a link is only left: it is old, or its blob was collected and is another user's, who pushed it since. */
async function isLeft(view: StoreView, folder: string | undefined, pushedMs: number, now: number): Promise<boolean> {
  if (folder === undefined) return false;
  // Distribution leaves the folder of what a client deleted: it takes room until it is collected.
  const link = (await view.look(`${folder}/link`)) ?? (await view.look(folder));
  return link !== undefined && (link.atMs < pushedMs - SAME_MS || now - link.atMs >= COUNTED_MS);
}
