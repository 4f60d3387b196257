/**
 * SQL of what each container ran. A revision is an image, by its digest where that is known, with settings and the
 * names of secrets. Their values go along, as it ran with them last. The newest are kept, in one bounded, sealed
 * value a container.
 */
import type { KeyObject } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import type { Queries, Tx } from '../db.ts';
import type { SealedPlace } from '../reseal.ts';
import { oneValue } from '../rows.ts';
import { open, seal } from '../seal.ts';
import { type ContainerSettings, settingsSchema } from './settings.ts';

/** So many are kept of each container. */
export const MAX_REVISIONS = 10;
/** Most bytes of those: each reader opens all. The newest is kept, however large it is. */
const MAX_REVISIONS_BYTES = 1024 * 1024;

const sealedIn = (containerId: string) => `container_revisions/${containerId}/sealed`;

const revisionSchema = z.object({
  /** From 1 on; goes up by one. */
  number: z.number(),
  /** As the row had it, without a digest. Null: the platform's own. */
  image: z.string().nullable(),
  /** `sha256:...` of its manifest; null: not known. */
  digest: z.string().nullable(),
  /** Secrets have their names alone. */
  settings: settingsSchema,
  /** Of its secrets, without those that their user took away since. Null: an earlier version did not keep them. */
  secretValues: z.record(z.string(), z.string()).nullable().default(null),
  /** ISO 8601. */
  startedAt: z.string(),
  /** Why it was given up for the one before. */
  givenUp: z.string().nullable(),
});
const listSchema = z.array(revisionSchema);

/** What a container ran once. */
export type Revision = Readonly<z.output<typeof revisionSchema>>;

/** The kept revisions of a container, oldest first. Rejects with SealError. */
export function revisionsOf(db: Queries, containerId: string, sealKey: KeyObject): Promise<readonly Revision[]> {
  return read(db, 'select sealed from container_revisions where container_id = $1', containerId, sealKey);
}

async function read(db: Queries, text: string, containerId: string, sealKey: KeyObject): Promise<readonly Revision[]> {
  const sealed = await oneValue(db, z.instanceof(Buffer), text, [containerId]);
  if (sealed === undefined) return [];
  return listSchema.parse(JSON.parse(open(sealKey, sealedIn(containerId), sealed).toString()));
}

/** The kept revisions, oldest first; nobody else writes them before this transaction is over. */
function locked(tx: Tx, containerId: string, sealKey: KeyObject): Promise<readonly Revision[]> {
  return read(tx, 'select sealed from container_revisions where container_id = $1 for update', containerId, sealKey);
}

/** What a container runs. */
interface RanNow {
  readonly image: string | null;
  /** Undefined: not known. */
  readonly digest: string | undefined;
  readonly settings: ContainerSettings;
}

/** What a container runs, with what of its secrets may be kept. */
interface RunsFrom extends RanNow {
  readonly at: Date;
  readonly secretValues: ContainerSettings['secrets'];
}

/** Writes down what a container runs from `at` on, unless it is what it ran last. */
export async function noteRevision(tx: Tx, containerId: string, now: RunsFrom, sealKey: KeyObject): Promise<void> {
  const list = await locked(tx, containerId, sealKey);
  const last = list.at(-1);
  const settings = withoutValues(now.settings);
  const { image, digest = null, secretValues } = now;
  if (last !== undefined && last.givenUp === null && isSame(last, { ...now, settings })) {
    const next = { ...last, digest: last.digest ?? digest, secretValues };
    if (!isDeepStrictEqual(next, last)) await write(tx, containerId, [...list.slice(0, -1), next], sealKey);
    return;
  }
  const revision = { number: (last?.number ?? 0) + 1, image, digest, settings, secretValues, givenUp: null };
  await write(tx, containerId, [...list, { ...revision, startedAt: now.at.toISOString() }], sealKey);
}

/** Whether both are the same, as far as that is known. */
export function isSame(revision: Revision, { image, digest, settings }: RanNow): boolean {
  if (revision.image !== image || !isDeepStrictEqual(revision.settings, withoutValues(settings))) return false;
  return digest === undefined || revision.digest === null || revision.digest === digest;
}

/** Writes down why the newest was given up. */
export async function giveUpRevision(tx: Tx, containerId: string, reason: string, sealKey: KeyObject): Promise<void> {
  const list = await locked(tx, containerId, sealKey);
  const last = list.at(-1);
  // The first has none before it. What was before another may be dropped.
  if (last === undefined || last.number === 1) return;
  await write(tx, containerId, [...list.slice(0, -1), { ...last, givenUp: reason }], sealKey);
}

/** Forgets the values of these secrets in all revisions. */
export async function forgetSecrets(
  tx: Tx,
  containerId: string,
  names: readonly string[],
  sealKey: KeyObject,
): Promise<void> {
  const list = await locked(tx, containerId, sealKey);
  const next = list.map((revision) => {
    const { secretValues } = revision;
    if (secretValues === null) return revision;
    const left = Object.entries(secretValues).filter(([name]) => !names.includes(name));
    return { ...revision, secretValues: Object.fromEntries(left) };
  });
  if (!isDeepStrictEqual(next, list)) await write(tx, containerId, next, sealKey);
}

/** No revisions, sealed. */
export function emptyRevisions(containerId: string, sealKey: KeyObject): Buffer {
  return sealedList(containerId, [], sealKey);
}

function sealedList(containerId: string, list: readonly Revision[], sealKey: KeyObject): Buffer {
  return seal(sealKey, sealedIn(containerId), Buffer.from(JSON.stringify(list)));
}

/** The newest that may be kept. */
function newest(all: readonly Revision[]): readonly Revision[] {
  let [bytes, first] = [0, all.length];
  while (first > 0 && all.length - first < MAX_REVISIONS) {
    bytes += Buffer.byteLength(JSON.stringify(all[first - 1]));
    if (bytes > MAX_REVISIONS_BYTES && first < all.length) break;
    first--;
  }
  return all.slice(first);
}

async function write(tx: Tx, containerId: string, all: readonly Revision[], sealKey: KeyObject): Promise<void> {
  const list = newest(all);
  const images = list.flatMap(({ image, digest }) => (image === null || digest === null ? [] : [`${image}@${digest}`]));
  const sealed = sealedList(containerId, list, sealKey);
  await tx.run(
    `insert into container_revisions (container_id, images, sealed) values ($1, $2, $3)
     on conflict (container_id) do update set images = $2, sealed = $3`,
    [containerId, [...new Set(images)], sealed],
  );
}

/** For comparisons: another value of a secret is no other revision. */
function withoutValues(settings: ContainerSettings): ContainerSettings {
  const names = Object.keys(settings.secrets).sort();
  return { ...settings, secrets: Object.fromEntries(names.map((name) => [name, ''])) };
}

/** Where revisions stand sealed. */
export const REVISIONS_SEALED: readonly SealedPlace[] = [
  { table: 'container_revisions', id: 'container_id', column: 'sealed', context: sealedIn },
];
