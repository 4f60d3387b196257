import assert from 'node:assert/strict';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { z } from 'zod';
import { type Db, openDb } from '../../storage/db.ts';
import { MigrationError, migrate, readMigrations } from '../../storage/migrate.ts';
import { testDatabase } from '../support/database/database.ts';
import { silentLog } from '../support/log.ts';
import { tempDir } from '../support/temp.ts';

/** An empty database and an empty folder of migrations. */
async function bench(
  t: TestContext,
): Promise<{ db: Db; another: () => Db; write: (files: Record<string, string>) => Promise<string> }> {
  const dir = join(await tempDir(t), 'migrations');
  const database = await testDatabase();
  t.after(() => database.close());
  await database.db.script('drop schema public cascade; create schema public');
  return {
    db: database.db,
    another: () => openDb(database.connection, { log: silentLog, name: 'other' }),
    async write(files) {
      await rm(dir, { recursive: true, force: true });
      await mkdir(dir);
      for (const [name, sql] of Object.entries(files)) await writeFile(join(dir, name), sql);
      return dir;
    },
  };
}

function refused(code: MigrationError['code'], text: RegExp): (error: unknown) => boolean {
  return (error) => {
    assert.ok(error instanceof MigrationError, String(error));
    assert.equal(error.code, code);
    assert.match(error.message, text);
    return true;
  };
}

const one = { '0001-one.sql': 'create table one (id int); insert into one values (1);' };
const two = { ...one, '0002-two.sql': 'create table two (id int);' };

test('migrations are applied once, in order', async (t) => {
  const { db, write } = await bench(t);
  assert.deepEqual(await migrate(db, await write(one), silentLog), ['0001-one']);
  assert.deepEqual(await migrate(db, await write(two), silentLog), ['0002-two']);
  assert.deepEqual(await migrate(db, await write(two), silentLog), []);
});

test('what a start applies is one line of the log, and none when there is nothing', async (t) => {
  const { db, write } = await bench(t);
  const lines: object[] = [];
  const log = { ...silentLog, info: (fields: object, message: string) => void lines.push({ ...fields, message }) };
  await migrate(db, await write(two), log);
  await migrate(db, await write(two), log);
  assert.deepEqual(lines, [{ from: '0001-one', to: '0002-two', count: 2, message: 'migrations applied' }]);
});

test('two processes at once: each migration runs once', async (t) => {
  const { db, another, write } = await bench(t);
  const dir = await write(two);
  const other = another();
  const applied = await Promise.all([migrate(db, dir, silentLog), migrate(other, dir, silentLog)]);
  await other.close();
  assert.deepEqual(applied.flat().sort(), ['0001-one', '0002-two']);
  assert.equal((await db.many(z.unknown(), 'select from one')).length, 1);
});

test('a migration that fails halfway leaves nothing of itself, and runs again when it is right', async (t) => {
  const { db, write } = await bench(t);
  const dir = await write({ ...one, '0002-two.sql': 'create table two (id int); select 1/0;' });
  await assert.rejects(migrate(db, dir, silentLog), refused('failed', /0002-two.*division by zero/));
  assert.equal(await db.run("select from pg_tables where tablename in ('one', 'two')"), 1);
  assert.deepEqual(await migrate(db, await write(two), silentLog), ['0002-two']);
});

test('an applied file that changed is refused', async (t) => {
  const { db, write } = await bench(t);
  await migrate(db, await write(one), silentLog);
  const changed = await write({ '0001-one.sql': `${one['0001-one.sql']} -- edited` });
  await assert.rejects(migrate(db, changed, silentLog), refused('changed', /0001-one/));
});

test('a database newer than the code is refused', async (t) => {
  const { db, write } = await bench(t);
  await migrate(db, await write(two), silentLog);
  await assert.rejects(migrate(db, await write(one), silentLog), refused('newer', /0002-two/));
});

test('gaps, doubled numbers, wrong names and transaction control are refused', async (t) => {
  const { write } = await bench(t);
  for (const files of [
    { '0002-two.sql': 'select 1' },
    { '0001-one.sql': 'select 1', '0001-uno.sql': 'select 1' },
    { '1-one.sql': 'select 1' },
    { '0001-One.sql': 'select 1' },
    { '0001-one.sql': 'create table a (id int);\ncommit;\ncreate table b (id int);' },
  ]) {
    await assert.rejects(readMigrations(await write(files)), refused('bad_file', /Migration/));
  }
  const body = 'do $$\nbegin\n  perform 1;\nend;\n$$;';
  assert.equal((await readMigrations(await write({ '0001-one.sql': body }))).length, 1);
});
