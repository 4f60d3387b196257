/** Reads a whole database, as it is at one moment: the schema from the migrations, the rows from the server. */
import type pg from 'pg';
import { z } from 'zod';
import { APPLIED, appliedOf, readMigrations, TABLE_OF_MIGRATIONS } from '../migrate.ts';
import { CopyError, type CopyPart, readRows, SAME_TEXT } from './parts.ts';

const CREATED = /create\s+(?:table|sequence)\s+(?:if\s+not\s+exists\s+)?([a-z_]+)/gi;

/** Rows of `text`, whose columns `schema` describes. */
export async function rowsOf<S extends z.ZodType>(
  client: pg.Client,
  schema: S,
  text: string,
  values: readonly unknown[] = [],
): Promise<z.output<S>[]> {
  const { rows } = await client.query(text, [...values]);
  return z.array(schema).parse(rows);
}

/**
 * The parts that make the database again in an empty schema `public`. What Troupe did not make is left out, and so are
 * rights, roles, and columns with numbers of transactions, which mean nothing on another server. `client` is in a
 * transaction afterwards: end it. Rejects CopyError `empty`, MigrationError `newer` or `changed`.
 */
export async function* dumpDatabase(client: pg.Client): AsyncGenerator<CopyPart> {
  await client.query(SAME_TEXT);
  await client.query('begin isolation level repeatable read read only');
  const { rows: there } = await client.query("select from pg_class where oid = to_regclass('public.migrations')");
  if (there.length === 0) throw new CopyError('empty', 'The database holds no platform: there is nothing to copy.');
  const known = await readMigrations();
  const { rows } = await client.query(APPLIED);
  const applied = appliedOf(rows, known);
  const names = ['migrations', ...applied.flatMap(({ sql }) => [...sql.matchAll(CREATED)].map(([, name]) => name))];
  yield { kind: 'sql', text: [`${TABLE_OF_MIGRATIONS};`, ...applied.map(({ sql }) => sql)].join('\n') };
  const around = await statementsAround(client, names);
  const tables = await tablesOf(client, names);
  const before = [...around.map((row) => row.before), `truncate ${tables.map(({ table }) => table).join(', ')};`];
  yield { kind: 'sql', text: `${before.join('\n')}\n` };
  for (const of of tables) yield { kind: 'rows', ...of, data: readRows(client, of) };
  const after = [...(await sequencesOf(client, names)), ...around.map((row) => row.after)];
  yield { kind: 'sql', text: `${after.join('\n')}\n` };
}

const tableRow = z.object({ table: z.string(), columns: z.string() });

function tablesOf(client: pg.Client, names: readonly unknown[]): Promise<z.output<typeof tableRow>[]> {
  return rowsOf(
    client,
    tableRow,
    `select format('public.%I', relname) as table,
       string_agg(quote_ident(attname), ', ' order by attnum) as columns
     from pg_class join pg_attribute on attrelid = pg_class.oid
     where relkind = 'r' and relnamespace = 'public'::regnamespace and relname = any($1)
       and attnum > 0 and not attisdropped and attgenerated = '' and atttypid <> 'xid8'::regtype
     group by relname order by relname`,
    [names],
  );
}

const aroundRow = z.object({ before: z.string(), after: z.string() });

/** What keeps rows from being loaded in any order: triggers, and references, which are checked all at once instead. */
function statementsAround(client: pg.Client, names: readonly unknown[]): Promise<z.output<typeof aroundRow>[]> {
  return rowsOf(
    client,
    aroundRow,
    `with ours as (select oid, format('public.%I', relname) as name from pg_class
       where relnamespace = 'public'::regnamespace and relname = any($1))
     select format('alter table %s drop constraint %I;', name, conname) as before,
       format('alter table %s add constraint %I %s;', name, conname, pg_get_constraintdef(pg_constraint.oid)) as after
     from ours join pg_constraint on conrelid = ours.oid where contype = 'f'
     union all
     select distinct format('alter table %s disable trigger user;', name),
       format('alter table %s enable trigger user;', name)
     from ours join pg_trigger on tgrelid = ours.oid where not tgisinternal
     order by 1`,
    [names],
  );
}

const sequenceRow = z.object({ sequence: z.string() });
const valueRow = z.object({ statement: z.string() });

async function sequencesOf(client: pg.Client, names: readonly unknown[]): Promise<string[]> {
  const sequences = await rowsOf(
    client,
    sequenceRow,
    `select format('public.%I', relname) as sequence from pg_class
     where relkind = 'S' and relnamespace = 'public'::regnamespace and (relname = any($1) or exists (
       select from pg_depend join pg_class owner on owner.oid = refobjid
       where objid = pg_class.oid and deptype in ('a', 'i') and owner.relname = any($1)))
     order by relname`,
    [names],
  );
  const statements: string[] = [];
  for (const { sequence } of sequences) {
    const text = `select format('select pg_catalog.setval(%L, %s, %L);', $1::text, last_value, is_called) as statement
       from ${sequence}`;
    for (const { statement } of await rowsOf(client, valueRow, text, [sequence])) statements.push(statement);
  }
  return statements;
}
