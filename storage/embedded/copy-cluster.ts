/** All that one server of ours holds, copied into a new one and compared. */
import pg from 'pg';
import { z } from 'zod';
import { dumpDatabase, rowsOf } from '../copy/dump.ts';
import { CopyError, loadParts, openClient } from '../copy/parts.ts';
import { grantsOf, leftBehind, relationsOf, rolesOf, settingsOf } from '../copy/server-wide.ts';
import { checkSums, summed, type TableSum } from '../copy/sums.ts';
import { CLUSTER_USER } from './cluster.ts';
import { createDatabase, DATABASE } from './connections.ts';
import type { Postmaster } from './postmaster.ts';

/** Whoever has rights to a table of somebody's own, or to a function: they stay behind with it. */
const MISSING = ['42P01', '42883', '42704'];

/** Resolves with the names of what was left behind. Rejects CopyError `differs` when the copy is not the original. */
export async function copyCluster(
  original: Postmaster,
  copy: Postmaster,
  onProgress: (line: string) => void,
): Promise<readonly string[]> {
  const clients: pg.Client[] = [];
  const open = async ({ socketDir, port }: Postmaster, database: string) => {
    const client = await openClient({ socketDir, port, user: CLUSTER_USER, database }, 'upgrade');
    clients.push(client);
    return client;
  };
  try {
    const admin = await open(original, 'postgres');
    // A first start that was killed may not have come so far.
    if (!(await hasDatabase(admin))) return await leftBehind(admin, new Set());
    await createDatabase(copy);
    const [from, to] = [await open(original, DATABASE), await open(copy, DATABASE)];
    for (const statement of await rolesOf(from)) await to.query(statement);
    await copyRows(from, to, onProgress);
    for (const statement of await grantsOf(from)) await unlessMissing(to.query(statement));
    const notTaken = await copySettings(from, to);
    return [...(await leftBehind(from, await relationsOf(to))), ...notTaken];
  } finally {
    await Promise.all(clients.map((client) => client.end()));
  }
}

async function hasDatabase(client: pg.Client): Promise<boolean> {
  const found = 'select datname from pg_database where datname = $1';
  return (await rowsOf(client, z.object({ datname: z.string() }), found, [DATABASE])).length > 0;
}

async function copyRows(from: pg.Client, to: pg.Client, onProgress: (line: string) => void): Promise<void> {
  const sums: TableSum[] = [];
  onProgress('Copying the tables');
  await to.query('begin; set local search_path to public');
  let rows: number;
  try {
    rows = await loadParts(to, summed(dumpDatabase(from), sums));
  } catch (error) {
    // A platform whose first start was killed before its first migration.
    if (!(error instanceof CopyError) || error.code !== 'empty') throw error;
    await to.query('rollback');
    return;
  }
  await to.query('commit');
  onProgress(`Comparing ${sums.length} tables with ${rows} rows`);
  await checkSums(to, sums);
  await to.query('analyze');
}

async function unlessMissing(answer: Promise<unknown>): Promise<void> {
  try {
    await answer;
  } catch (error) {
    if (!(error instanceof pg.DatabaseError) || !MISSING.includes(error.code ?? '')) throw error;
  }
}

/** Takes over what an operator set. Resolves with the names of what the new version does not take. */
async function copySettings(from: pg.Client, to: pg.Client): Promise<string[]> {
  const theirs = new Map((await settingsOf(to)).map(({ name, setting }) => [name, setting]));
  const refused: string[] = [];
  for (const { name, setting } of await settingsOf(from)) {
    if (theirs.get(name) === setting) continue;
    try {
      await to.query(`alter system set ${to.escapeIdentifier(name)} = ${to.escapeLiteral(setting)}`);
    } catch (error) {
      if (!(error instanceof pg.DatabaseError)) throw error;
      refused.push(`setting ${name}`);
    }
  }
  return refused;
}
