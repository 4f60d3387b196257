import assert from 'node:assert/strict';
import { suite, type TestContext, test } from 'node:test';
import { z } from 'zod';
import { openDb, StorageError } from '../../storage/db.ts';
import { type TestDatabase, testDatabase } from '../support/database/database.ts';
import { startTransactionPooler } from '../support/database/transaction-pooler.ts';
import { silentLog } from '../support/log.ts';
import { pause } from '../support/pause.ts';
import { until } from '../support/until.ts';

const n = z.object({ n: z.number() });

async function pooled(t: TestContext, limits = {}) {
  const database: TestDatabase = await testDatabase();
  t.after(() => database.close());
  const pooler = await startTransactionPooler(t, database.connection);
  const connection = { connectionString: pooler.urlOf(database.connection), direct: database.url };
  const db = openDb(connection, { log: silentLog, name: 'pooled', max: 3, limits });
  t.after(() => db.close());
  return { db, pooler };
}

suite('a database behind a pooler in transaction mode', () => {
  test('statements and transactions find no connection twice, and are right', async (t) => {
    const { db, pooler } = await pooled(t);
    await db.script('create table things (id int primary key, name text)');
    const work = Array.from({ length: 50 }, (_, id) =>
      db.tx(async (tx) => {
        await tx.run('insert into things values ($1, $2)', [id, 'new']);
        await tx.run('update things set name = $2 where id = $1', [id, `thing ${id}`]);
      }),
    );
    await Promise.all(work);
    const names = await Promise.all(
      Array.from({ length: 50 }, (_, id) =>
        db.one(n, 'select count(*) as n from things where id = $1 and name = $2', [id, `thing ${id}`]),
      ),
    );
    assert.ok(names.every((row) => row?.n === 1));
    const pids = z.object({ pid: z.number() });
    const seen = [
      await db.one(pids, 'select pg_backend_pid() as pid'),
      await db.one(pids, 'select pg_backend_pid() as pid'),
    ];
    assert.notEqual(seen[0]?.pid, seen[1]?.pid);
    assert.ok(pooler.transactions >= 100);
  });

  test('transactions are bounded as on a connection of their own', async (t) => {
    const { db } = await pooled(t, { statementMs: 200, idleInTransactionMs: 300 });
    const isCode =
      (...codes: string[]) =>
      (error: unknown) =>
        error instanceof StorageError && codes.includes(error.code);
    await assert.rejects(
      db.tx((tx) => tx.run('select pg_sleep(20)')),
      isCode('timeout'),
    );
    const idle = db.tx(async (tx) => {
      await tx.ping();
      // Longer than a transaction may do nothing.
      await pause(1000, 'fault');
      await tx.ping();
    });
    await assert.rejects(idle, isCode('timeout', 'unavailable'));
    // What one transaction has set is gone in the next.
    const unbounded = await db.one(
      z.object({ value: z.string() }),
      "select current_setting('statement_timeout') as value",
    );
    assert.equal(unbounded?.value, '0');
  });

  test('notifications come over the connection beside it', async (t) => {
    const { db } = await pooled(t);
    const heard: string[] = [];
    const listening = db.listen('things', (payload) => heard.push(payload));
    await until(() => heard.length === 1, { what: 'it listens' });
    await db.tx((tx) => tx.notify('things', 'from a transaction'));
    await db.notify('things', 'from a statement');
    await until(() => heard.length === 3, { what: 'both notifications' });
    assert.deepEqual(heard, ['', 'from a transaction', 'from a statement']);
    await listening.close();
  });
});
