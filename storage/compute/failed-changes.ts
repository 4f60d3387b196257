/** SQL of changes that came to nothing: the last one of each container, sealed, since it has lines of a log. */
import type { KeyObject } from 'node:crypto';
import { z } from 'zod';
import type { Queries, Tx } from '../db.ts';
import type { SealedPlace } from '../reseal.ts';
import { oneValue } from '../rows.ts';
import { open, seal } from '../seal.ts';
import { emptyRevisions } from './revisions.ts';

const contextOf = (containerId: string) => `container_revisions/${containerId}/failed_change`;

const failedChangeSchema = z.object({
  /** ISO 8601. */
  at: z.string(),
  /** The image that it was to have, as its user knows it. */
  image: z.string(),
  /** Whole sentences. */
  reason: z.string(),
  /** What its check found, look by look, oldest first. */
  answers: z.array(z.string()).readonly(),
  /** The last lines of the one that failed. */
  log: z.array(z.string()).readonly(),
});

/** A change of a container that ended on what ran before. */
export type FailedChange = Readonly<z.output<typeof failedChangeSchema>>;

/** Writes down that a change of a container came to nothing, in the place of the one before. */
export async function noteFailedChange(
  tx: Tx,
  containerId: string,
  failed: FailedChange,
  sealKey: KeyObject,
): Promise<void> {
  const sealed = seal(sealKey, contextOf(containerId), Buffer.from(JSON.stringify(failed)));
  await tx.run(
    `insert into container_revisions (container_id, sealed, failed_change) values ($1, $2, $3)
     on conflict (container_id) do update set failed_change = $3`,
    [containerId, emptyRevisions(containerId, sealKey), sealed],
  );
}

/** The last one of a container; undefined: there is none. Rejects with SealError. */
export async function failedChangeOf(
  db: Queries,
  containerId: string,
  sealKey: KeyObject,
): Promise<FailedChange | undefined> {
  const text = 'select failed_change from container_revisions where container_id = $1 and failed_change is not null';
  const sealed = await oneValue(db, z.instanceof(Buffer), text, [containerId]);
  if (sealed === undefined) return undefined;
  return failedChangeSchema.parse(JSON.parse(open(sealKey, contextOf(containerId), sealed).toString()));
}

/** Where they stand sealed. */
export const FAILED_CHANGES_SEALED: readonly SealedPlace[] = [
  { table: 'container_revisions', id: 'container_id', column: 'failed_change', context: contextOf },
];
