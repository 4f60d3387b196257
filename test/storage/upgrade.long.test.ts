/** A database of an older PostgreSQL at the first start of a Troupe that brings a newer one. Real servers of both. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, suite, type TestContext, test } from 'node:test';
import { openDb } from '../../storage/db.ts';
import { findBinaries, shippedMajor } from '../../storage/embedded/binaries.ts';
import { isRunning } from '../../storage/embedded/processes.ts';
import { EmbeddedError, noteGoodStart, startEmbedded } from '../../storage/embedded/server.ts';
import { serverUser } from '../../storage/embedded/user.ts';
import { describeSchema } from '../support/database/describe-schema.ts';
import { contents, makeOldDatabase, OLD_MAJOR } from '../support/database/old-database.ts';
import { silentLog } from '../support/log.ts';
import { mountSkip, mountSmall } from '../support/monitor/small-disk.ts';
import { supportProgram } from '../support/project.ts';
import { tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

const NEW_MAJOR = await shippedMajor();
const KEPT = `postgres-${OLD_MAJOR}`;

async function skipWithoutVersions(): Promise<string | false> {
  if (NEW_MAJOR === undefined) return 'Troupe brings no PostgreSQL for this machine';
  const found = findBinaries({ home: '/nowhere', user: await serverUser(), major: OLD_MAJOR });
  return found.then(
    () => false as const,
    () => `no PostgreSQL ${OLD_MAJOR} on this machine`,
  );
}

/** Starts the database, notes what is said, looks into it, and stops it. */
async function visit(dataDir: string): Promise<{ major: number; said: string[]; holds: string; schema: string }> {
  const said: string[] = [];
  const server = await startEmbedded({ dataDir, log: silentLog, onProgress: (line) => said.push(line) });
  const db = openDb(server.connection, { log: silentLog, name: 'test' });
  try {
    const [holds, schema] = [await contents(db), await describeSchema(db)];
    const major = Number.parseInt(await readFile(join(dataDir, 'postgres', 'PG_VERSION'), 'utf8'), 10);
    return { major, said, holds, schema };
  } finally {
    await db.close();
    await server.stop();
  }
}

/** Names the lines that differ. */
function assertHolds(found: string, expected: string): void {
  const [a, b] = [found.split('\n'), expected.split('\n')];
  assert.deepEqual([a.filter((line) => !b.includes(line)), b.filter((line) => !a.includes(line))], [[], []]);
}

