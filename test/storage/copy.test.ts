/** A database as a script and back: what `troupe database dump` and `restore` do. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { promisify } from 'node:util';
import { dumpDatabase } from '../../storage/copy/dump.ts';
import { dumpScript, restoreScript } from '../../storage/copy/files.ts';
import { CopyError, loadParts, openClient } from '../../storage/copy/parts.ts';
import { checkSums, summed, type TableSum } from '../../storage/copy/sums.ts';
import { testDatabase } from '../support/database/database.ts';
import { describeSchema } from '../support/database/describe-schema.ts';
import { contents, fill } from '../support/database/old-database.ts';
import { skipWithout } from '../support/require.ts';
import { tempDir } from '../support/temp.ts';

async function database(t: TestContext) {
  const made = await testDatabase();
  t.after(() => made.close());
  return made;
}

/** The script of a database with rows of each kind, and what that holds. */
async function filled(t: TestContext) {
  const { db, connection } = await database(t);
  await fill(db, 1000);
  const chunks: Buffer[] = [];
  for await (const chunk of dumpScript(connection)) chunks.push(chunk);
  return { script: Buffer.concat(chunks), holds: await contents(db), schema: await describeSchema(db), connection };
}

/** In pieces that end anywhere. */
async function* pieces(script: Buffer, size: number): AsyncGenerator<Buffer> {
  for (let at = 0; at < script.length; at += size) yield script.subarray(at, at + size);
}

const coded = (code: CopyError['code']) => (error: unknown) => error instanceof CopyError && error.code === code;

test('a script holds all of a database, however its file is cut into pieces', async (t) => {
  const { script, holds, schema } = await filled(t);
  for (const size of [7, 65_536]) {
    const { db, connection } = await database(t);
    await assert.rejects(restoreScript(connection, pieces(script, 65_536), { replace: false }), coded('not_empty'));
    assert.ok((await restoreScript(connection, pieces(script, size), { replace: true })) > 1000);
    assert.equal(await contents(db), holds);
    assert.equal(await describeSchema(db), schema);
    await assert.rejects(restoreScript(connection, pieces(script, 65_536), { replace: true }), coded('in_use'));
  }
});

test('psql runs a script', { skip: skipWithout('psql') }, async (t) => {
  const { script, holds } = await filled(t);
  const { db, url } = await database(t);
  await db.script('drop schema public cascade; create schema public');
  const file = join(await tempDir(t), 'dump.sql');
  await writeFile(file, script);
  await promisify(execFile)('psql', ['-q', '--set=ON_ERROR_STOP=1', '--dbname', url, '-f', file]);
  assert.equal(await contents(db), holds);
});

test('a script without its end, and what is none, change nothing', async (t) => {
  const { script } = await filled(t);
  const { db, connection } = await database(t);
  const before = await describeSchema(db);
  await db.close();
  const inRows = script.indexOf('\n', script.indexOf('COPY public.users'));
  const until = (end: number) => pieces(script.subarray(0, end), 65_536);
  for (const end of [200, inRows + 20, script.length - 3])
    await assert.rejects(restoreScript(connection, until(end), { replace: true }), coded('cut_off'));
  for (const other of ['', 'PGDMP\n', 'create table a (n int);\n'])
    await assert.rejects(
      restoreScript(connection, pieces(Buffer.from(other), 10), { replace: true }),
      coded('not_a_dump'),
    );
  const client = await openClient(connection, 'test');
  t.after(() => client.end());
  const { rows } = await client.query("select count(*)::int as n from pg_class where relname = 'users'");
  assert.deepEqual(rows, [{ n: 1 }]);
  assert.ok(before.includes('create table users'));
});

test('a copy with one other value is told from the original', async (t) => {
  const { connection } = await filled(t);
  const target = await database(t);
  await target.db.script('drop schema public cascade; create schema public');
  const [from, to] = [await openClient(connection, 'test'), await openClient(target.connection, 'test')];
  t.after(() => Promise.all([from.end(), to.end()]));
  const sums: TableSum[] = [];
  await to.query('begin; set local search_path to public');
  await loadParts(to, summed(dumpDatabase(from), sums));
  await to.query('commit');
  await checkSums(to, sums);
  await to.query(`update bus_messages set data = '\\x00' where seq = 777`);
  await assert.rejects(checkSums(to, sums), /The copy of public\.bus_messages differs/);
});

test('a database without a platform is not dumped', async (t) => {
  const { db, connection } = await database(t);
  await db.script('drop schema public cascade; create schema public');
  await assert.rejects(async () => {
    for await (const chunk of dumpScript(connection)) assert.ok(chunk.length > 0);
  }, coded('empty'));
});
