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
import { type ContainerSettings, NO_SETTINGS, nextSettingsOf, settingsOf } from '../../../storage/compute/settings.ts';
import type { Tx } from '../../../storage/db.ts';
import type { ComputeDeps } from '../deps.ts';
import { digestIn, shownImage, withoutDigest } from '../image-rules.ts';
import { withSecretsOf } from '../workload-rules.ts';

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
  // A secret that is to go with a change that waits is gone already.
  const next = await nextSettingsOf(tx, row.id, sealKey);
  const kept = Object.entries(settings.secrets).filter(([name]) => !next || Object.hasOwn(next.secrets, name));
  const now = { ...imageIn(row, digest), settings, secretValues: Object.fromEntries(kept), at: new Date(clock.now()) };
  await noteRevision(tx, row.id, now, sealKey);
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
  readonly number: number;
  /** The values of its secrets that are kept; undefined: secrets are to stay as they are. */
  readonly secrets: ContainerSettings['secrets'] | undefined;
}

/**
 * The revision `number` of a container; `bringsSecrets`: with the values of its secrets. Throws Refusal
 * `invalid_request` when it is not kept, or these are not.
 */
export async function revisionTarget(
  { db, sealKey }: Pick<ComputeDeps, 'db' | 'sealKey'>,
  { id }: RowImage,
  number: number,
  bringsSecrets: boolean,
): Promise<RevisionTarget> {
  const list = await revisionsOf(db, id, sealKey);
  const found = list.find((revision) => revision.number === number);
  if (found !== undefined) {
    const { settings, secretValues } = found;
    if (bringsSecrets && secretValues === null)
      throw invalidField(
        'revision_secrets',
        `cannot be had of revision ${number}, which ran before the platform kept them: leave it out, and set the ` +
          'secrets by a call of their own',
      );
    const secrets = bringsSecrets ? (secretValues ?? {}) : undefined;
    return { image: imageOfRevision(found), settings, number, secrets };
  }
  const [first, last] = [list[0]?.number, list.at(-1)?.number];
  const some = first === last ? `there is ${first} alone` : `there are ${first} to ${last}`;
  const there = first === undefined ? 'there is none yet' : some;
  throw invalidField('revision', `is not one that is kept: ${there}, of the last ${MAX_REVISIONS}`);
}

/** The settings of a container that goes back, which has `present` now. Secrets that came later stay. */
export function settingsOfRevision(
  { settings, secrets }: RevisionTarget,
  present: ContainerSettings,
): ContainerSettings {
  return withSecretsOf(settings, { ...present, secrets: { ...present.secrets, ...secrets } });
}

/** What a container went back to, as its user sees it. */
export function rollbackView({ number, settings, secrets }: RevisionTarget) {
  const isGone = (name: string) => secrets !== undefined && !Object.hasOwn(secrets, name);
  const gone = Object.keys(settings.secrets).filter(isGone);
  return {
    revision: number,
    secrets: secrets === undefined ? ('today' as const) : ('revision' as const),
    ...(gone.length === 0 ? {} : { secrets_gone: gone }),
  };
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
