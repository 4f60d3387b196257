import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, suite, test } from 'node:test';
import { z } from 'zod';
import { type Db, isConstraint, openDb, StorageError, type StorageErrorCode } from '../../storage/db.ts';
import type { DirectQueries } from '../../storage/queries.ts';
import { type TestDatabase, testDatabase } from '../support/database/database.ts';
import { silentLog } from '../support/log.ts';
import { until } from '../support/until.ts';

const n = z.object({ n: z.number() });

function fails(code: StorageErrorCode): (error: unknown) => boolean {
  return (error) => {
    assert.ok(error instanceof StorageError, String(error));
    assert.equal(error.code, code, error.message);
    return true;
  };
}

suite('database handle', () => {
  let database: TestDatabase;
  let db: Db;
  before(async () => {
    database = await testDatabase();
    db = database.db;
    await db.script(`create table things (id int primary key, name text, constraint name_length check (length(name) < 10));
      insert into things values (1, 'one'), (2, 'two')`);
  });
  after(() => database.close());

  test('rows go through the schema', async () => {
    assert.deepEqual(await db.many(n, 'select id as n from things order by id'), [{ n: 1 }, { n: 2 }]);
    assert.deepEqual(await db.one(n, 'select id as n from things where id = $1', [2]), { n: 2 });
    assert.equal(await db.one(n, 'select 1 as n where false'), undefined);
    assert.equal(await db.run('update things set name = name'), 2);
    await assert.rejects(db.one(n, 'select id as n from things'), fails('internal'));
  });

  test('a row of another shape is refused without showing its values', async () => {
    await assert.rejects(db.many(n, "select 'hidden value' as n"), (error: unknown) => {
      assert.ok(fails('internal')(error) && error instanceof Error);
      assert.match(error.message, /\bn\b/);
      assert.doesNotMatch(error.message, /hidden/);
      return true;
    });
  });

  test('values arrive as the types that were promised', async () => {
    const row = await db.one(
      z.object({
        big: z.number(),
        bigs: z.array(z.number().nullable()),
        at: z.date(),
        bytes: z.instanceof(Buffer),
        day: z.string(),
        json: z.object({ a: z.array(z.number()) }),
        exact: z.string(),
      }),
      `select 9007199254740991::int8 as big, array[1, null]::int8[] as bigs, '2026-01-02T03:04:05Z'::timestamptz as at,
         $1::bytea as bytes, '2026-01-02'::date as day, $2::jsonb as json, 1.10::numeric as exact`,
      [Buffer.from([0, 255]), JSON.stringify({ a: [1] })],
    );
    assert.deepEqual(row, {
      big: Number.MAX_SAFE_INTEGER,
      bigs: [1, null],
      at: new Date('2026-01-02T03:04:05Z'),
      bytes: Buffer.from([0, 255]),
      day: '2026-01-02',
      json: { a: [1] },
      exact: '1.10',
    });
  });

  test('an int8 beyond 2^53 is refused, and the connection stays usable', async () => {
    await assert.rejects(db.many(n, 'select 9007199254740993::int8 as n'), fails('invalid'));
    await assert.rejects(db.many(n, 'select array[9007199254740993]::int8[] as n'), fails('invalid'));
    await db.ping();
  });

  test('text with NUL is refused before it is sent, in arrays too', async () => {
    await assert.rejects(db.run('insert into things values (9, $1)', ['a\0b']), fails('invalid'));
    await assert.rejects(db.run('select $1::text[]', [['fine', 'a\0b']]), fails('invalid'));
    await assert.rejects(db.run('select $1::jsonb', [JSON.stringify('a\0b')]), fails('invalid'));
  });

  test('errors carry a code, the constraint and the cause', async () => {
    await assert.rejects(db.run("insert into things values (1, 'again')"), (error: unknown) => {
      assert.ok(isConstraint(error, 'things_pkey') && !isConstraint(error, 'name_length') && isConstraint(error));
      assert.ok(error instanceof StorageError && error.cause instanceof Error && error.sqlState === '23505');
      return true;
    });
    await assert.rejects(db.run("insert into things values (3, 'longer than ten')"), (error: unknown) =>
      isConstraint(error, 'name_length'),
    );
    await assert.rejects(db.run('select 1/0'), fails('invalid'));
    await assert.rejects(db.run('select from nothing_of_that_name'), fails('internal'));
  });

  test('a transaction commits when its function resolves and rolls back when it rejects', async () => {
    assert.equal(await db.tx(async (tx) => tx.run("insert into things values (10, 'ten')")), 1);
    const boom = new Error('boom');
    await assert.rejects(
      db.tx(async (tx) => {
        await tx.run("insert into things values (11, 'eleven')");
        throw boom;
      }),
      (error) => error === boom,
    );
    assert.deepEqual(await db.many(n, 'select id as n from things where id in (10, 11)'), [{ n: 10 }]);
  });

  test('statements of one transaction given at once run one after the other', async () => {
    const rows = await db.tx((tx) =>
      Promise.all([1, 2, 3].map((value) => tx.one(n, 'select $1::int as n from pg_sleep(0.01)', [value]))),
    );
    assert.deepEqual(rows, [{ n: 1 }, { n: 2 }, { n: 3 }]);
  });

  test('a transaction whose failed statement was swallowed is not reported as committed', async () => {
    await assert.rejects(
      db.tx(async (tx) => {
        await tx.run("insert into things values (20, 'twenty')");
        await tx.run('select 1/0').catch(() => undefined);
      }),
      fails('internal'),
    );
    assert.equal(await db.one(n, 'select id as n from things where id = 20'), undefined);
  });

  test('a transaction is unusable once it ended', async () => {
    const kept = await db.tx(async (tx) => tx);
    await assert.rejects(kept.ping(), fails('internal'));
  });

  test('lost serializations are tried again until all are counted', async () => {
    await db.script('create table counter (n int); insert into counter values (0)');
    let runs = 0;
    let met: () => void = () => undefined;
    const allHaveRead = new Promise<void>((resolve) => {
      met = resolve;
    });
    const increment = () =>
      db.tx(
        async (tx) => {
          runs += 1;
          const row = await tx.one(n, 'select n from counter');
          if (runs >= 3) met();
          await allHaveRead;
          await tx.run('update counter set n = $1', [(row?.n ?? 0) + 1]);
        },
        { isolation: 'serializable' },
      );
    await Promise.all([increment(), increment(), increment()]);
    assert.deepEqual(await db.one(n, 'select n from counter'), { n: 3 });
    assert.ok(runs > 3, 'nothing collided');
  });

  test('a deadlock is resolved by trying again', async () => {
    let met: () => void = () => undefined;
    const both = new Promise<void>((resolve) => (met = resolve));
    let holding = 0;
    const touch = (first: number, second: number) =>
      db.tx(async (tx) => {
        await tx.run('update things set name = name where id = $1', [first]);
        holding += 1;
        if (holding === 2) met();
        await both;
        await tx.run('update things set name = name where id = $1', [second]);
      });
    await Promise.all([touch(1, 2), touch(2, 1)]);
    assert.ok(holding >= 3, 'nothing deadlocked');
  });

  test('a statement prepared before its table changed is prepared again', async () => {
    await db.script('create table shape (a int); insert into shape values (1)');
    const all = 'select * from shape';
    await Promise.all(Array.from({ length: 12 }, () => db.many(z.object({ a: z.number() }), all)));
    await db.script('alter table shape add column b int default 2');
    const rows = await db.many(z.object({ a: z.number(), b: z.number() }), all);
    assert.deepEqual(rows, [{ a: 1, b: 2 }]);
  });

  test('the server knows who is connected', async () => {
    const row = await db.one(z.object({ name: z.string() }), "select current_setting('application_name') as name");
    assert.deepEqual(row, { name: 'troupe/test reads news' });
  });
});

