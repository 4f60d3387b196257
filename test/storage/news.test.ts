/** Notifications between processes, by the database and by a broker, and what is heard when a message is lost. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { suite, type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { z } from 'zod';
import { deadLetterSink } from '../../storage/bus/dead-letters.ts';
import { type Db, openDb } from '../../storage/db.ts';
import type { NewsBus } from '../../storage/news/carriers.ts';
import { MAX_ITEMS } from '../../storage/news/catch-up.ts';
import type { NewsTimings } from '../../storage/news/news.ts';
import { type NatsBus, natsBus } from '../../transports/bus/nats.ts';
import { BUS_SECRET, skipWithoutNats, startNats, type TestNats } from '../support/bus/nats-server.ts';
import { type TestDatabase, testDatabase } from '../support/database/database.ts';
import { type NewsBench, newsContract } from '../support/database/news-conformance.ts';
import { silentLog } from '../support/log.ts';
import type { Cleanup } from '../support/temp.ts';
import { until } from '../support/until.ts';

/** Nobody of an older version was there for long enough. */
const ALL_NEW: NewsTimings = { lookMs: 50, quietMs: 0 };
/** Nothing but messages. */
const NO_LOOKS: NewsTimings = { lookMs: 3_600_000, quietMs: 0 };
const countRow = z.object({ count: z.number() });

async function openBus(nats: TestNats, { db }: TestDatabase): Promise<NatsBus> {
  const bus = natsBus({
    secret: BUS_SECRET,
    address: { servers: [nats.server] },
    name: 'news',
    deadLetters: deadLetterSink(db),
    log: silentLog,
  });
  assert.ok(await bus.connected(5000));
  return bus;
}

function openProcess(t: Cleanup, { connection }: TestDatabase, news: NewsTimings, bus?: NewsBus): Db {
  const db = openDb(connection, { log: silentLog, name: 'process', max: 3, news });
  if (bus !== undefined) db.tellOver(bus);
  t.after(() => db.close());
  return db;
}

/** What is heard of tokens, once it listens. */
async function listenTo(db: Db): Promise<string[]> {
  const heard: string[] = [];
  db.listen('tokens', (payload) => heard.push(payload));
  await until(() => heard.length > 0, { what: 'it listens' });
  heard.length = 0;
  return heard;
}

/** A bus that loses what is published. */
function losing(bus: NewsBus): NewsBus {
  return { publish: () => {}, subscribe: (subject, handler) => bus.subscribe(subject, handler) };
}

newsContract('NOTIFY', async (): Promise<NewsBench> => {
  const database = await testDatabase();
  return {
    open: async () => openDb(database.connection, { log: silentLog, name: 'news' }),
    close: () => database.close(),
  };
});

const skip = skipWithoutNats();

if (skip === false)
  newsContract('a broker', async (): Promise<NewsBench> => {
    const ends: (() => Promise<void> | void)[] = [];
    const nats = await startNats({ after: (end) => void ends.unshift(end) });
    const database = await testDatabase();
    return {
      async open() {
        const bus = await openBus(nats, database);
        ends.unshift(() => bus.close());
        const db = openDb(database.connection, { log: silentLog, name: 'news', news: { quietMs: 0 } });
        db.tellOver(bus);
        return db;
      },
      async close() {
        await database.close();
        for (const end of ends) await end();
      },
    };
  });

