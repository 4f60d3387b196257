/** Seals values anew under another key, wherever a room of storage says that they stand. */
import { z } from 'zod';
import type { Tx } from './queries.ts';

/** Seals a value anew; undefined when it does not open with the old key. */
type Reseal = (context: string, sealed: Uint8Array) => Buffer | undefined;

/** A column of sealed values. */
export interface SealedPlace {
  readonly table: string;
  readonly id: string;
  readonly column: string;
  readonly serial?: string;
  readonly context: (id: string, serial: number) => string;
}

/** Rows in memory at once. */
const STEP = 200;

const sealedRow = z.object({ id: z.string(), serial: z.number(), sealed: z.instanceof(Buffer) });

/**
 * Seals all values of the places anew. What does not open is left as it is. Returns how many were sealed, and how many
 * were left.
 */
export async function resealPlaces(
  tx: Tx,
  places: readonly SealedPlace[],
  reseal: Reseal,
): Promise<{ sealed: number; left: number }> {
  const counts = { sealed: 0, left: 0 };
  for (const { table, id, column, serial = '0::bigint', context } of places) {
    for (let after = ''; ; ) {
      const rows = await tx.many(
        sealedRow,
        `select ${id} as id, ${serial} as serial, ${column} as sealed from ${table}
         where ${column} is not null and ${id} collate "C" > $1 order by ${id} collate "C" limit ${STEP} for update`,
        [after],
      );
      for (const row of rows) {
        const sealed = reseal(context(row.id, row.serial), row.sealed);
        if (sealed === undefined) counts.left++;
        else {
          counts.sealed++;
          await tx.run(`update ${table} set ${column} = $2 where ${id} = $1`, [row.id, sealed]);
        }
      }
      const last = rows.at(-1);
      if (last === undefined || rows.length < STEP) break;
      after = last.id;
    }
  }
  return counts;
}
