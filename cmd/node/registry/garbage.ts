/**
 * What of the store nothing needs any more. A manifest is needed while a tag of its repository leads to it, and while
 * it is young. All that a manifest which stays mentions, and its repository has, is needed, in whatever field: so
 * manifests of every kind, also of kinds to come, keep what they are made of. Distribution's own collection knows no
 * age: it takes layers whose manifest is still on its way, and with its option for untagged manifests those that images
 * for several machines are made of.
 */
import { createHash } from 'node:crypto';
import { z } from 'zod';
import { jsonOf } from '../../../lib/input.ts';
import {
  blobFile,
  blobFolder,
  repositoriesOf,
  repositoriesWith,
  type StoreView,
  type UnfinishedUpload,
} from './image-store.ts';

/** Manifests, and what they mention, that are remembered at most, so that one in many repositories is read once. */
const MOST_KNOWN = 100_000;
const MOST_MENTIONS = 1_000_000;

const linkSchema = z.string().regex(/^sha256:[0-9a-f]{64}$/);
const indexSchema = z.object({ manifests: z.array(z.object({ digest: z.string() })).optional() });

/** Which part of the store is looked at, and how long that may take. */
interface GarbageOptions {
  readonly now: number;
  /** What is younger stays. */
  readonly keptMs: number;
  /** Unfinished uploads without bytes for so long go. */
  readonly uploadsKeptMs: number;
  readonly signal: AbortSignal;
  /** Manifests that rows of the platform name, as `repository@digits`: they stay without a tag, too. */
  readonly pinned: ReadonlySet<string>;
  /** Whose images without a name go without waiting for their age: this user needs the room. */
  readonly owner?: string | undefined;
}

/** Of the owner who needs room: what is younger may be of a push under way. ms */
const PUSH_MS = 10 * 60_000;

/** Folders that may go. */
export interface Garbage {
  /** Of manifests in repositories. */
  readonly manifests: readonly string[];
  /** Of the parts of images. */
  readonly blobs: readonly { readonly folder: string; readonly bytes: number }[];
  readonly uploads: readonly UnfinishedUpload[];
}

/** Finds it. Rejects when the store cannot be read, and with the reason of `signal` once it is aborted. */
export async function garbageOf(view: StoreView, options: GarbageOptions): Promise<Garbage> {
  const there = await blobsOf(view, options.signal);
  const manifests = new Manifests(view, there);
  const found: string[] = [];
  const needed = new Set<string>();
  const released = new Set<string>();
  for (const repository of await repositoriesWith(view, '_manifests', options.signal)) {
    const isOwners = options.owner !== undefined && repository.startsWith(`${repositoriesOf(options.owner)}/`);
    const { gone, staying, unnamed } = await sorted(view, manifests, repository, options, isOwners);
    found.push(...gone);
    for (const hex of unnamed) {
      released.add(hex);
      for (const mentioned of (await manifests.get(hex))?.mentioned ?? []) released.add(mentioned);
    }
    const linked = await linkedIn(view, repository);
    for (const hex of staying) {
      options.signal.throwIfAborted();
      needed.add(hex);
      for (const mentioned of (await manifests.get(hex))?.mentioned ?? [])
        if (linked.has(mentioned)) needed.add(mentioned);
    }
    for (const hex of await otherNames(view, repository)) needed.add(hex);
  }
  const keptMsOf = await agesOf(view, released, options);
  const blobs = await unneededBlobs(
    view,
    [...there.keys()].filter((hex) => !needed.has(hex)),
    options,
    keptMsOf,
  );
  return { manifests: found, blobs, uploads: await forsakenUploads(view, options) };
}

/**
 * The manifests of a repository: the folders of those that go, and the digits of those that stay. `unnamed`: of the
 * owner who needs room, those that go and those that a client deleted.
 */