suite('notifications by a broker, when things go wrong', { skip }, () => {
  async function setUp(t: TestContext) {
    const nats = await startNats(t);
    const database = await testDatabase();
    const ends: (() => unknown)[] = [() => database.close()];
    const last: Cleanup = { after: (end) => void ends.unshift(end) };
    t.after(async () => {
      for (const end of ends) await end();
    });
    const open = (news: NewsTimings, over?: NewsBus) => openProcess(last, database, news, over);
    const bus = async () => {
      const opened = await openBus(nats, database);
      last.after(() => opened.close());
      return opened;
    };
    /** Somebody who hears NOTIFY. */
    const outsider = async (name: string) => {
      const client = new pg.Client({ connectionString: database.url, application_name: name });
      await client.connect();
      last.after(() => client.end());
      const notified: (string | undefined)[] = [];
      client.on('notification', ({ payload }) => notified.push(payload));
      await client.query('listen tokens');
      return { client, notified };
    };
    return { database, nats, bus, open, outsider };
  }

  test('a process that is killed between commit and message is heard all the same', async (t) => {
    const { database, bus, open } = await setUp(t);
    const heard = await listenTo(open(ALL_NEW, await bus()));
    const program = fileURLToPath(new URL('../support/database/news-process.ts', import.meta.url));
    const file = program.replace(/\.ts$/, import.meta.url.endsWith('.ts') ? '.ts' : '.js');
    const child = spawn(process.execPath, [...process.execArgv, file, database.url], { stdio: 'inherit' });
    const [, signal] = await once(child, 'exit');
    assert.equal(signal, 'SIGKILL');
    await until(() => heard.length > 0, { what: 'the news' });
    assert.deepEqual(heard, ['token:revoked']);
  });

  test('what came as a message is not read a second time', async (t) => {
    const { bus, open } = await setUp(t);
    const heard = await listenTo(open(ALL_NEW, await bus()));
    const teller = open(NO_LOOKS, await bus());
    const lost = open(NO_LOOKS, losing(await bus()));
    await Promise.all([listenTo(teller), listenTo(lost)]);
    const told = Array.from({ length: 20 }, (_, at) => `${at}`);
    for (const one of told) await teller.notify('tokens', one);
    await lost.notify('tokens', 'lost');
    await until(() => heard.includes('lost'), { what: 'the look at the rows' });
    await until(() => heard.includes('19'), { what: 'the messages' });
    assert.deepEqual(heard.toSorted(), [...told, 'lost'].toSorted());
  });

  test('a message tells at once; nobody is notified when all hear the broker', async (t) => {
    const { bus, open, outsider } = await setUp(t);
    const teller = open(ALL_NEW, await bus());
    const { client, notified } = await outsider('somebody');
    await listenTo(teller);
    const heard = await listenTo(open(NO_LOOKS, await bus()));
    await until(async () => {
      heard.length = 0;
      await client.query('select 1');
      const before = notified.length;
      await teller.notify('tokens', 'x');
      await until(() => heard.length > 0);
      await client.query('select 1');
      return notified.length === before;
    });
  });

  test('processes of the version before are notified as long as there are some', async (t) => {
    const { bus, open, outsider } = await setUp(t);
    const { notified } = await outsider('troupe/platform');
    const teller = open(ALL_NEW, await bus());
    const heard = await listenTo(teller);
    for (let at = 0; at < 20; at++) {
      await teller.notify('tokens', `${at}`);
      await until(() => notified.includes(`${at}`) && heard.includes(`${at}`));
    }
  });

  test('what a command tells without the broker is heard at once', async (t) => {
    const { bus, open } = await setUp(t);
    const heard = await listenTo(open(NO_LOOKS, await bus()));
    await open(NO_LOOKS).notify('tokens', 'by a command');
    await until(() => heard.includes('by a command'));
  });

  test('a process without the broker hears those that have it', async (t) => {
    const { bus, open } = await setUp(t);
    const heard = await listenTo(open(ALL_NEW));
    const teller = open(ALL_NEW, await bus());
    await listenTo(teller);
    for (let at = 0; at < 10; at++) {
      await teller.notify('tokens', `${at}`);
      await until(() => heard.includes(`${at}`));
    }
  });

  test('news while the broker is away are read from the database', async (t) => {
    const { nats, bus, open } = await setUp(t);
    const heard = await listenTo(open(ALL_NEW, await bus()));
    const teller = open(ALL_NEW, await bus());
    await nats.kill();
    for (let at = 0; at < 20; at++) await teller.notify('tokens', `${at}`);
    const all = Array.from({ length: 20 }, (_, at) => `${at}`);
    await until(() => all.every((one) => heard.includes(one)));
    await nats.start();
    await teller.notify('tokens', 'back');
    await until(() => heard.includes('back'));
  });

  test('a transaction that commits late is heard, although others were read before', async (t) => {
    const { bus, open } = await setUp(t);
    const heard = await listenTo(open(ALL_NEW, await bus()));
    const teller = open(NO_LOOKS, losing(await bus()));
    await listenTo(teller);
    await teller.tx(async (tx) => {
      // It has its number before the next.
      await tx.run('create table early (id int)');
      await tx.notify('tokens', 'early');
      await teller.notify('tokens', 'late');
      await until(() => heard.includes('late'));
    });
    await until(() => heard.includes('early'));
    assert.deepEqual(
      [heard.filter((one) => one === 'late').length, heard.filter((one) => one === 'early').length],
      [1, 1],
    );
  });

  test('of too many missed it is only told that there were some', async (t) => {
    const { database, bus, open } = await setUp(t);
    const heard = await listenTo(open(ALL_NEW, await bus()));
    await database.db.run(
      `insert into news (id, channel, payload) select n::text, 'tokens', n::text from generate_series(0, $1) as n`,
      [MAX_ITEMS],
    );
    await until(() => heard.length > 0);
    assert.deepEqual(heard, ['']);
  });

  test('old rows are removed, and only they', async (t) => {
    const { database, bus, open } = await setUp(t);
    await database.db.run(
      `insert into news (id, channel, payload, at)
       select n::text, 'x', '', now() - n * interval '1 minute' from generate_series(1, 20) as n`,
    );
    await listenTo(open({ lookMs: 1 }, await bus()));
    const count = async () => (await database.db.one(countRow, 'select count(*) as count from news'))?.count;
    await until(async () => (await count()) === 9);
  });
});