suite('bounds', () => {
  let database: TestDatabase;
  before(async () => {
    database = await testDatabase();
  });
  after(() => database.close());

  const bounded = (limits: object, max = 2) =>
    openDb(database.connection, { log: silentLog, name: 'bounded', max, limits });

  test('waiting for a connection ends with unavailable', async () => {
    const db = bounded({ connectMs: 1000 }, 1);
    let release: () => void = () => undefined;
    const held = new Promise<void>((resolve) => (release = resolve));
    const holding = db.tx(() => held);
    await assert.rejects(db.ping(), fails('unavailable'));
    release();
    await holding;
    await db.ping();
    await db.close();
  });

  test('a long statement is cancelled and the connection goes on', async () => {
    const db = bounded({ statementMs: 50 });
    await assert.rejects(db.run('select pg_sleep(30)'), fails('timeout'));
    await db.ping();
    assert.equal(await db.tx((tx) => tx.run('select pg_sleep(0.1)'), { timeoutMs: 5000 }), 1);
    await db.close();
  });

  test('a transaction that forgets to go on is ended by the server', async () => {
    const db = bounded({ idleInTransactionMs: 50 });
    await assert.rejects(
      db.tx(async (tx) => {
        await tx.ping();
        await until(
          async () =>
            (await database.db.run(
              "select from pg_stat_activity where application_name like 'troupe/bounded%' and state = 'idle in transaction'",
            )) === 0,
        );
        await tx.ping();
      }),
      (error: unknown) => error instanceof StorageError && /unavailable|timeout/.test(error.code),
    );
    await db.ping();
    await db.close();
  });

  test('connections killed by the server are replaced', async () => {
    const db = bounded({}, 2);
    await Promise.all([db.ping(), db.ping()]);
    const kill = "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'troupe/bounded%'";
    assert.ok((await database.db.run(kill)) > 0);
    await until(() =>
      db.ping().then(
        () => true,
        () => false,
      ),
    );
    await assert.rejects(
      db.tx(async (tx) => {
        await tx.ping();
        await database.db.run(kill);
        await tx.run('select pg_sleep(1)');
      }),
      fails('unavailable'),
    );
    await db.ping();
    await db.close();
  });

  test('close waits for what runs and refuses what comes later', async () => {
    const db = bounded({});
    const running = db.tx(async (tx) => {
      await tx.run('select pg_sleep(0.05)');
      return tx.one(n, 'select 1 as n');
    });
    const closing = db.close();
    await assert.rejects(db.ping(), fails('unavailable'));
    assert.throws(() => db.listen('news', () => undefined), fails('unavailable'));
    assert.deepEqual(await running, { n: 1 });
    await closing;
    await db.close();
  });

  test('a server that is not there is unavailable', async () => {
    for (const connection of [
      { socketDir: '/nonexistent', user: 'x', database: 'x' },
      { connectionString: 'postgresql://x@127.0.0.1:1/x' },
      { ...database.connection, database: 'no_such_database' },
    ]) {
      const db = openDb(connection, { log: silentLog, name: 'nowhere' });
      await assert.rejects(db.ping(), fails('unavailable'));
      await db.close();
    }
  });

  test('a URL works like a socket folder', async () => {
    const db = openDb({ connectionString: database.url }, { log: silentLog, name: 'url' });
    await db.ping();
    await db.close();
  });
});