async function sorted(
  view: StoreView,
  manifests: Manifests,
  repository: string,
  { now, keptMs, signal, pinned }: GarbageOptions,
  isOwners: boolean,
) {
  const revisions = `${repository}/_manifests/revisions/sha256`;
  const there = await view.namesIn(revisions);
  await view.ahead({ read: there.map(blobFile) });
  const name = repository.slice('repositories/'.length);
  const pins = there.filter((hex) => pinned.has(`${name}@${hex}`));
  const named = await reachable(view, manifests, repository, pins, signal);
  const givenUp = isOwners ? await givenUpIn(view, manifests, repository, there) : undefined;
  const gone: string[] = [];
  const unnamed = [...(givenUp?.deleted ?? [])];
  const staying = new Set(named);
  for (const hex of there) {
    signal.throwIfAborted();
    const pushed = await view.look(`${revisions}/${hex}/link`);
    // Distribution leaves the folder of a manifest that a client deleted.
    if (pushed === undefined) continue;
    const isNeeded = named === undefined || named.has(hex);
    const isYoung = now - pushed.atMs < (givenUp === undefined ? keptMs : Math.min(PUSH_MS, keptMs));
    if (isNeeded || (isYoung && givenUp?.has(hex, await manifests.get(hex)) !== true)) {
      staying.add(hex);
      continue;
    }
    gone.push(`${revisions}/${hex}`);
    if (isOwners) unnamed.push(hex);
  }
  return { gone, staying, unnamed };
}

/**
 * What a client took the name off: what a tag led to before, what was deleted, and what has the parts of that.
 * `troupe image rm` deletes a copy of the manifest that the tag led to.
 */
async function givenUpIn(view: StoreView, manifests: Manifests, repository: string, there: readonly string[]) {
  const former = new Set<string>();
  const tags = `${repository}/_manifests/tags`;
  for (const tag of await view.namesIn(tags))
    for (const hex of await view.namesIn(`${tags}/${tag}/index/sha256`)) former.add(hex);
  const deleted: string[] = [];
  const parts = new Set<string>();
  for (const hex of there) {
    if ((await view.look(`${repository}/_manifests/revisions/sha256/${hex}/link`)) !== undefined) continue;
    deleted.push(hex);
    const manifest = await manifests.get(hex);
    if (manifest !== undefined) parts.add(mentionsOf(manifest));
  }
  const has = (hex: string, manifest: KnownManifest | undefined) =>
    former.has(hex) || (manifest !== undefined && parts.has(mentionsOf(manifest)));
  return { deleted, has };
}

/** How long a blob that nothing needs is kept, ms. Without an owner who needs room: all the same time. */
async function agesOf(
  view: StoreView,
  released: ReadonlySet<string>,
  { keptMs, owner, signal }: GarbageOptions,
): Promise<(hex: string) => number> {
  if (owner === undefined) return () => keptMs;
  const own = new Set<string>();
  // Others may be about to push a manifest of these.
  const others = new Set<string>();
  for (const repository of await repositoriesWith(view, '_layers', signal)) {
    const found = repository.startsWith(`${repositoriesOf(owner)}/`) ? own : others;
    for (const hex of await view.namesIn(`${repository}/_layers/sha256`)) found.add(hex);
  }
  return (hex) => {
    if (others.has(hex)) return keptMs;
    if (released.has(hex)) return 0;
    return own.has(hex) ? Math.min(PUSH_MS, keptMs) : keptMs;
  };
}

/** The manifests that a repository's tags and pins lead to; undefined when one cannot be read: nothing goes then. */
async function reachable(
  view: StoreView,
  manifests: Manifests,
  repository: string,
  pins: readonly string[],
  signal: AbortSignal,
): Promise<ReadonlySet<string> | undefined> {
  const tags = `${repository}/_manifests/tags`;
  const waiting = [...pins];
  const links = (await view.namesIn(tags)).map((tag) => `${tags}/${tag}/current/link`);
  await view.ahead({ read: links });
  for (const path of links) {
    signal.throwIfAborted();
    const link = linkSchema.safeParse(await view.read(path));
    if (!link.success) return undefined;
    waiting.push(digitsOf(link.data));
  }
  const found = new Set<string>();
  for (let hex = waiting.pop(); hex !== undefined; hex = waiting.pop()) {
    if (found.has(hex)) continue;
    signal.throwIfAborted();
    found.add(hex);
    const parts = (await manifests.get(hex))?.parts;
    if (parts === undefined) return undefined;
    waiting.push(...parts);
  }
  return found;
}

/** What a manifest says. */
interface KnownManifest {
  /** The manifests that it is made of, as digits; undefined when that cannot be told. */
  readonly parts: readonly string[] | undefined;
  /** All that it mentions and that is there, as digits. */
  readonly mentioned: readonly string[];
}

/** The digits of what is there, each as the one string that is kept: a piece of a text would keep all of the text. */
type ThereBlobs = ReadonlyMap<string, string>;

/** Reads manifests, each once: the same digest is the same text in all repositories. */
export class Manifests {
  readonly #view: StoreView;
  readonly #there: ThereBlobs;
  readonly #known = new Map<string, KnownManifest | undefined>();
  #mentions = 0;

