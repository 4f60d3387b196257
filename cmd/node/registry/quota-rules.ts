/** What a user has with what is under way, and whether more has room. */
import { tagFolder } from './image-store.ts';
import type { PushedPart } from './pushed-part.ts';
import type { StoreUsage } from './usage.ts';

/** Manifests are written without room, too: to take off a tag takes one. But not more of them than this, in bytes. */
const MOST_MANIFESTS = 64 * 1024 * 1024;

/** What takes room besides bytes: so many of a user. */
const MOST_OF = { repositories: 1000, tags: 10_000, uploads: 100 } as const;

/** One that is under way, or over and not counted yet on the disk. */
export interface OpenWrite {
  readonly upload: string | undefined;
  readonly kind: PushedPart['kind'];
  /** The folder of its repository, and of the tag that it gives. */
  readonly repository: string;
  readonly tag: string | undefined;
  /** What its upload had before. */
  readonly before: number;
  /** What it said that it sends. */
  readonly declared: number;
  passed: number;
  /** The user's turn at which it was over. */
  over: number | undefined;
  /** The one at which it went past the limit, by what was known then. */
  past: number | undefined;
}

/** What is known of one user. */
export interface Counted {
  readonly writes: Set<OpenWrite>;
  /** Raised when something was written. */
  turn: number;
  known: { readonly turn: number; readonly at: number; readonly usage: StoreUsage } | undefined;
  counting: { readonly turn: number; readonly usage: Promise<StoreUsage> } | undefined;
  /** The count after that one. */
  next: Promise<StoreUsage> | undefined;
  /** Requests that are not decided yet. */
  asked: number;
  /** When room was made; 0: a name was given or taken since. */
  collectedAt: number;
  making: Promise<void> | undefined;
}

/** What a user has with all that is under way: what is said to come counts as if it were there. */
export function sum(user: Counted, usage: StoreUsage): number {
  let bytes = usage.held;
  for (const write of user.writes) if (write.upload === undefined) bytes += sent(write);
  for (const size of sizes(user, usage).values()) bytes += size;
  return bytes;
}

/** What each upload comes to. One that is finished is on the disk under another name before it is counted again. */
export function sizes({ writes }: Counted, { uploads }: StoreUsage): Map<string, number> {
  const found = new Map(uploads);
  for (const write of writes)
    if (write.upload !== undefined)
      found.set(write.upload, Math.max(write.before + sent(write), found.get(write.upload) ?? 0));
  return found;
}

/** Why a write may not add a repository, a tag or an upload; undefined when it may, or adds none. */
export function tooManyOf(
  owner: string,
  user: Counted,
  usage: StoreUsage,
  { repository, kind, name }: PushedPart,
): string | undefined {
  const folder = `repositories/${repository}`;
  const writes = [...user.writes];
  const repositories = new Set([...usage.repositories, ...writes.map((write) => write.repository)]);
  if (!repositories.has(folder) && repositories.size >= MOST_OF.repositories) {
    return `${owner} has ${count(MOST_OF.repositories)} repositories, and may have no more: push to one of them.`;
  }
  const begun = usage.uploads.size + writes.filter((write) => write.kind === 'begin').length;
  if (kind === 'begin' && begun >= MOST_OF.uploads) {
    return (
      `${owner} has ${count(MOST_OF.uploads)} uploads under way, and may have no more: let some end, or wait for ten ` +
      'minutes after those that were given up.'
    );
  }
  if (kind !== 'manifest' || name === undefined || usage.tags.has(tagFolder(folder, name))) return undefined;
  const given = new Set(writes.flatMap(({ tag }) => (tag === undefined || usage.tags.has(tag) ? [] : [tag])));
  if (given.has(tagFolder(folder, name)) || usage.tags.size + given.size < MOST_OF.tags) return undefined;
  const most = count(MOST_OF.tags);
  return `${owner} has ${most} tags, and may have no more: remove some with \`troupe image rm NAME:TAG\`.`;
}

/** What of manifests is there, and is sent and not counted yet. */
export function manifestsOf({ writes }: Counted, { manifests }: StoreUsage): number {
  let bytes = manifests;
  for (const write of writes) if (write.kind === 'manifest') bytes += sent(write);
  return bytes;
}

/** Whether these manifests may be without room. */
export const areFewManifests = (bytes: number): boolean => bytes <= MOST_MANIFESTS;

const sent = ({ declared, passed }: OpenWrite): number => Math.max(declared, passed);

/** Whether so many bytes more have room. What finishes an upload has been counted before. */
export function hasRoom(
  { used, limit, bytes, manifests }: { used: number; limit: number; bytes: number; manifests: number },
  kind: PushedPart['kind'],
): boolean {
  // Who has nothing has no tag to take off.
  if (limit === 0 && used === 0) return false;
  if (used + bytes <= limit) return kind !== 'begin' || used < limit;
  if (kind === 'manifest') return areFewManifests(manifests + bytes);
  return kind === 'upload' && bytes === 0;
}

export function sentence(owner: string, used: number, limit: number, needed: number): string {
  if (limit === 0) return `The administrator lets ${owner} push no images: ask for room there.`;
  const more = needed === 0 ? '' : `, and this takes ${count(needed)} more`;
  return (
    `The images of ${owner} hold ${count(used)} of ${count(limit)} bytes${more}. Remove images with ` +
    '`troupe image rm NAME:TAG`, or ask the administrator for room.'
  );
}

export function tooManyAsked(owner: string): string {
  return `Too many pushes of ${owner} wait until it is known what room there is. Push again in a moment.`;
}

/** Of a bucket. */
export function tooManyNames(owner: string): string {
  return (
    `The repositories of ${owner} have more tags and parts than can be counted. Remove whole images with ` +
    '`skopeo delete`, or ask the administrator to.'
  );
}

const count = (bytes: number): string => bytes.toLocaleString('en-US');
