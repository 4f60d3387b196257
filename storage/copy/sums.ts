/** Whether the rows of a copy are those of the original. */
import { createHash } from 'node:crypto';
import type pg from 'pg';
import { CopyError, type CopyPart, type RowsPart, readRows, SAME_TEXT } from './parts.ts';

/** The rows of a table by their hash. */
export interface TableSum {
  readonly table: string;
  readonly columns: string;
  readonly sha256: string;
}

/** The same parts; notes in `sums` what goes by. */
export async function* summed(parts: AsyncIterable<CopyPart>, sums: TableSum[]): AsyncGenerator<CopyPart> {
  for await (const part of parts) yield part.kind === 'rows' ? { ...part, data: hashed(part, sums) } : part;
}

async function* hashed({ table, columns, data }: RowsPart, sums: TableSum[]): AsyncGenerator<Buffer> {
  const hash = createHash('sha256');
  for await (const chunk of data) {
    hash.update(chunk);
    yield chunk;
  }
  sums.push({ table, columns, sha256: hash.digest('hex') });
}

/**
 * Reads every table again. A table that was just loaded is stored in the order in which its rows came. Rejects
 * CopyError `differs` with the first table that holds something else.
 */
export async function checkSums(client: pg.Client, sums: readonly TableSum[]): Promise<void> {
  await client.query(SAME_TEXT);
  for (const { table, columns, sha256 } of sums) {
    const hash = createHash('sha256');
    for await (const chunk of readRows(client, { table, columns })) hash.update(chunk);
    if (hash.digest('hex') !== sha256)
      throw new CopyError('differs', `The copy of ${table} differs from the original.`);
  }
}
