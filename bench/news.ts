/**
 * How many transactions a second tell news, by NOTIFY and by rows that a broker's message announces?
 *
 * `npm run bench -- news [SECONDS] [PROCESSES...]`: pgbench with 16 clients, a durable PostgreSQL, each transaction writes a row and one item of
 * news. `NOTIFY`: so many processes listen. `row`: so many processes look for what they missed, every two seconds. The broker is not part of it.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { cpus, loadavg } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';
import { type Db, openDb } from '../storage/db.ts';
import { newsSince, newsSnapshot } from '../storage/news/catch-up.ts';
import { silentLog } from '../test/support/log.ts';
import { tempDir } from '../test/support/temp.ts';

const CLIENTS = 16;
const LOOK_MS = 2000;
const WORK = 'insert into work (text) values (md5(random()::text));';
const TELLING = {
  nothing: '',
  NOTIFY: `select pg_notify('tokens', 'token:' || :client_id);`,
  row: `insert into news (id, channel, payload) values (md5(random()::text), 'tokens', 'token:' || :client_id);`,
};

async function main(seconds: number, processes: readonly number[]): Promise<void> {
  const { startTestServer, testDatabase } = await import('../test/support/database/database.ts');
  const ends: (() => unknown)[] = [];
  const folder = await tempDir({ after: (end) => void ends.unshift(end) });
  const durable = { fsync: 'on', synchronous_commit: 'on', full_page_writes: 'on', max_connections: '1000' };
  const server = await startTestServer(durable);
  process.env.TROUPE_TEST_PG = server.socketDir;
  const database = await testDatabase();
  try {
    await database.db.script('create table work (id bigint generated always as identity primary key, text text)');
    const rate = async (telling: keyof typeof TELLING): Promise<string> => {
      const file = join(folder, `${telling}.sql`);
      await writeFile(file, ['begin;', WORK, TELLING[telling], 'commit;'].join('\n'));
      const args = ['-n', '-c', `${CLIENTS}`, '-j', '2', '-T', `${seconds}`, '-f', file, '-h', server.socketDir];
      const child = spawn(
        '/usr/lib/postgresql/15/bin/pgbench',
        [...args, '-U', 'troupe', database.connection.database],
        {
          stdio: ['ignore', 'pipe', 'inherit'],
        },
      );
      const [output] = await Promise.all([text(child.stdout), once(child, 'exit')]);
      return /tps = (\d+)/.exec(output)?.[1] ?? output;
    };
    process.stdout.write(`${cpus()[0]?.model}, ${cpus().length} processors, Node ${process.version}\n\n`);
    process.stdout.write('| news | processes that hear | transactions a second | load |\n|---|---|---|---|\n');
    const tell = async (telling: keyof typeof TELLING, hearers: number) =>
      process.stdout.write(`| ${telling} | ${hearers} | ${await rate(telling)} | ${loadavg()[0]?.toFixed(1)} |\n`);
    await tell('nothing', 0);
    for (const count of processes) {
      const listeners = await listen(database.url, count);
      await tell('NOTIFY', count);
      await Promise.all(listeners.map((client) => client.end()));
      const db = openDb(database.connection, { log: silentLog, name: 'bench', max: 4 });
      const looking = new AbortController();
      const looked = look(db, count, looking.signal);
      await tell('row', count);
      looking.abort();
      await looked;
      await db.close();
    }
  } finally {
    await database.close();
    await server.stop();
    for (const end of ends) await end();
  }
}

async function listen(connectionString: string, count: number): Promise<pg.Client[]> {
  const clients = Array.from({ length: count }, () => new pg.Client({ connectionString }));
  for (const client of clients) {
    await client.connect();
    await client.query('listen tokens');
  }
  return clients;
}

/** What `count` processes read that heard no message: all of it. */
async function look(db: Db, count: number, signal: AbortSignal): Promise<void> {
  const snapshots = await Promise.all(Array.from({ length: count }, () => newsSnapshot(db)));
  for (let turn = 0; !signal.aborted; turn++) {
    const at = turn % Math.max(1, count);
    await pause(LOOK_MS / Math.max(1, count));
    if (count === 0) continue;
    const found = await newsSince(db, snapshots[at] ?? '', ['tokens']);
    if (found !== undefined) snapshots[at] = found.snapshot;
  }
}

const [seconds = '5', ...processes] = process.argv.slice(2);
await main(Number(seconds), processes.length === 0 ? [0, 100, 300] : processes.map(Number));
