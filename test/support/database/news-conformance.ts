/** What storage promises of notifications, whichever way they go between processes. */
import assert from 'node:assert/strict';
import { after, before, suite, test } from 'node:test';
import { type Db, StorageError } from '../../../storage/db.ts';
import { until } from '../until.ts';

/** What the suite runs on: handles of one database as processes have them. */
export interface NewsBench {
  /** Another process. The suite closes it. */
  open(): Promise<Db>;
  close(): Promise<void>;
}

/** `carrier` names the way. */
export function newsContract(carrier: string, openBench: () => Promise<NewsBench>): void {
  suite(`notifications by ${carrier}`, () => {
    let bench: NewsBench;
    let db: Db;
    let other: Db;
    before(async () => {
      bench = await openBench();
      db = await bench.open();
      other = await bench.open();
    });
    after(async () => {
      await Promise.all([db.close(), other.close()]);
      await bench.close();
    });

    test('reach every listener of the channel, those of a transaction at its commit', async () => {
      const heard: string[] = [];
      const also: string[] = [];
      const away: string[] = [];
      const one = db.listen('news', (payload) => heard.push(payload));
      const same = db.listen('news', (payload) => also.push(payload));
      const far = other.listen('news', (payload) => away.push(payload));
      const elsewhere = db.listen('elsewhere', () => assert.fail('not its channel'));
      await elsewhere.close();
      await until(() => heard.length > 0 && also.length > 0 && away.length > 0, { what: 'the first look' });
      assert.deepEqual([heard, also, away], [[''], [''], ['']]);
      await db.notify('news', 'plain');
      await db.tx(async (tx) => {
        await tx.notify('news', 'in transaction');
        await tx.notify('news', 'in transaction');
      });
      await assert.rejects(
        db.tx(async (tx) => {
          await tx.notify('news', 'rolled back');
          throw new Error('no');
        }),
      );
      await db.notify('news', "it's the last");
      await until(() => heard.includes("it's the last") && away.includes("it's the last"));
      const all = ['', 'plain', 'in transaction', "it's the last"];
      assert.deepEqual([heard, away], [all, all]);
      await one.close();
      await db.notify('news', 'after');
      await until(() => also.includes('after') && away.includes('after'));
      assert.ok(!heard.includes('after'));
      await Promise.all([same.close(), far.close()]);
    });

    test('a hint reaches them too', async () => {
      const heard: string[] = [];
      const listening = other.listen('hints', (payload) => heard.push(payload));
      await until(() => heard.length === 1);
      await db.tx((tx) => tx.hint('hints'));
      await until(() => heard.length === 2);
      assert.deepEqual(heard, ['', '']);
      await listening.close();
    });

    test('a handler that throws harms nobody', async () => {
      let heard = 0;
      const bad = db.listen('harm', () => {
        throw new Error('handler');
      });
      const good = db.listen('harm', () => (heard += 1));
      await until(() => heard > 0);
      await other.notify('harm', 'x');
      await until(() => heard > 1);
      await Promise.all([bad.close(), good.close()]);
    });

    test('a lost connection to the database comes back and says: look', async () => {
      const heard: string[] = [];
      const listening = db.listen('lost', (payload) => heard.push(payload));
      await until(() => heard.length === 1);
      const killed = await other.run(
        "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and query like 'listen %'",
      );
      assert.ok(killed > 0);
      await until(() => heard.length === 2, { what: 'the look after the reconnection' });
      await other.notify('lost', 'again');
      await until(() => heard.includes('again'));
      await listening.close();
    });

    test('a payload that is too long fails the transaction', async () => {
      await assert.rejects(
        db.tx((tx) => tx.notify('news', 'x'.repeat(8000))),
        StorageError,
      );
      await db.tx((tx) => tx.notify('news', 'x'.repeat(7999)));
    });

    test('a channel must be a plain name', () => {
      assert.throws(
        () => db.listen('a"; drop table x; --', () => undefined),
        (error) => error instanceof StorageError && error.code === 'internal',
      );
    });
  });
}
