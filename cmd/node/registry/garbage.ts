/**
 * What of the store nothing needs any more. A manifest is needed while a tag of its repository leads to it, and while
 * it is young. All that a manifest which stays mentions, and its repository has, is needed, in whatever field: so
 * manifests of every kind, also of kinds to come, keep what they are made of. Distribution's own collection knows no
 * age: it takes layers whose manifest is still on its way, and with its option for untagged manifests those that images
 * for several machines are made of.
 */
import { createHash } from 'node:crypto';
import { readdir, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { isCode } from '../../../lib/errors.ts';
import { jsonOf } from '../../../lib/input.ts';
import type { StoreFiles } from './files.ts';
import { namesIn, repositoriesOf, repositoriesWith, rootOf, unfinishedUploads } from './store.ts';

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
  readonly uploads: readonly string[];
}

/** Finds it. Rejects when the store cannot be read, and with the reason of `signal` once it is aborted. */
export async function garbageOf(files: StoreFiles, options: GarbageOptions): Promise<Garbage> {
  const there = await blobsOf(files, options.signal);
  const root = rootOf(files);
  const manifests = new Manifests(root, there);
  const found: string[] = [];
  const needed = new Set<string>();
  const released = new Set<string>();
  for (const repository of await repositoriesWith('_manifests', files, options.signal)) {
    const isOwners = options.owner !== undefined && repository.startsWith(`${repositoriesOf(files, options.owner)}/`);
    const { gone, staying, unnamed } = await sorted(manifests, repository, { ...options, root }, isOwners);
    found.push(...gone);
    for (const hex of unnamed) {
      released.add(hex);
      for (const mentioned of (await manifests.get(hex))?.mentioned ?? []) released.add(mentioned);
    }
    const linked = await linkedIn(repository);
    for (const hex of staying) {
      options.signal.throwIfAborted();
      needed.add(hex);
      for (const mentioned of (await manifests.get(hex))?.mentioned ?? [])
        if (linked.has(mentioned)) needed.add(mentioned);
    }
    for (const hex of await otherNames(repository)) needed.add(hex);
  }
  const keptMsOf = await agesOf(files, released, options);
  const blobs = await unneededBlobs(
    files,
    [...there.keys()].filter((hex) => !needed.has(hex)),
    options,
    keptMsOf,
  );
  return { manifests: found, blobs, uploads: await forsakenUploads(files, options) };
}

/**
 * The manifests of a repository: the folders of those that go, and the digits of those that stay. `unnamed`: of the
 * owner who needs room, those that go and those that a client deleted.
 */
async function sorted(
  manifests: Manifests,
  repository: string,
  { now, keptMs, signal, pinned, root }: GarbageOptions & { readonly root: string },
  isOwners: boolean,
) {
  const revisions = join(repository, '_manifests/revisions/sha256');
  const there = await namesIn(revisions);
  const name = repository.slice(join(root, 'repositories/').length);
  const pins = there.filter((hex) => pinned.has(`${name}@${hex}`));
  const named = await reachable(manifests, repository, pins, signal);
  const givenUp = isOwners ? await givenUpIn(manifests, repository, there) : undefined;
  const gone: string[] = [];
  const unnamed = [...(givenUp?.deleted ?? [])];
  const staying = new Set(named);
  for (const hex of there) {
    signal.throwIfAborted();
    const pushed = await statIfThere(join(revisions, hex, 'link'));
    // Distribution leaves the folder of a manifest that a client deleted.
    if (pushed === undefined) continue;
    const isNeeded = named === undefined || named.has(hex);
    const isYoung = now - pushed.mtimeMs < (givenUp === undefined ? keptMs : Math.min(PUSH_MS, keptMs));
    if (isNeeded || (isYoung && givenUp?.has(hex, await manifests.get(hex)) !== true)) {
      staying.add(hex);
      continue;
    }
    gone.push(join(revisions, hex));
    if (isOwners) unnamed.push(hex);
  }
  return { gone, staying, unnamed };
}

/**
 * What a client took the name off: what a tag led to before, what was deleted, and what has the parts of that.
 * `troupe image rm` deletes a copy of the manifest that the tag led to.
 */
