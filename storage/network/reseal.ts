/** SQL that seals everything of domains anew under another key. */
import { z } from 'zod';
import type { Tx } from '../db.ts';
import { accountContext, challengeContext } from './acme.ts';
import { orderContext } from './certificate-orders.ts';
import { keyContext } from './certificates.ts';
import { tokenContext } from './zones.ts';

/** Seals a value anew; undefined when it does not open with the old key. */
type Reseal = (context: string, sealed: Uint8Array) => Buffer | undefined;

/** Rows in memory at once. */
const STEP = 200;

const sealedRow = z.object({ id: z.string(), serial: z.number(), sealed: z.instanceof(Buffer) });

/** Where sealed values stand: all of this room. */
const PLACES: readonly {
  readonly table: string;
  readonly id: string;
  readonly column: string;
  readonly serial?: string;
  readonly context: (id: string, serial: number) => string;
}[] = [
  { table: 'owned_domains', id: 'id', column: 'token', context: tokenContext },
  { table: 'acme_accounts', id: 'directory_url', column: 'key_sealed', context: accountContext },
  { table: 'acme_challenges', id: 'hostname', column: 'key_sealed', context: challengeContext },
  { table: 'certificates', id: 'hostname', column: 'key_sealed', serial: 'serial', context: keyContext },
  { table: 'certificates', id: 'hostname', column: 'order_key_sealed', context: orderContext },
];

/** The columns, as `table.column`. */
export const SEALED_COLUMNS: readonly string[] = PLACES.map(({ table, column }) => `${table}.${column}`);

/**
 * Seals all of them anew. What does not open is left as it is. Returns how many were sealed, and how many were left.
 */
export async function resealNetwork(tx: Tx, reseal: Reseal): Promise<{ sealed: number; left: number }> {
  const counts = { sealed: 0, left: 0 };
  for (const { table, id, column, serial = '0::bigint', context } of PLACES) {
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
