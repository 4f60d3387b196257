/** A database as a sequence of parts: what a dump holds, and what is loaded into another server. */
import { once } from 'node:events';
import type { Readable } from 'node:stream';
import pg from 'pg';
import { from as copyFrom, to as copyTo } from 'pg-copy-streams';
import { CodedError } from '../../lib/errors.ts';
import { clientAddress, type DbConnection } from '../db.ts';

/** Why a database cannot be copied. The message says what to do. */
export class CopyError extends CodedError<'empty' | 'not_empty' | 'in_use' | 'not_a_dump' | 'cut_off' | 'differs'> {}

/** Rows of one table, in the text format of COPY. */
export interface RowsPart {
  readonly kind: 'rows';
  /** As SQL has it, with its schema. */
  readonly table: string;
  /** Names as SQL has them, separated by commas. */
  readonly columns: string;
  readonly data: AsyncIterable<Buffer>;
}

/** Statements to run, or rows to load. Rows must be read to their end before the next part is asked for. */
export type CopyPart = { readonly kind: 'sql'; readonly text: string } | RowsPart;

/** A connection of its own, without the bounds that the pool sets: a large table takes longer. End it afterwards. */
export async function openClient(connection: DbConnection, name: string): Promise<pg.Client> {
  const client = new pg.Client({
    ...clientAddress(connection),
    application_name: `troupe/${name}`,
    connectionTimeoutMillis: 10_000,
    keepAlive: true,
  });
  // Whoever waits for an answer hears of it.
  client.on('error', () => undefined);
  await client.connect();
  return client;
}

/** Settings under which two servers write the same value as the same text. */
export const SAME_TEXT =
  "set timezone = 'UTC'; set datestyle = 'ISO, YMD'; set intervalstyle = 'postgres'; set extra_float_digits = 3; " +
  "set bytea_output = 'hex'; set client_encoding = 'UTF8'; set synchronize_seqscans = off; set search_path = public; " +
  'set statement_timeout = 0; set lock_timeout = 0; set idle_in_transaction_session_timeout = 0';

/** The rows of a table as the server sends them, in the order in which they are stored. */
export function readRows(client: pg.Client, { table, columns }: Omit<RowsPart, 'kind' | 'data'>): Readable {
  return client.query(copyTo(`copy ${table} (${columns}) to stdout`));
}

/** Runs the statements and loads the rows, in the transaction that `client` is in. Resolves with the number of rows. */
export async function loadParts(client: pg.Client, parts: AsyncIterable<CopyPart>): Promise<number> {
  let rows = 0;
  for await (const part of parts) {
    if (part.kind === 'sql') await client.query(part.text);
    else rows += await loadRows(client, part);
  }
  return rows;
}

async function loadRows(client: pg.Client, { table, columns, data }: RowsPart): Promise<number> {
  const sink = client.query(copyFrom(`copy ${table} (${columns}) from stdin`));
  const done = once(sink, 'finish');
  // Heard below, also when it fails while a chunk is waited for.
  done.catch(() => undefined);
  try {
    for await (const chunk of data) {
      if (!sink.write(chunk)) await Promise.race([once(sink, 'drain'), done]);
    }
    sink.end();
    await done;
  } catch (error) {
    sink.destroy();
    throw error;
  }
  return sink.rowCount;
}