  /** `there`: anybody can have a manifest mention tens of thousands of digests that lead nowhere. */
  constructor(view: StoreView, there: ThereBlobs) {
    this.#view = view;
    this.#there = there;
  }

  /** Undefined when it is not there. */
  async get(hex: string): Promise<KnownManifest | undefined> {
    if (this.#known.has(hex)) return this.#known.get(hex);
    const text = await this.#view.read(blobFile(hex));
    const manifest = text === undefined ? undefined : manifestOf(text, this.#there);
    const mentions = this.#mentions + (manifest?.mentioned.length ?? 0) + (manifest?.parts?.length ?? 0);
    if (this.#known.size < MOST_KNOWN && mentions <= MOST_MENTIONS) {
      this.#known.set(hex, manifest);
      this.#mentions = mentions;
    }
    return manifest;
  }
}

function manifestOf(text: string, there: ThereBlobs): KnownManifest {
  const mentioned = new Set<string>();
  for (const [, hex = ''] of text.matchAll(/sha256:([0-9a-f]{64})/g)) {
    const kept = there.get(hex);
    if (kept !== undefined) mentioned.add(kept);
  }
  return { parts: partsOf(text, there), mentioned: [...mentioned] };
}

/** Undefined when one is missing, too: what it is made of cannot be told. */
function partsOf(text: string, there: ThereBlobs): readonly string[] | undefined {
  const index = indexSchema.safeParse(jsonOf(text));
  if (!index.success) return undefined;
  const parts: string[] = [];
  for (const { digest } of index.data.manifests ?? []) {
    const kept = linkSchema.safeParse(digest).success ? there.get(digitsOf(digest)) : undefined;
    if (kept === undefined) return undefined;
    parts.push(kept);
  }
  return parts;
}

/** The same for two that mention the same in the same order. */
function mentionsOf({ mentioned }: KnownManifest): string {
  return createHash('sha256').update(mentioned.join()).digest('hex');
}

/** The digits of all blobs of the store. */
async function blobsOf(view: StoreView, signal: AbortSignal): Promise<ThereBlobs> {
  const root = 'blobs/sha256';
  const found = new Map<string, string>();
  for (const group of await view.namesIn(root)) {
    signal.throwIfAborted();
    for (const hex of await view.namesIn(`${root}/${group}`)) found.set(hex, hex);
  }
  return found;
}

/**
 * The digits of what a repository has. The registry takes a manifest once it has all that the manifest is made of;
 * other digests in its text may be of others, who would not get their room back.
 */
async function linkedIn(view: StoreView, repository: string): Promise<ReadonlySet<string>> {
  const layers = await view.namesIn(`${repository}/_layers/sha256`);
  return new Set([...layers, ...(await view.namesIn(`${repository}/_manifests/revisions/sha256`))]);
}

/** What a repository has under digests of other kinds: the files are named by sha256 all the same. */
export async function otherNames(view: StoreView, repository: string): Promise<string[]> {
  const found: string[] = [];
  const layers = `${repository}/_layers`;
  for (const kind of await view.namesIn(layers)) {
    if (kind === 'sha256') continue;
    for (const name of await view.namesIn(`${layers}/${kind}`)) {
      const link = linkSchema.safeParse(await view.read(`${layers}/${kind}/${name}/link`));
      if (link.success) found.push(digitsOf(link.data));
    }
  }
  return found;
}

async function unneededBlobs(
  view: StoreView,
  unneeded: readonly string[],
  { now, signal }: GarbageOptions,
  keptMsOf: (hex: string) => number,
): Promise<Garbage['blobs']> {
  const found: { folder: string; bytes: number }[] = [];
  await view.ahead({ look: unneeded.map(blobFile) });
  for (const hex of unneeded) {
    signal.throwIfAborted();
    const folder = blobFolder(hex);
    const file = await view.look(blobFile(hex));
    // Without its file, it is what a collection left that was cut.
    const at = file ?? (await view.look(folder));
    if (at !== undefined && now - at.atMs >= keptMsOf(hex)) found.push({ folder, bytes: file?.bytes ?? 0 });
  }
  return found;
}

/** Unfinished uploads that nobody goes on with. */
async function forsakenUploads(
  view: StoreView,
  { now, uploadsKeptMs, signal }: GarbageOptions,
): Promise<readonly UnfinishedUpload[]> {
  signal.throwIfAborted();
  return (await view.uploads()).filter(({ atMs }) => now - atMs >= uploadsKeptMs);
}

function digitsOf(digest: string): string {
  return digest.slice('sha256:'.length);
}