suite('the upgrade of a database', { skip: await skipWithoutVersions() }, () => {
  let original: string;
  let holds: string;
  let folder: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'troupe-test-'));
    original = join(folder, 'original');
    holds = await makeOldDatabase(original);
  });
  after(() => rm(folder, { recursive: true, force: true }));

  /** A copy of the old folder. */
  async function oldFolder(t: TestContext): Promise<string> {
    const dataDir = join(await tempDir(t), 'data');
    await cp(original, dataDir, { recursive: true, preserveTimestamps: true, verbatimSymlinks: true });
    await giveToServer(dataDir);
    return dataDir;
  }

  async function giveToServer(dataDir: string): Promise<void> {
    const user = await serverUser();
    if (user === undefined) return;
    const child = spawn('chown', ['-R', `${user.uid}:${user.gid}`, join(dataDir, 'postgres')], { stdio: 'inherit' });
    assert.deepEqual(await once(child, 'close'), [0, null]);
  }

  test('all is there afterwards; the old one stays until a start after that served, and goes then', async (t) => {
    const dataDir = await oldFolder(t);
    const first = await visit(dataDir);
    assert.equal(first.major, NEW_MAJOR);
    assertHolds(first.holds, holds);
    assert.equal(first.schema, await readFile('storage/schema.sql', 'utf8'));
    assert.match(
      first.said.at(-1) ?? '',
      /^The database was upgraded to PostgreSQL \d+\. The old one is in .*postgres-15 \(\d+ MB\); the next start that goes well removes it\.$/,
    );
    await noteGoodStart(dataDir, silentLog);
    // As after a start that did not come so far.
    const second = await visit(dataDir);
    assert.deepEqual(second.said, []);
    assertHolds(second.holds, holds);
    assert.ok((await readdir(dataDir)).includes(KEPT));
    await noteGoodStart(dataDir, silentLog);
    const left = (await readdir(dataDir)).filter((name) => name.startsWith('postgres'));
    assert.deepEqual(left.sort(), ['postgres', 'postgres-socket', 'postgres-start.log']);
    assertHolds((await visit(dataDir)).holds, holds);
  });

  test('killed at each of its steps with all its servers left, it begins again', async (t) => {
    const dataDir = await oldFolder(t);
    for (const step of [/^Upgrading/, /^Copying/, /^Comparing/]) await killedAt(t, dataDir, step);
    const { major, holds: found } = await visit(dataDir);
    assert.equal(major, NEW_MAJOR);
    assertHolds(found, holds);
    assert.deepEqual(
      (await readdir(dataDir)).filter((name) => /init|upgrade\.log|incomplete/.test(name)),
      [],
    );
  });

  test('killed while the new one takes its place, it begins again or is done', async (t) => {
    const dataDir = await oldFolder(t);
    const note = { from: OLD_MAJOR, to: NEW_MAJOR, kept: KEPT, state: 'switching', served: false, left: [] };
    const file = join(dataDir, 'postgres-upgrade.json');
    await writeFile(file, JSON.stringify(note));
    await rename(join(dataDir, 'postgres'), join(dataDir, KEPT));
    const { major, holds: found } = await visit(dataDir);
    assert.equal(major, NEW_MAJOR);
    assertHolds(found, holds);
    await writeFile(file, JSON.stringify(note));
    assertHolds((await visit(dataDir)).holds, holds);
    assert.ok((await readdir(dataDir)).includes(KEPT));
  });

  test('without enough space the old version runs on', { skip: mountSkip() }, async (t) => {
    const dataDir = join(await mountSmall(t, '256m'), 'data');
    await cp(original, dataDir, { recursive: true });
    await giveToServer(dataDir);
    const { major, said, holds: found } = await visit(dataDir);
    assert.equal(major, OLD_MAJOR);
    assertHolds(found, holds);
    assert.match(
      said.join('\n'),
      /^The database stays on PostgreSQL 15: its upgrade to \d+ needs \d+ MB at .*, where \d+ MB are free\. Make room and start again\.$/,
    );
  });

  test('what Troupe did not make stays behind, and so does the old database', async (t) => {
    const dataDir = await oldFolder(t);
    await change(dataDir, 'create table own (n int); create role reader; grant select on own, users to reader');
    const { major, said } = await visit(dataDir);
    assert.equal(major, NEW_MAJOR);
    assert.match(
      said.at(-1) ?? '',
      /and stays there, since it holds what Troupe did not make: table public\.own\. Remove/,
    );
    for (let start = 0; start < 3; start++) await noteGoodStart(dataDir, silentLog);
    assert.ok((await readdir(dataDir)).includes(KEPT));
  });

  test('where the copy fails the old version runs on, and says why', async (t) => {
    const dataDir = await oldFolder(t);
    await change(dataDir, 'alter table settings add column own int');
    const { major, said, holds: found } = await visit(dataDir);
    assert.equal(major, OLD_MAJOR);
    assertHolds(found.replace(/^settings own .*\n/gm, ''), holds);
    assert.match(
      said.at(-1) ?? '',
      /stays on PostgreSQL 15: its upgrade to \d+ failed, and nothing was changed\. column "own"/,
    );
    assert.deepEqual(
      (await readdir(dataDir)).filter((name) => /init|upgrade/.test(name)),
      [],
    );
  });

  test('while another process uses the old one it is not touched; what a killed one left is upgraded', async (t) => {
    const dataDir = await oldFolder(t);
    const other = await startEmbedded({ dataDir, log: silentLog, major: OLD_MAJOR });
    const beside = await visit(dataDir);
    assert.equal(beside.major, OLD_MAJOR);
    assertHolds(beside.holds, holds);
    assert.match(beside.said.join(), /^The database stays on PostgreSQL 15: other processes of Troupe use it\./);
    await other.stop();
    const child = await startProcess(t, dataDir, ['old']);
    await until(() => child.lines.length > 0, { what: 'the server of the process', timeoutMs: 60_000 });
    child.process.kill('SIGKILL');
    await once(child.process, 'close');
    const pid = Number((await readFile(join(dataDir, 'postgres', 'postmaster.pid'), 'utf8')).split('\n')[0]);
    assert.ok(isRunning(pid));
    const after = await visit(dataDir);
    assert.equal(after.major, NEW_MAJOR);
    assertHolds(after.holds, holds);
  });

  async function change(dataDir: string, sql: string): Promise<void> {
    const server = await startEmbedded({ dataDir, log: silentLog, major: OLD_MAJOR });
    const db = openDb(server.connection, { log: silentLog, name: 'test' });
    await db.script(sql);
    await db.close();
    await server.stop();
  }
});

interface Child {
  readonly process: ChildProcess;
  readonly lines: string[];
}

async function startProcess(t: TestContext, dataDir: string, args: readonly string[] = []): Promise<Child> {
  const child = spawn(process.execPath, [...supportProgram('database/embedded-process'), dataDir, ...args], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  t.after(() => child.kill('SIGKILL'));
  assert.ok(child.stdout);
  const lines: string[] = [];
  createInterface(child.stdout).on('line', (line) => lines.push(line));
  return { process: child, lines };
}

async function killedAt(t: TestContext, dataDir: string, step: RegExp): Promise<void> {
  const child = await startProcess(t, dataDir, ['progress']);
  await until(() => child.lines.some((line) => step.test(line)), {
    what: String(step),
    timeoutMs: 120_000,
    everyMs: 1,
  });
  child.process.kill('SIGKILL');
  await once(child.process, 'close');
}

test('an older database that nothing here can read is named, with what to install', async (t) => {
  const dataDir = join(await tempDir(t), 'data');
  await (await startEmbedded({ dataDir, log: silentLog })).stop();
  await writeFile(join(dataDir, 'postgres', 'PG_VERSION'), '12\n');
  await assert.rejects(startEmbedded({ dataDir, log: silentLog }), (error) => {
    assert.ok(error instanceof EmbeddedError && error.code === 'other_version');
    assert.match(error.message, /made by PostgreSQL 12, .* apt-get install postgresql-12\)/);
    return true;
  });
});
