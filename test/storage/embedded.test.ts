import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, rmdir, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, type TestContext, test } from 'node:test';
import { z } from 'zod';
import { type Db, openDb, StorageError } from '../../storage/db.ts';
import { isRunning, runsIn } from '../../storage/embedded/processes.ts';
import { EmbeddedError, type EmbeddedServer, startEmbedded } from '../../storage/embedded/server.ts';
import { useDataFor } from '../support/cluster/prepared-data.ts';
import { silentLog } from '../support/log.ts';
import { supportProgram } from '../support/project.ts';
import { tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

const n = z.object({ n: z.number() });

async function postmasterPid(dataDir: string): Promise<number> {
  const text = await readFile(join(dataDir, 'postgres', 'postmaster.pid'), 'utf8').catch(() => '');
  return Number(text.split('\n')[0]);
}

/** A folder with a database that was made before. Ends whatever server a test left in it, before the folder goes. */
async function dataDirectory(t: TestContext): Promise<string> {
  const dataDir = await emptyDirectory(t);
  await useDataFor(dataDir, {});
  return dataDir;
}

/** The same, without a database. */
async function emptyDirectory(t: TestContext): Promise<string> {
  const dataDir = join(await tempDir({ after: (end) => after(end) }), 'data');
  t.after(async () => {
    const pid = await postmasterPid(dataDir);
    if (pid > 0 && runsIn(pid, join(dataDir, 'postgres'))) process.kill(pid, 'SIGQUIT');
    await until(() => !isRunning(pid));
  });
  return dataDir;
}

const start = (dataDir: string): Promise<EmbeddedServer> => startEmbedded({ dataDir, log: silentLog });

async function withDb<T>(server: EmbeddedServer, work: (db: Db) => Promise<T>): Promise<T> {
  const db = openDb(server.connection, { log: silentLog, name: 'test' });
  try {
    return await work(db);
  } finally {
    await db.close();
  }
}

function refused(code: EmbeddedError['code'], text: RegExp): (error: unknown) => boolean {
  return (error) => {
    assert.ok(error instanceof EmbeddedError, String(error));
    assert.equal(error.code, code);
    assert.match(error.message, text);
    return true;
  };
}

async function startChild(t: TestContext, dataDir: string): Promise<{ child: ChildProcess; owner: boolean }> {
  const program = [...supportProgram('database/embedded-process'), dataDir];
  const child = spawn(process.execPath, program, { stdio: ['pipe', 'pipe', 'inherit'] });
  t.after(() => child.kill('SIGKILL'));
  assert.ok(child.stdout);
  const lines = createInterface(child.stdout);
  const line = await new Promise((resolve, reject) => {
    lines.once('line', resolve);
    child.once('close', () => reject(new Error('the child ended before its server ran')));
  });
  return { child, owner: z.object({ owner: z.boolean() }).parse(JSON.parse(String(line))).owner };
}

test('starts, keeps data over a stop, listens only on a private socket, with fsync', async (t) => {
  const dataDir = await emptyDirectory(t);
  const lines: string[] = [];
  const first = await startEmbedded({ dataDir, log: silentLog, onProgress: (line) => lines.push(line) });
  assert.ok(lines.length > 0 && first.owner);
  // Whoever would open it to the network has to say who may come in.
  const rules = (await readFile(join(dataDir, 'postgres', 'pg_hba.conf'), 'utf8')).match(/^(?:local|host).*$/gm) ?? [];
  assert.ok(rules.some((rule) => rule.startsWith('local')) && rules.some((rule) => rule.startsWith('host')));
  for (const rule of rules) if (rule.startsWith('host')) assert.match(rule, /reject$/);
  await withDb(first, async (db) => {
    await db.script('create table kept (n int); insert into kept values (1)');
    const setting = z.object({ fsync: z.string(), listen: z.string(), encoding: z.string(), db: z.string() });
    assert.deepEqual(
      await db.one(
        setting,
        `select current_setting('fsync') as fsync, current_setting('listen_addresses') as listen,
           current_setting('server_encoding') as encoding, current_database() as db`,
      ),
      { fsync: 'on', listen: '', encoding: 'UTF8', db: 'troupe' },
    );
  });
  assert.equal((await stat(first.connection.socketDir)).mode & 0o777, 0o700);
  assert.equal((await stat(join(dataDir, 'postgres'))).mode & 0o777, 0o700);
  const pid = await postmasterPid(dataDir);
  if (process.getuid?.() === 0) assert.notEqual((await stat(`/proc/${pid}`)).uid, 0);
  assert.equal(await first.stop(), true);
  assert.equal(await first.stop(), true);
  assert.ok(!isRunning(pid));
  const second = await start(dataDir);
  assert.deepEqual(await withDb(second, (db) => db.one(n, 'select n from kept')), { n: 1 });
  await second.stop();
  const left = (await readdir(dataDir)).filter((name) => /init-|lock|owner/.test(name));
  assert.deepEqual(left, []);
});

test('of two starters at once one owns the server and the other attaches', async (t) => {
  const dataDir = await emptyDirectory(t);
  const servers = await Promise.all([start(dataDir), start(dataDir), start(dataDir)]);
  assert.deepEqual(servers.map(({ owner }) => owner).sort(), [false, false, true]);
  await Promise.all(servers.map((server) => withDb(server, (db) => db.ping())));
  const pid = await postmasterPid(dataDir);
  for (const server of servers.filter(({ owner }) => !owner)) assert.equal(await server.stop({ force: true }), false);
  assert.ok(isRunning(pid), 'who attached must not stop it');
  for (const server of servers.filter(({ owner }) => owner)) assert.equal(await server.stop(), true);
  assert.ok(!isRunning(pid));
});

test('the owner leaves the server to others that are connected, unless forced', async (t) => {
  const dataDir = await dataDirectory(t);
  const owner = await start(dataDir);
  const guest = await start(dataDir);
  const db = openDb(guest.connection, { log: silentLog, name: 'guest' });
  await db.ping();
  assert.equal(await owner.stop(), false);
  await db.ping();
  const next = await start(dataDir);
  assert.ok(next.owner);
  assert.equal(await next.stop({ force: true }), true);
  await assert.rejects(db.ping(), (error) => error instanceof StorageError && error.code === 'unavailable');
  await db.close();
  await guest.stop();
});

test('a server killed with -9 is restarted; meanwhile work is refused as unavailable, and nothing committed is lost', async (t) => {
  const dataDir = await dataDirectory(t);
  const owner = await start(dataDir);
  const guest = await start(dataDir);
  const exits: boolean[] = [];
  owner.onExit(({ restarting }) => exits.push(restarting));
  const db = openDb(guest.connection, { log: silentLog, name: 'guest' });
  await db.script('create table kept (n int)');
  const heard: string[] = [];
  db.listen('news', (payload) => heard.push(payload));
  await until(() => heard.length === 1);
  let committed = 0;
  let refusals = 0;
  for (let round = 0; round < 2; round++) {
    const looks = heard.length;
    const pid = await postmasterPid(dataDir);
    process.kill(pid, 'SIGKILL');
    await until(
      async () => {
        try {
          await db.run('insert into kept values (1)');
          committed += 1;
        } catch (error) {
          assert.ok(error instanceof StorageError && error.code === 'unavailable', String(error));
          refusals += 1;
        }
        return (
          !isRunning(pid) &&
          runsIn(await postmasterPid(dataDir), join(dataDir, 'postgres')) &&
          exits.length > round &&
          db.ping().then(
            () => true,
            () => false,
          )
        );
      },
      { timeoutMs: 30_000 },
    );
    await until(() => heard.length > looks, { what: 'a look after the reconnection' });
  }
  assert.ok(refusals > 0);
  assert.deepEqual(exits, [true, true]);
  const rows = await db.one(n, 'select count(*) as n from kept');
  assert.ok((rows?.n ?? 0) >= committed);
  await db.close();
  await guest.stop();
  assert.equal(await owner.stop(), true);
});

test('a killed parent leaves the server running; the next start attaches to it and owns it', async (t) => {
  const dataDir = await dataDirectory(t);
  const { child, owner } = await startChild(t, dataDir);
  assert.ok(owner);
  const pid = await postmasterPid(dataDir);
  child.kill('SIGKILL');
  await once(child, 'close');
  assert.ok(isRunning(pid));
  const next = await start(dataDir);
  assert.ok(next.owner);
  assert.equal(await postmasterPid(dataDir), pid);
  assert.equal(await next.stop(), true);
});

test('who attached takes over when the owner died and the server after it', async (t) => {
  const dataDir = await dataDirectory(t);
  const { child } = await startChild(t, dataDir);
  const guest = await start(dataDir);
  assert.ok(!guest.owner);
  const pid = await postmasterPid(dataDir);
  child.kill('SIGKILL');
  await once(child, 'close');
  process.kill(pid, 'SIGKILL');
  await until(() => guest.owner, { timeoutMs: 60_000 });
  await withDb(guest, (db) => db.ping());
  assert.equal(await guest.stop(), true);
});

test('who attached does not bring back a server that its owner stopped', async (t) => {
  const dataDir = await dataDirectory(t);
  const { child } = await startChild(t, dataDir);
  const guest = await start(dataDir);
  const exits: boolean[] = [];
  guest.onExit(({ restarting }) => exits.push(restarting));
  child.stdin?.end();
  await once(child, 'close');
  await until(() => exits.length > 0);
  assert.deepEqual(exits, [false]);
  assert.ok(!runsIn(await postmasterPid(dataDir), join(dataDir, 'postgres')));
  assert.equal(await guest.stop(), false);
});

test('everything killed at once: the next start recovers', async (t) => {
  const dataDir = await dataDirectory(t);
  const { child } = await startChild(t, dataDir);
  process.kill(await postmasterPid(dataDir), 'SIGKILL');
  child.kill('SIGKILL');
  await once(child, 'close');
  const next = await start(dataDir);
  assert.ok(next.owner);
  await withDb(next, (db) => db.ping());
  await next.stop();
});

test('a pid file that names a stranger does not stop the start', async (t) => {
  const dataDir = await dataDirectory(t);
  const first = await start(dataDir);
  await first.stop();
  await writeFile(
    join(dataDir, 'postgres', 'postmaster.pid'),
    `${process.pid}\n${dataDir}\n1\n5432\n${dataDir}\n\n1 1\nready   \n`,
  );
  const second = await start(dataDir);
  await withDb(second, (db) => db.ping());
  await second.stop();
});

test('a half-made database is made again', async (t) => {
  const dataDir = await emptyDirectory(t);
  const leftover = join(dataDir, 'postgres.init-999999999-x');
  await mkdir(join(leftover, 'base'), { recursive: true });
  await mkdir(join(dataDir, 'postgres', 'base'), { recursive: true });
  const server = await start(dataDir);
  await withDb(server, (db) => db.ping());
  await server.stop();
  const names = await readdir(dataDir);
  assert.ok(!names.some((name) => name.startsWith('postgres.init-')));
  assert.ok(names.some((name) => name.startsWith('postgres.incomplete-')));
});

test('a damaged database, and one of another version, are refused and left alone', async (t) => {
  const dataDir = await dataDirectory(t);
  await (await start(dataDir)).stop();
  const version = join(dataDir, 'postgres', 'PG_VERSION');
  const own = await readFile(version, 'utf8');
  await writeFile(version, '9\n');
  await assert.rejects(start(dataDir), refused('other_version', /PostgreSQL 9/));
  await writeFile(version, own);
  await rm(join(dataDir, 'postgres', 'global', 'pg_control'));
  await assert.rejects(start(dataDir), refused('not_a_cluster', /pg_control/));
  assert.ok((await readdir(join(dataDir, 'postgres'))).includes('base'));
});

test('a server that does not start says why', async (t) => {
  const dataDir = await dataDirectory(t);
  const options = { dataDir, log: silentLog, settings: { shared_buffers: 'much' } };
  await assert.rejects(startEmbedded(options), refused('start_failed', /shared_buffers/));
});

test('a long path moves the socket to a short one', async (t) => {
  const dataDir = join(await emptyDirectory(t), 'x'.repeat(60), 'y'.repeat(60));
  t.after(async () => {
    const pid = await postmasterPid(dataDir);
    if (isRunning(pid)) process.kill(pid, 'SIGQUIT');
  });
  const server = await start(dataDir);
  t.after(() => rm(server.connection.socketDir, { recursive: true, force: true }));
  assert.ok(!server.connection.socketDir.startsWith(dataDir));
  assert.equal((await stat(server.connection.socketDir)).mode & 0o777, 0o700);
  await withDb(server, (db) => db.ping());
  await server.stop();
});

test('under root, private temporary folders are opened for passing only', {
  skip: process.getuid?.() !== 0,
}, async (t) => {
  const closed = join(await tempDir(t), 'closed');
  await mkdir(closed, { mode: 0o700 });
  const server = await start(join(closed, 'data'));
  await server.stop();
  assert.equal((await stat(closed)).mode & 0o777, 0o711);
});

test('under root, a data directory in a closed place has its database elsewhere', {
  skip: process.getuid?.() !== 0,
}, async (t) => {
  // Below the home of root, which stays closed.
  const closed = await mkdtemp('/root/.troupe-test-');
  t.after(() => rm(closed, { recursive: true, force: true }));
  const rootMode = (await stat('/root')).mode;
  await chmod('/root', 0o700);
  t.after(() => chmod('/root', rootMode & 0o7777));
  const dataDir = join(closed, 'data');
  const first = await start(dataDir);
  const home = dirname(first.connection.socketDir);
  t.after(async () => {
    await rm(home, { recursive: true, force: true });
    await rmdir(dirname(home)).catch(() => undefined);
  });
  assert.ok(!home.startsWith(closed));
  await withDb(first, (db) => db.script('create table kept (n int)'));
  await first.stop();
  assert.equal((await stat('/root')).mode & 0o777, 0o700);
  const second = await start(dataDir);
  await withDb(second, (db) => db.run('select from kept'));
  await second.stop();
});
