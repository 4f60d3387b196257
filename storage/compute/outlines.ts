/** SQL of containers in outline: what a node compares with the engine again and again, so only of its own shards. */
import { z } from 'zod';
import { instanceTypeSchema, statusSchema } from '../../proto/compute/fields.ts';
import { healthStateSchema } from '../../proto/compute/health.ts';
import type { HeldShards } from '../../proto/ports/placement.ts';
import type { Queries } from '../db.ts';
import { greatestCommonDivisor } from '../placement/timers.ts';
import { desiredSchema } from './containers.ts';
import { membershipIn } from './network-membership.ts';

const outlineColumns = z.object({
  id: z.string(),
  desired: desiredSchema,
  status: statusSchema,
  address: z.string().nullable(),
  external_address: z.string().nullable(),
  instance_type: instanceTypeSchema,
  memory_mb: z.number(),
  storage_gb: z.number(),
  next_image: z.string().nullable(),
  health_state: healthStateSchema.nullable(),
  health_since: z.date().nullable(),
  mount_paths: z.array(z.string()),
  network: z.string().nullable(),
  network_alias: z.string().nullable(),
  network_place: z.number().nullable(),
  restart: z.boolean(),
  keys_revision: z.number(),
  keys_applied: z.number(),
});
const outlineRow = outlineColumns.transform((row) => ({
  id: row.id,
  desired: row.desired,
  status: row.status,
  address: row.address,
  /** Where the outside reaches it. Null: at `address`; empty: nowhere (yet). */
  externalAddress: row.external_address,
  instanceType: row.instance_type,
  memoryMb: row.memory_mb,
  mountPaths: row.mount_paths,
  restart: row.restart,
  keysRevision: row.keys_revision,
  keysApplied: row.keys_applied,
  /** As of a container's row. */
  nextImage: row.next_image === null ? undefined : row.next_image || null,
  storageGb: row.storage_gb,
  healthState: row.health_state,
  healthSince: row.health_since,
  network: membershipIn(row),
}));

/** What reconciliation needs to know of a container to see whether somebody should look. */
export type ContainerOutline = z.output<typeof outlineRow>;

/** The index of containers divides them into so many parts by their hash. */
const PARTS = 4096;

/**
 * The containers of `shards` (undefined: of all): whole parts of the index, and of these the right ones. Where the
 * number of shards has no factor in common with the number of parts, all parts are read.
 */
function ownFilter(held: HeldShards): { readonly filter: string; readonly values: readonly unknown[] } {
  const { count, shards } = held;
  if (shards.length === count) return { filter: 'true', values: [] };
  const step = greatestCommonDivisor(count, PARTS);
  const remainders = new Set(shards.map((shard) => shard % step));
  const parts = Array.from({ length: PARTS }, (_, part) => part).filter((part) => remainders.has(part % step));
  const filter = 'shard_hash % 4096 = any($1::bigint[]) and shard_hash % $2::bigint = any($3::bigint[])';
  return { filter, values: [parts, count, [...shards]] };
}

/** Containers, and a mark from which changes can be read that this look may have missed. */
interface Outlines {
  readonly rows: readonly ContainerOutline[];
  readonly mark: string;
}

const COLUMNS = Object.keys(outlineColumns.shape).join(', ');

/** All containers of these shards. */
export async function containerOutlines(db: Queries, held: HeldShards): Promise<Outlines> {
  const mark = await changeMark(db);
  const { filter, values } = ownFilter(held);
  return { mark, rows: await db.many(outlineRow, `select ${COLUMNS} from containers where ${filter}`, values) };
}

/** The containers of these shards that changed since the look with this mark, and those of `ids` that there are. */
export async function changedOutlines(
  db: Queries,
  held: HeldShards,
  since: string,
  ids: readonly string[],
): Promise<Outlines> {
  const mark = await changeMark(db);
  const { filter, values } = ownFilter(held);
  const [first, second] = [`$${values.length + 1}`, `$${values.length + 2}`];
  // A change beyond the snapshot is of another server, whose data this one was made from.
  const rows = await db.many(
    outlineRow,
    `select ${COLUMNS} from containers where ${filter} and (id = any(${second}::text[])
       or changed >= ${first}::text::xid8 and changed < pg_snapshot_xmax(pg_current_snapshot()))`,
    [...values, since, ids],
  );
  return { mark, rows };
}

const markRow = z.object({ mark: z.string() });

/**
 * The oldest transaction that is open. What it and later ones write may be missing in what is read from now on; all
 * else is there. So it is asked for first.
 */
async function changeMark(db: Queries): Promise<string> {
  const row = await db.one(markRow, 'select pg_snapshot_xmin(pg_current_snapshot())::text as mark');
  return row?.mark ?? '0';
}
