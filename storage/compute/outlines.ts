/** SQL of containers in outline: what a node compares with the engine again and again, so only of its own shards. */
import { z } from 'zod';
import type { HeldShards } from '../../proto/ports/placement.ts';
import type { Queries } from '../db.ts';
import { greatestCommonDivisor } from '../placement/timers.ts';
import { columnsOf, oneValue } from '../rows.ts';
import { containerRow, NETWORK } from './containers.ts';

const outlineRow = containerRow.pick({
  id: true,
  desired: true,
  status: true,
  address: true,
  externalAddress: true,
  instanceType: true,
  memoryMb: true,
  storageGb: true,
  nextImage: true,
  healthState: true,
  healthSince: true,
  mountPaths: true,
  network: true,
  egress: true,
  restart: true,
  keysRevision: true,
  keysApplied: true,
  isPromoting: true,
  predecessorSince: true,
});

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

const COLUMNS = columnsOf(outlineRow, { network: NETWORK });

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

/**
 * The oldest transaction that is open. What it and later ones write may be missing in what is read from now on; all
 * else is there. So it is asked for first.
 */
async function changeMark(db: Queries): Promise<string> {
  return (await oneValue(db, z.string(), 'select pg_snapshot_xmin(pg_current_snapshot())::text')) ?? '0';
}