suite('the connection that is for leases and notifications', () => {
  const pidRow = z.object({ pid: z.number() });
  let database: TestDatabase;
  let db: Db;
  before(async () => {
    database = await testDatabase();
  });
  after(() => database.close());
  beforeEach(() => {
    db = openDb(database.connection, { log: silentLog, name: 'own', max: 1 });
  });
  afterEach(() => db.close());

  const pidOf = async (queries: DirectQueries) => (await queries.one(pidRow, 'select pg_backend_pid() as pid'))?.pid;
  const pids = async () => {
    const text =
      "select pid from pg_stat_activity where datname = current_database() and application_name like 'troupe/own%'";
    return (await database.db.many(pidRow, text)).map(({ pid }) => pid).sort();
  };
  const listening = async () => {
    const heard: string[] = [];
    db.listen('news', (payload) => heard.push(payload));
    await until(() => heard.length === 1, { what: 'it listens' });
    return heard;
  };

  test('is one for both, beside those for all other work', async () => {
    const heard = await listening();
    const both = [await pidOf(db), await pidOf(db.direct)].sort();
    assert.deepEqual(await pids(), both);
    assert.equal(new Set(both).size, 2);
    await database.db.notify('news', 'told');
    await until(() => heard.includes('told'));
  });

  test('is free while all others are busy', async () => {
    let release: () => void = () => undefined;
    const held = new Promise<void>((resolve) => (release = resolve));
    const holding = db.tx(async (tx) => {
      await tx.ping();
      await held;
    });
    assert.equal(await db.direct.run('select 1'), 1);
    release();
    await holding;
  });

  test('gives a statement up after two seconds and stays', async () => {
    const heard = await listening();
    const pid = await pidOf(db.direct);
    await assert.rejects(db.direct.run('select pg_sleep(30)'), fails('timeout'));
    assert.equal(await pidOf(db.direct), pid);
    await database.db.notify('news', 'told');
    await until(() => heard.includes('told'));
    assert.deepEqual(heard, ['', 'told']);
  });

  test('comes back for both when it is lost, idle or in the middle of a statement', async () => {
    const heard = await listening();
    const kill = (pid: number | undefined) => database.db.run('select pg_terminate_backend($1)', [pid]);
    await kill(await pidOf(db.direct));
    await until(() => heard.length === 2, { what: 'the look after the loss' });
    const second = await pidOf(db.direct);
    const cut = db.direct.run('select pg_sleep(1)');
    const lost = assert.rejects(cut, fails('unavailable'));
    await until(async () => {
      const row = await database.db.one(
        n,
        "select count(*) as n from pg_stat_activity where pid = $1 and state = 'active'",
        [second],
      );
      return row?.n === 1;
    });
    await kill(second);
    await lost;
    await until(() => heard.length === 3, { what: 'the look after the second loss' });
    await database.db.notify('news', 'told');
    await until(() => heard.includes('told'));
    const third = await pidOf(db.direct);
    assert.ok(third !== undefined && (await pids()).includes(third));
    assert.ok((await pids()).length <= 2);
  });

  test('opens at its first use', async () => {
    await db.ping();
    assert.equal((await pids()).length, 1);
  });
});
