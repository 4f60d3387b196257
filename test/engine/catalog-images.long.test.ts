/** Images of the catalog, built from Debian's packages as on any machine: what they have, and the database of one. */
import assert from 'node:assert/strict';
import { text } from 'node:stream/consumers';
import { after, before, describe, it } from 'node:test';
import { type Engine, EngineError } from '../../proto/ports/engine.ts';
import { dockerEngine } from '../../transports/engines/docker/engine.ts';
import { findProgram } from '../../transports/engines/docker/run.ts';
import { dockerSkip, realRequired, silentLog, testDocker } from '../support/engine/docker-under-test.ts';
import { eventually } from '../support/engine/eventually.ts';
import { removeInstallation } from '../support/engine/remove-installation.ts';
import { until } from '../support/until.ts';

/** How long a machine may take to write a new database to a busy disk, ms. */
const INIT_MS = 240_000;
const DUMP = '/root/postgres/dump.sql.gz';

function skip(): string | false {
  if (realRequired) return false;
  if (process.env.TROUPE_TEST_SLOW !== '1') return 'builds Debian systems: set TROUPE_TEST_SLOW=1';
  return findProgram('mmdebstrap') === undefined ? 'missing: mmdebstrap' : dockerSkip();
}

describe('the images of the catalog', { skip: skip(), timeout: 1_500_000 }, () => {
  const installation = `catalog-${process.pid}`;
  let docker: { host: string; end: () => Promise<void> };
  let engine: Engine;

  before(async () => {
    docker = await testDocker();
    engine = await dockerEngine({ host: docker.host, installation, log: silentLog });
  });
  after(async () => {
    await engine?.close();
    await removeInstallation(docker.host, installation);
    await docker.end();
  });

  const titleOf = (name: string) => engine.builtIns.find((image) => image.name === name)?.title;
  /** As the platform does, builds again what could not be built: a mirror did not answer, say. */
  const build = async (image: string, onProgress: (line: string) => void): Promise<void> => {
    for (let left = 2; ; left--)
      try {
        return await engine.ensureImage(image, { always: false, onProgress });
      } catch (error) {
        if (left === 0 || !(error instanceof EngineError && error.code === 'unavailable')) throw error;
      }
  };
  /** A container of an image, which is built where it is missing. */
  const make = async (id: string, name: string, mountPaths = ['/root']): Promise<void> => {
    const image = `troupe.invalid/${name}`;
    const lines: string[] = [];
    await build(image, (line) => lines.push(line));
    if (lines.length > 0) assert.equal(lines.at(-1), `100% image ${name} ready`);
    const spec = { id, userId: 'u1', hostname: 'box', image, cpus: 2, memoryMb: 1024, storageGb: 5 };
    await engine.create({ ...spec, mountPaths, authorizedKeys: [], isConfigured: true });
  };
  const start = async (id: string, env: Record<string, string> = {}): Promise<void> => {
    await engine.start(id, [], { env });
    await eventually(async () => (await engine.dial(id, 22, { timeoutMs: 2000 })).destroy());
  };
  /** What a command in it prints; its error output when it fails. */
  const run = async (id: string, script: string): Promise<string> => {
    const command = await engine.run(id, ['/bin/bash', '-c', script], AbortSignal.timeout(60_000));
    command.stdin.end();
    const [out, err, { code }] = await Promise.all([text(command.stdout), text(command.stderr), command.ended]);
    assert.equal(code, 0, `${script}: ${err}`);
    return out.trim();
  };
  const logOf = async (id: string): Promise<string> => {
    const lines: string[] = [];
    for await (const batch of engine.logs(id, { follow: false, tail: 1000, signal: AbortSignal.timeout(10_000) }))
      lines.push(...batch);
    return lines.join('\n');
  };

  it('node: runs Node.js of the version in its name, and npm', async () => {
    await make('node', 'node');
    await start('node');
    const version = await run('node', 'node --version');
    assert.equal(titleOf('node'), `Node.js ${/^v(\d+)\./.exec(version)?.[1]} (Debian)`);
    await run('node', 'cd && npm init --yes && npm pkg set scripts.hello="node -p 6*7"');
    assert.match(await run('node', 'cd && npm run hello'), /\n42$/);
    assert.match(await run('node', 'git --version'), /^git version/);
    await engine.remove('node');
  });

  it('python: runs Python of the version in its name', async () => {
    await make('python', 'python');
    await start('python');
    const [, version] = /^Python (\d+\.\d+)\./.exec(await run('python', 'python3 --version')) ?? [];
    assert.equal(titleOf('python'), `Python ${version} (Debian)`);
    await engine.remove('python');
  });

  it('postgres-17: answers inside and by its port, and keeps data and password over stop, start and a new container', {
    timeout: 900_000,
  }, async () => {
    const sql = (query: string) => run('db', `psql -U postgres -At -c "${query}" app`);
    const serves = () =>
      eventually(async () => assert.equal(await sql('select count(*) >= 0 from pg_roles'), 't'), INIT_MS);
    const remote = (query: string, password: string) =>
      run('db', `PGPASSWORD=${password} psql -h "$(hostname -i)" -U app -At -c "${query}" app`);
    await make('db', 'postgres-17');
    await start('db');
    await serves();
    assert.equal(titleOf('postgres-17'), `PostgreSQL ${(await sql('show server_version')).split('.')[0]} (Debian)`);
    const password = await run('db', 'cat /root/postgres/password');
    assert.equal(await run('db', 'stat -c "%a %U" /root/postgres/password /root'), '600 root\n710 root');
    await eventually(async () => assert.equal(await remote('select 1', password), '1'));
    (await engine.dial('db', 5432, { timeoutMs: 5000 })).destroy();
    await remote('create table kept as select 42 as answer', password);
    await assert.rejects(remote('select 1', 'wrong'), /password authentication failed/);
    // The server has no secret in its environment, and its log none either.
    const log = await logOf('db');
    assert.match(log, /the password of app: cat \/root\/postgres\/password\n/);
    assert.match(log, /database system is ready to accept connections/);
    assert.doesNotMatch(log, new RegExp(password));
    assert.equal(
      await run('db', "tr '\\0' '\\n' < /proc/$(pgrep -of bin/postgres)/environ | grep -c PASSWORD || true"),
      '0',
    );

    // Somebody is connected while it is told to end.
    const waiting = run('db', 'psql -U postgres -c "select pg_sleep(600)"').catch(() => 'ended');
    await until(
      async () => (await sql("select count(*) from pg_stat_activity where query like 'select pg_sleep%'")) === '1',
    );
    await engine.stop('db', 60);
    assert.equal((await engine.inspect('db'))?.exitCode, 0);
    assert.match(await logOf('db'), /received fast shutdown request[\s\S]*database system is shut down/);
    assert.equal(await waiting, 'ended');
    await start('db');
    await serves();
    assert.equal(await remote('select answer from kept', password), '42');

    // Dumps, which replace each other as a whole.
    await run('db', '/usr/local/lib/troupe/before-snapshot');
    assert.match(await run('db', `gunzip -c ${DUMP} | grep -A1 'COPY public.kept'`), /\n42$/);
    assert.equal(
      await run('db', `stat -c %a ${DUMP}; ls /root/postgres`),
      '600\ndata\ndump.lock\ndump.sql.gz\npassword',
    );
    await run('db', '/usr/local/lib/troupe/after-snapshot');
    assert.equal(await run('db', `test ! -e ${DUMP} && echo gone`), 'gone');

    // As after a power cut: what it had answered for is there.
    await remote('insert into kept values (43)', password);
    await engine.stop('db', 0);
    await start('db');
    await serves();
    assert.equal(await remote('select answer from kept where answer > 42', password), '43');

    // Made anew around the same data, with a password of its owner's.
    await engine.stop('db', 60);
    await engine.remove('db', { keepData: true });
    await make('db', 'postgres-17');
    const settings = { POSTGRES_PASSWORD: "it's $mine", POSTGRES_DB: 'second' };
    await start('db', settings);
    await serves();
    await eventually(async () => assert.equal(await remote('select min(answer) from kept', '"it\'s \\$mine"'), '42'));
    await eventually(async () =>
      assert.equal(await sql("select datname from pg_database where datname = 'second'"), 'second'),
    );
    await engine.remove('db');
  });

  it('postgres-17: begins again when it was killed while it made its database', { timeout: 900_000 }, async () => {
    const env = { POSTGRES_USER: 'o\'wner "x"' };
    const roles = 'psql -U postgres -At -c "select rolname from pg_roles where rolcanlogin order by 1"';
    const serves = () =>
      eventually(async () => assert.equal(await run('cut', roles), 'o\'wner "x"\npostgres'), INIT_MS);
    await make('cut', 'postgres-17');
    await start('cut', env);
    await serves();
    // What makes the database stands still before its end, once.
    const slow =
      '[ ! -e /tmp/slow ] || { rm /tmp/slow; "$0.real" "$@"; echo made; exec sleep 1000; }\\nexec "$0.real" "$@"';
    await run(
      'cut',
      `cd /usr/lib/postgresql/*/bin && mv initdb initdb.real && printf '#!/bin/sh\\n${slow}\\n' > initdb &&
        chmod +x initdb && install -o postgres /dev/null /tmp/slow && pkill -STOP -u postgres && rm -r /root/postgres`,
    );
    await engine.stop('cut', 0);
    await start('cut', env);
    const made = 'test ! -e /root/postgres/data.new/PG_VERSION || echo made';
    await until(async () => (await run('cut', made)) === 'made', { timeoutMs: INIT_MS, everyMs: 200, what: made });
    assert.equal(await run('cut', 'ls /root/postgres'), 'data.new');
    // As in a power cut, nothing of it ends by itself.
    await engine.stop('cut', 0);
    await start('cut', env);
    await serves();
    assert.equal(await run('cut', 'ls /root/postgres'), 'data\npassword');
    await engine.remove('cut');
  });

  it('postgres-15: runs as before, and postgres-17 takes its dump', { timeout: 900_000 }, async () => {
    const sql = (id: string, query: string) => run(id, `psql -U postgres -At -c "${query}" app`);
    const serves = (id: string) =>
      eventually(async () => assert.equal(await sql(id, 'select current_catalog'), 'app'), INIT_MS);
    await make('old', 'postgres-15');
    await start('old');
    await serves('old');
    assert.equal(
      titleOf('postgres-15'),
      `PostgreSQL ${(await sql('old', 'show server_version')).split('.')[0]} (Debian)`,
    );
    await sql('old', 'create table kept as select 42 as answer');
    await run('old', '/usr/local/lib/troupe/before-snapshot');
    const dump = await run('old', `base64 -w 0 ${DUMP}`);
    await engine.remove('old');

    await make('new', 'postgres-17');
    await start('new');
    await serves('new');
    await run(
      'new',
      `echo ${dump} | base64 -d > ${DUMP} && gunzip -c ${DUMP} | psql -q -U postgres 2> /tmp/said || true`,
    );
    assert.equal(await sql('new', 'select answer from kept'), '42');
    const said = (await run('new', 'cat /tmp/said')).split('\n');
    assert.deepEqual(
      said.filter((line) => !/already exists$/.test(line)),
      [],
    );
    await engine.remove('new');
  });
});