async function givenUpIn(manifests: Manifests, repository: string, there: readonly string[]) {
  const former = new Set<string>();
  const tags = join(repository, '_manifests/tags');
  for (const tag of await namesIn(tags))
    for (const hex of await namesIn(join(tags, tag, 'index/sha256'))) former.add(hex);
  const deleted: string[] = [];
  const parts = new Set<string>();
  for (const hex of there) {
    if ((await statIfThere(join(repository, '_manifests/revisions/sha256', hex, 'link'))) !== undefined) continue;
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
  files: StoreFiles,
  released: ReadonlySet<string>,
  { keptMs, owner, signal }: GarbageOptions,
): Promise<(hex: string) => number> {
  if (owner === undefined) return () => keptMs;
  const own = new Set<string>();
  // Others may be about to push a manifest of these.
  const others = new Set<string>();
  for (const repository of await repositoriesWith('_layers', files, signal)) {
    const found = repository.startsWith(`${repositoriesOf(files, owner)}/`) ? own : others;
    for (const hex of await namesIn(join(repository, '_layers/sha256'))) found.add(hex);
  }
  return (hex) => {
    if (others.has(hex)) return keptMs;
    if (released.has(hex)) return 0;
    return own.has(hex) ? Math.min(PUSH_MS, keptMs) : keptMs;
  };
}

/** The manifests that a repository's tags and pins lead to; undefined when one cannot be read: nothing goes then. */
async function reachable(
  manifests: Manifests,
  repository: string,
  pins: readonly string[],
  signal: AbortSignal,
): Promise<ReadonlySet<string> | undefined> {
  const tags = join(repository, '_manifests/tags');
  const waiting = [...pins];
  for (const tag of await namesIn(tags)) {
    signal.throwIfAborted();
    const link = linkSchema.safeParse(await readIfThere(join(tags, tag, 'current/link')));
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
  readonly #root: string;
  readonly #there: ThereBlobs;
  readonly #known = new Map<string, KnownManifest | undefined>();
  #mentions = 0;

  /** `there`: anybody can have a manifest mention tens of thousands of digests that lead nowhere. */
  constructor(root: string, there: ThereBlobs) {
    this.#root = root;
    this.#there = there;
  }

  /** Undefined when it is not there. */
  async get(hex: string): Promise<KnownManifest | undefined> {
    if (this.#known.has(hex)) return this.#known.get(hex);
    const text = await readIfThere(join(this.#root, 'blobs/sha256', hex.slice(0, 2), hex, 'data'));
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
async function blobsOf(files: StoreFiles, signal: AbortSignal): Promise<ThereBlobs> {
  const root = join(rootOf(files), 'blobs/sha256');
  const found = new Map<string, string>();
  for (const group of await namesIn(root)) {
    signal.throwIfAborted();
    for (const hex of await namesIn(join(root, group))) found.set(hex, hex);
  }
  return found;
}

/**
 * The digits of what a repository has. The registry takes a manifest once it has all that the manifest is made of;
 * other digests in its text may be of others, who would not get their room back.
 */
async function linkedIn(repository: string): Promise<ReadonlySet<string>> {
  const layers = await namesIn(join(repository, '_layers/sha256'));
  return new Set([...layers, ...(await namesIn(join(repository, '_manifests/revisions/sha256')))]);
}

/** What a repository has under digests of other kinds: the files are named by sha256 all the same. */
export async function otherNames(repository: string): Promise<string[]> {
  const found: string[] = [];
  const layers = join(repository, '_layers');
  for (const kind of await namesIn(layers)) {
    if (kind === 'sha256') continue;
    for (const name of await namesIn(join(layers, kind))) {
      const link = linkSchema.safeParse(await readIfThere(join(layers, kind, name, 'link')));
      if (link.success) found.push(digitsOf(link.data));
    }
  }
  return found;
}

async function unneededBlobs(
  files: StoreFiles,
  unneeded: readonly string[],
  { now, signal }: GarbageOptions,
  keptMsOf: (hex: string) => number,
): Promise<Garbage['blobs']> {
  const found: { folder: string; bytes: number }[] = [];
  for (const hex of unneeded) {
    signal.throwIfAborted();
    const folder = join(rootOf(files), 'blobs/sha256', hex.slice(0, 2), hex);
    // Without its file, it is what a collection left that was cut.
    const file = (await statIfThere(join(folder, 'data'))) ?? (await statIfThere(folder));
    if (file !== undefined && now - file.mtimeMs >= keptMsOf(hex))
      found.push({ folder, bytes: file.isFile() ? file.size : 0 });
  }
  return found;
}

/** Unfinished uploads that nobody goes on with. */
async function forsakenUploads(
  files: StoreFiles,
  { now, uploadsKeptMs, signal }: GarbageOptions,
): Promise<readonly string[]> {
  const found: string[] = [];
  for (const upload of await unfinishedUploads(files)) {
    signal.throwIfAborted();
    const times = [(await statIfThere(upload))?.mtimeMs ?? now];
    for (const name of await filesIn(upload)) times.push((await statIfThere(join(upload, name)))?.mtimeMs ?? now);
    if (now - Math.max(...times) >= uploadsKeptMs) found.push(upload);
  }
  return found;
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

function digitsOf(digest: string): string {
  return digest.slice('sha256:'.length);
}

async function readIfThere(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if (isCode(error, 'ENOENT')) return undefined;
    throw error;
  }
}

/** Its times and size; undefined when it is not there. */
export async function statIfThere(path: string) {
  try {
    return await stat(path);
  } catch (error) {
    if (isCode(error, 'ENOENT')) return undefined;
    throw error;
  }
}
