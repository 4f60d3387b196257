/** What commands of a new version do to the schema beside processes of the version before. */

import assert from 'node:assert/strict';
import { copyFile, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { CliError } from '../../cmd/config/cli-error.ts';
import { bringUpToDate, refuseOldServer } from '../../cmd/node/database.ts';
import { NODE_FORMAT } from '../../proto/ports/placement.ts';
import { migrate, migrationsDir, readMigrations, schemaVersion } from '../../storage/migrate.ts';
import { troupe } from '../support/cluster/platform.ts';
import { testDatabase } from '../support/database/database.ts';
import { silentLog } from '../support/log.ts';
import { tempDir } from '../support/temp.ts';

/** A database as a version left it that knew the first `count` migrations. */
async function ofVersion(t: TestContext, count: number) {
  const database = await testDatabase();
  t.after(() => database.close());
  await database.db.script('drop schema public cascade; create schema public');
  const dir = join(await tempDir(t), 'migrations');
  await mkdir(dir);
  for (const { name } of (await readMigrations()).slice(0, count))
    await copyFile(join(migrationsDir, `${name}.sql`), join(dir, `${name}.sql`));
  await migrate(database.db, dir, silentLog);
  return database;
}

/** Makes the database one on which a node lives. */
const addNode = (db: Awaited<ReturnType<typeof ofVersion>>['db']) =>
  db.run(
    `insert into placement_nodes (id, roles, version, address, draining, expires_at)
     values ('old', '{auth}', '0.0.9', 'elsewhere:1', false, now() + interval '1 hour')`,
  );

const REFUSAL = new RegExp(
  `node at elsewhere:1 \\(version 0\\.0\\.9\\) speaks format 1 .+ only ${NODE_FORMAT}.+stop all others first`,
);

// Before placement, before nodes said their format, and after.
for (const count of [14, 20])
  test(`a schema of ${count} migrations is let be while a node of another format lives, and brought up to date after`, async (t) => {
    const { db } = await ofVersion(t, count);
    await addNode(db);
    await assert.rejects(bringUpToDate(db, silentLog), (error) => {
      assert.ok(error instanceof CliError);
      assert.match(error.message, REFUSAL);
      return true;
    });
    assert.equal((await schemaVersion(db)).has, count);
    await db.run("update placement_nodes set expires_at = now() - interval '1 second'");
    await bringUpToDate(db, silentLog);
    const { has, knows } = await schemaVersion(db);
    assert.equal(has, knows);
  });

test('a process that takes the place of the node of another format does not wait for its lease', async (t) => {
  const { db } = await ofVersion(t, 14);
  await addNode(db);
  await bringUpToDate(db, silentLog, 'old');
  const { has, knows } = await schemaVersion(db);
  assert.equal(has, knows);
});

test('a database without nodes, or without anything, is brought up to date', async (t) => {
  for (const count of [0, 8]) {
    const { db } = await ofVersion(t, count);
    await bringUpToDate(db, silentLog);
    const { has, knows } = await schemaVersion(db);
    assert.equal(has, knows);
  }
});

test('every command is refused before it migrates under a node of another format, and says what to do', async (t) => {
  const { db, url } = await ofVersion(t, 20);
  await addNode(db);
  const data = join(await tempDir(t), 'data');
  const env = {
    DATABASE_URL: url,
    JWT_SECRET: 'not a secret, but long enough for one',
    ENCRYPTION_KEY: Buffer.alloc(32, 7).toString('base64'),
    NATS_URL: 'nats://127.0.0.1:1',
    NATS_INSECURE: 'allow',
  };
  const alone = ['auth', 'compute', 'notify', 'monitor'].map((name) => [name, '-addr', '127.0.0.1:0']);
  // Where no Docker Engine is given, it would start one first.
  const up = process.env.DOCKER_HOST === undefined ? [] : [['up', '--data', data]];
  const commands = [...alone, ['gateway', '--data', data], ...up, ['migrate'], ['users', 'list']];
  for (const command of commands) {
    const { code, stderr } = await troupe(command, { env });
    assert.equal(code, 1, `${command}: ${stderr}`);
    assert.match(stderr, REFUSAL, String(command));
    assert.equal((await schemaVersion(db)).has, 20, String(command));
  }
});

test('a command that reads or changes rows is no upgrade: it leaves an older schema, and says what applies the rest', async (t) => {
  const { db, url } = await ofVersion(t, 20);
  const env = { DATABASE_URL: url };
  for (const command of [['users', 'list'], ['containers', 'list', '--json'], ['audit']]) {
    const { code, stdout, stderr } = await troupe(command, { env });
    assert.equal(code, 1, `${command}: ${stderr}`);
    assert.equal(stdout, '');
    assert.match(stderr, /has 20 of the \d+ migrations of this version.+`troupe migrate`/);
    assert.equal((await schemaVersion(db)).has, 20, String(command));
  }
  const { code } = await troupe(['migrate'], { env });
  assert.equal(code, 0);
  assert.equal((await troupe(['users', 'list'], { env })).code, 0);
});

test('a server that is too old is refused, with the version that is needed', () => {
  assert.throws(
    () => refuseOldServer(14),
    (error) => error instanceof CliError && /is PostgreSQL 14; Troupe needs 15 or newer\. Upgrade/.test(error.message),
  );
  refuseOldServer(15);
});
