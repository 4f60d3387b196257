/** Revisions of a container: what it ran, and the way back to one of them. */
import type { listRevisions } from '../../../proto/compute/revisions.ts';
import type { ReplyOf } from '../../../proto/endpoint.ts';
import { invalidField } from '../../../proto/validation-messages.ts';
import type { ContainerRow } from '../../../storage/compute/containers.ts';
import { failedChangeOf } from '../../../storage/compute/failed-changes.ts';
import {
  giveUpRevision,
  isSame,
  MAX_REVISIONS,
  noteRevision,
  type Revision,
  revisionsOf,
} from '../../../storage/compute/revisions.ts';
import { type ContainerSettings, NO_SETTINGS, settingsOf } from '../../../storage/compute/settings.ts';
import type { Tx } from '../../../storage/db.ts';
import type { ComputeDeps } from '../deps.ts';
import { digestIn, shownImage, withoutDigest } from '../image-rules.ts';

type Keeper = Pick<ComputeDeps, 'clock' | 'sealKey'>;
type RowImage = Pick<ContainerRow, 'id' | 'image'>;

/** Writes down what a container runs from now on. `digest`: of its image, as the engine says. */
export async function noteRan(
  { clock, sealKey }: Keeper,
  tx: Tx,
  row: RowImage,
  digest: string | undefined,
): Promise<void> {
  const settings = (await settingsOf(tx, row.id, sealKey)) ?? NO_SETTINGS;
  await noteRevision(tx, row.id, { ...imageIn(row, digest), settings, at: new Date(clock.now()) }, sealKey);
}

/** Writes down that what it runs was given up. */
export function noteGivenUp({ sealKey }: Keeper, tx: Tx, { id }: RowImage, reason: string): Promise<void> {
  return giveUpRevision(tx, id, reason, sealKey);
}

/** Its image now, held to the digest that it runs where that is known: the tag may come to name another one. */
export async function heldImage({ sealKey }: Keeper, tx: Tx, row: RowImage): Promise<string | null> {
  const last = (await revisionsOf(tx, row.id, sealKey)).at(-1);
  const isIts = last !== undefined && last.givenUp === null && last.image === row.image;
  return isIts ? imageOfRevision(last) : row.image;
}

/** What a container is to become to be as it was. */
export interface RevisionTarget {
  /** For its row. */
  readonly image: string | null;
  /** Secrets have their names alone. */
  readonly settings: ContainerSettings;
}

/** The revision `number` of a container. Throws Refusal `invalid_request` when it is not kept. */
export async function revisionTarget(
  { db, sealKey }: Pick<ComputeDeps, 'db' | 'sealKey'>,
  { id }: RowImage,
  number: number,
): Promise<RevisionTarget> {
  const list = await revisionsOf(db, id, sealKey);
  const found = list.find((revision) => revision.number === number);
  if (found !== undefined) return { image: imageOfRevision(found), settings: found.settings };
  const [first, last] = [list[0]?.number, list.at(-1)?.number];
  const there = first === undefined ? 'there is none yet' : `there are ${first} to ${last}`;
  throw invalidField('revision', `is not one that is kept: ${there}, of the last ${MAX_REVISIONS}`);
}

/** The list, newest first, as its user sees it. */
export async function revisionViews(
  deps: Pick<ComputeDeps, 'db' | 'sealKey' | 'defaultImage' | 'engine'>,
  row: ContainerRow,
): Promise<ReplyOf<typeof listRevisions>> {
  const { db, sealKey } = deps;
  const list = await revisionsOf(db, row.id, sealKey);
  const settings = (await settingsOf(db, row.id, sealKey)) ?? NO_SETTINGS;
  const now = { ...imageIn(row, undefined), settings };
  const last = list.at(-1);
  const isCurrent = (revision: Revision) => revision === last && revision.givenUp === null && isSame(revision, now);
  const revisions = list.toReversed().map((revision) => ({
    number: revision.number,
    image: shownImage(revision, deps),
    ...(revision.digest === null ? {} : { digest: revision.digest }),
    started_at: revision.startedAt,
    current: isCurrent(revision),
    env: Object.keys(revision.settings.env),
    secrets: Object.keys(revision.settings.secrets),
    command: revision.settings.command,
    ...(revision.givenUp === null ? {} : { given_up: revision.givenUp }),
  }));
  const failed = await failedChangeOf(db, row.id, sealKey);
  return { revisions, ...(failed === undefined ? {} : { failed_change: failed }) };
}

function imageIn({ image }: RowImage, digest: string | undefined) {
  return { image: image === null ? null : withoutDigest(image), digest: digestIn(image) ?? digest };
}

function imageOfRevision({ image, digest }: Revision): string | null {
  return image === null || digest === null ? image : `${image}@${digest}`;
}
