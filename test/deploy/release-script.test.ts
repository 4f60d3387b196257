/**
 * deploy/release/release.sh with the main process of the base image and this machine's shell: what becomes of an app
 * when it is deployed, when that fails, and when it is cut short.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { cp, mkdir, readdir, readFile, readlink, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { manifestOf, walk } from '../../cmd/client/deploy/files.ts';
import { projectRoot } from '../support/project.ts';
import { findProgram, skipUnless } from '../support/require.ts';
import { tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

const INIT = join(projectRoot, 'deploy/base-image/rootfs/usr/local/sbin/troupe-init');
const SCRIPT = join(projectRoot, 'deploy/release/release.sh');
/** What the container has as its own address: the app must listen there, and not on 127.0.0.1 alone. */
const ADDRESS = '127.0.0.2';

interface Ended {
  readonly code: number | null;
  readonly out: string;
  readonly said: string;
}

/** An app that answers with a text. `on`: where it listens. In Perl, which is there at once. */
const app = (text: string, { on = '0.0.0.0', status = 200 } = {}) => `use IO::Socket::INET;
my $server = IO::Socket::INET->new(LocalAddr => '${on}', LocalPort => $ENV{PORT}, Listen => 9, ReuseAddr => 1) or die;
while (my $client = $server->accept) {
  while (<$client>) { last if /^\\r?$/ }
  print $client "HTTP/1.1 ${status} X\\r\\nContent-Length: ${text.length}\\r\\nConnection: close\\r\\n\\r\\n${text}";
}
`;

/** A container's worth of folders, with the main process in it. */
async function machine(t: TestContext, command: readonly string[] = []) {
  const folder = await tempDir(t);
  const at = (...names: string[]) => join(folder, ...names);
  const children: ChildProcess[] = [];
  const port = await freePort();
  const env = {
    ...process.env,
    PATH: `${at('bin')}:${process.env.PATH}`,
    TROUPE_APP_ROOT: at('app'),
    TROUPE_RUN: folder,
    TROUPE_HOME: at('home'),
  };
  await mkdir(at('bin'));
  await mkdir(at('home'));
  await cp(SCRIPT, at('home', 'release.sh'));
  await writeFile(at('bin', 'hostname'), `#!/bin/sh\necho ${ADDRESS} \n`, { mode: 0o755 });
  const init = (await readFile(INIT, 'utf8'))
    .replaceAll('/usr/sbin/sshd -D -e', 'sleep 1000')
    .replaceAll('/root/.troupe/start', at('home', 'start'))
    .replaceAll('/run/sshd', at('sshd'))
    .replaceAll('/run/troupe-', `${folder}/troupe-`)
    .replaceAll('/etc/ssh/', `${folder}/`);
  await writeFile(at('init'), init, { mode: 0o755 });
  await writeFile(at('ssh_host_ed25519_key'), 'is there');
  const begin = (command: string, args: readonly string[]) => {
    const child = spawn(command, args, { env, stdio: ['pipe', 'pipe', 'pipe'] });
    children.push(child);
    return child;
  };
  t.after(async () => {
    for (const child of children) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      child.kill('SIGTERM');
      await once(child, 'exit');
    }
  });
  let main = begin(at('init'), command);
  await until(() => existsSync(at('troupe-program')), { what: 'the main process is up' });

  const run = async (words: readonly string[], input = ''): Promise<Ended> => {
    const child = begin('/bin/sh', [at('home', 'release.sh'), ...words]);
    return ended(child, input);
  };
  const steps = {
    /** Sends files; resolves with the new folder. */
    async send(
      files: Readonly<Record<string, string>>,
      { start = 'exec perl app.pl', build = '', release = '', grace = 20 } = {},
    ) {
      const source = at('source');
      await rm(source, { recursive: true, force: true });
      for (const [name, text] of Object.entries(files)) {
        await mkdir(join(source, name, '..'), { recursive: true });
        await writeFile(join(source, name), text);
      }
      const begun = await run(['begin']);
      assert.equal(begun.code, 0, begun.said);
      const dir = begun.out.trim();
      const { files: found } = await walk(source, { exclude: [], withSecrets: false });
      const missing = await run(['fill', dir], await manifestOf(source, found));
      assert.equal(missing.code, 0, missing.said);
      const sent = missing.out.split('\n').filter((name) => name !== '');
      for (const name of sent) await cp(join(source, name), join(dir, 'app', name), { recursive: true });
      const about = `port=${port}\ncheck=http\npath=/\nhost=x.example\ngrace=${grace}\nnote=\n`;
      await writeFile(join(dir, 'about'), about);
      await writeFile(join(dir, 'start'), `${start}\n`);
      if (build !== '') await writeFile(join(dir, 'build'), `${build}\n`);
      if (release !== '') await writeFile(join(dir, 'release'), `${release}\n`);
      return { dir, sent };
    },
    async deploy(text: string, more?: { start?: string; grace?: number }) {
      const { dir } = await steps.send({ 'app.pl': app(text) }, more);
      return run(['activate', dir]);
    },
  };
  /** What the app answers; undefined when it does not. */
  const answer = async () => {
    try {
      return await (await fetch(`http://${ADDRESS}:${port}/`)).text();
    } catch {
      return undefined;
    }
  };
  const answers = (text: string) => until(async () => (await answer()) === text, { what: `it answers ${text}` });
  const restart = async (signal: NodeJS.Signals) => {
    const exit = once(main, 'exit');
    main.kill(signal);
    await exit;
    main = begin(at('init'), []);
  };
  const releases = async () => (await readdir(at('app', 'releases'))).sort();
  const current = () => readlink(at('app', 'current')).catch(() => undefined);
  return { at, port, begin, run, ...steps, answer, answers, restart, releases, current };
}

async function ended(child: ChildProcess, input = ''): Promise<Ended> {
  let out = '';
  let said = '';
  child.stdout?.on('data', (chunk: Buffer) => (out += chunk));
  child.stderr?.on('data', (chunk: Buffer) => (said += chunk));
  child.stdin?.on('error', () => {});
  child.stdin?.end(input);
  const [code] = await once(child, 'close');
  return { code, out, said };
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, ADDRESS);
  await once(server, 'listening');
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  assert.ok(address !== null && typeof address === 'object');
  return address.port;
}

const tools = ['perl', 'flock', 'curl', 'ss', 'setsid', 'sha256sum'];

describe('a release of an app', {
  skip: skipUnless(
    tools.every((name) => findProgram(name) !== undefined),
    tools.join(', '),
  ),
}, () => {
  test('runs once it answers, and the next takes its place', async (t) => {
    const { deploy, answer, run, current } = await machine(t);
    assert.deepEqual(await deploy('one'), { code: 0, out: '1\n', said: 'Starting release 1.\n' });
    assert.equal(await answer(), 'one');
    assert.equal((await deploy('two')).code, 0);
    assert.equal(await answer(), 'two');
    const { out } = await run(['list']);
    assert.match(out, /^1\t\d{10}\t\t\n2\t\d{10}\tcurrent\t\n$/);
    assert.equal(await current(), 'releases/2');
  });

  test('goes back to the one before, or to one that is named', async (t) => {
    const { deploy, answer, run } = await machine(t);
    for (const text of ['one', 'two', 'three']) assert.equal((await deploy(text)).code, 0);
    assert.equal((await run(['rollback'])).out, '2\n');
    assert.equal(await answer(), 'two');
    assert.equal((await run(['rollback', '3'])).out, '3\n');
    assert.equal(await answer(), 'three');
    const same = await run(['rollback', '3']);
    assert.deepEqual([same.code, same.out], [6, 'Release 3 runs already.\n']);
    const none = await run(['rollback', '9']);
    assert.deepEqual([none.code, none.out], [6, 'There is no release 9: there are 1 2 3 \n']);
    assert.equal(await answer(), 'three');
  });

  test('that is not well makes way for the one before, and is told why', async (t) => {
    const { send, deploy, answer, run, releases, port, at } = await machine(t);
    const failing = async (source: string, grace: number, start?: string) => {
      const { dir } = await send({ 'app.pl': source }, { grace, ...(start && { start }) });
      const began = new Date().toISOString();
      const { code, out, said } = await run(['activate', dir]);
      assert.equal(code, 10, said);
      // From when to when it was tried: what it said in the container's log.
      const [since = '', until = ''] = out.trim().split(' ');
      assert.match(out, /^\S+Z \S+Z\n$/);
      assert.ok(began < since && since < until && until < new Date().toISOString(), out);
      return said;
    };
    // Nothing to go back to: nothing runs, and nothing is left.
    assert.match(await failing('exit 7', 20), /The program ended with exit code 7\.\n$/);
    assert.deepEqual(await releases(), []);
    assert.ok(!existsSync(at('home', 'start')));

    assert.equal((await deploy('good')).code, 0);
    assert.match(await failing('exit 7', 20), /exit code 7\.\nRelease 1 runs again\.\n$/);
    assert.match(
      await failing(app('bad', { on: '127.0.0.1' }), 2),
      new RegExp(
        `After 2 s nothing answers on port ${port}\\.\n[\\s\\S]*perl listens on 127\\.0\\.0\\.1:${port}\n[\\s\\S]*` +
          `It must listen on 0\\.0\\.0\\.0:${port}\\. The variable PORT has the port\\.\n[\\s\\S]*Release 1 runs again\\.`,
      ),
    );
    const listener = 'LISTEN 0 9 *:3000 *:* users:(("node",pid=7,fd=3))';
    await writeFile(at('bin', 'ss'), `#!/bin/sh\necho '${listener}'\n`, { mode: 0o755 });
    assert.match(
      await failing(app('bad', { on: '127.0.0.1' }), 2),
      /node listens on \*:3000\n.*\nIf the app is what listens on 3000, say so: troupe deploy --port 3000, or port = 3000/,
    );
    await rm(at('bin', 'ss'));
    assert.match(await failing(app('bad', { status: 500 }), 2), /After 2 s it answers 500 at \/\.\nThe check wants/);
    assert.match(await failing('', 2), /ended with exit code 0: it must stay in the foreground/);
    assert.equal(await answer(), 'good');
    assert.deepEqual(await releases(), ['1']);
  });

  test('is built first, and a build that fails changes nothing', async (t) => {
    const { send, deploy, answer, run } = await machine(t);
    assert.equal((await deploy('before')).code, 0);
    const { dir } = await send(
      { 'in.txt': 'built' },
      { build: `echo "$(cat in.txt)" | tee out.txt\nfalse\ntouch never` },
    );
    const failed = await run(['build', dir]);
    assert.deepEqual(failed, { code: 11, out: '', said: 'built\nThe build failed with exit code 1.\n' });
    assert.ok(existsSync(join(dir, 'app/out.txt')) && !existsSync(join(dir, 'app/never')));
    assert.equal(await answer(), 'before');
  });

  test('has its release command run once before the switch, and one that fails switches nothing', async (t) => {
    const { send, deploy, answer, answers, run, at } = await machine(t);
    assert.equal((await deploy('before')).code, 0);
    const ran = at('ran');
    const counted = (end: string) => `echo "$PORT $(cat ../about | wc -l)" >> ${ran}\necho told\n${end}\ntouch never`;
    const { dir } = await send({ 'app.pl': app('after') }, { release: counted('false') });
    const failed = await run(['release', dir]);
    assert.deepEqual(failed, { code: 11, out: '', said: 'told\nThe release command failed with exit code 1.\n' });
    assert.ok(!existsSync(join(dir, 'app/never')));
    assert.equal(await answer(), 'before');
    // What it leaves running does not keep others from their turn.
    const leaves = `sleep 30 >/dev/null 2>&1 & echo $! > ${at('left')}`;
    const well = await send({ 'app.pl': app('after') }, { release: counted(leaves) });
    assert.equal((await run(['release', well.dir])).code, 0);
    const left = Number(await readFile(at('left'), 'utf8'));
    t.after(() => process.kill(left, 'SIGKILL'));
    assert.equal(await answer(), 'before');
    assert.equal((await run(['activate', well.dir])).code, 0);
    await answers('after');
    assert.equal((await run(['rollback'])).code, 0);
    assert.equal((await run(['rollback', '2'])).code, 0);
    assert.equal((await readFile(ran, 'utf8')).split('\n').length - 1, 2, 'a rollback does not run it');
  });

  test('runs its release command alone, and not beside a switch', async (t) => {
    const { send, begin, run, at } = await machine(t);
    const first = await send({ 'app.pl': app('x') }, { release: `echo $$ > ${at('runs')}\nexec sleep 60` });
    const second = await send({ 'app.pl': app('y') }, { release: 'true' });
    const running = begin('/bin/sh', [at('home', 'release.sh'), 'release', first.dir]);
    const pid = await until(async () => Number(await readFile(at('runs'), 'utf8').catch(() => '')), {
      what: 'the release command runs',
    });
    for (const step of ['release', 'activate'])
      assert.match((await run([step, second.dir])).out, /Another release is being switched to/);
    running.kill('SIGTERM');
    process.kill(pid, 'SIGKILL');
  });

  test('gets the files that are new, and keeps those that are not', async (t) => {
    const { send, run, at } = await machine(t);
    const files = { 'app.pl': app('x'), 'sub/with space.txt': 'same', 'b.txt': 'first' };
    const first = await send(files);
    assert.deepEqual(first.sent.sort(), ['app.pl', 'b.txt', 'sub/with space.txt']);
    assert.equal((await run(['activate', first.dir])).code, 0);
    const second = await send({ ...files, 'b.txt': 'second' });
    assert.deepEqual(second.sent, ['b.txt']);
    assert.equal(await readFile(join(second.dir, 'app/sub/with space.txt'), 'utf8'), 'same');
    // What the app made of a file that it was given is not the file.
    await writeFile(at('app/current/app/sub/with space.txt'), 'changed by the app');
    assert.deepEqual((await send(files)).sent, ['sub/with space.txt']);
  });

  test('is one of five', async (t) => {
    const { deploy, releases } = await machine(t);
    for (const text of ['1', '2', '3', '4', '5', '6', '7']) assert.equal((await deploy(text)).code, 0);
    assert.deepEqual(await releases(), ['3', '4', '5', '6', '7']);
  });

  test('does not come while another does', async (t) => {
    const { send, deploy, begin, at, answers } = await machine(t);
    assert.equal((await deploy('one')).code, 0);
    const slow = await send({ 'app.pl': app('slow') }, { start: 'sleep 3; exec perl app.pl' });
    const first = ended(begin('/bin/sh', [at('home', 'release.sh'), 'activate', slow.dir]));
    await until(() => existsSync(at('app', 'pending')));
    const second = await deploy('other');
    assert.deepEqual(
      [second.code, second.out],
      [6, 'Another release is being switched to in this container. Try again in a minute.\n'],
    );
    assert.equal((await first).code, 0);
    await answers('slow');
  });

  test('that is interrupted makes way for the one before', async (t) => {
    const { send, deploy, begin, at, answers, releases } = await machine(t);
    assert.equal((await deploy('one')).code, 0);
    const { dir } = await send({ 'app.pl': app('two') }, { start: 'sleep 1000' });
    const child = begin('/bin/sh', [at('home', 'release.sh'), 'activate', dir]);
    const end = ended(child);
    await until(() => existsSync(at('app', 'pending')));
    child.kill('SIGHUP');
    assert.match((await end).said, /Interrupted\.\nRelease 1 runs again\.\n$/);
    await answers('one');
    assert.deepEqual(await releases(), ['1']);
  });

  test('that is cut short by the end of everything is undone at the next start', async (t) => {
    const { send, deploy, begin, at, answers, restart, current } = await machine(t);
    assert.equal((await deploy('one')).code, 0);
    const { dir } = await send({ 'app.pl': app('two') }, { start: 'sleep 1000' });
    const child = begin('/bin/sh', [at('home', 'release.sh'), 'activate', dir]);
    const end = ended(child);
    await until(async () => (await current()) === 'releases/2');
    child.kill('SIGKILL');
    await end;
    await restart('SIGTERM');
    await answers('one');
    assert.equal(await current(), 'releases/1');
    assert.ok(!existsSync(at('app', 'pending')));
    assert.equal((await deploy('three')).code, 0);
  });

  test('that is the first, and is cut short by the end of everything, leaves nothing that runs', async (t) => {
    const { send, deploy, begin, at, answers, restart, current } = await machine(t);
    const { dir } = await send({ 'app.pl': app('one') }, { start: 'sleep 1000' });
    const child = begin('/bin/sh', [at('home', 'release.sh'), 'activate', dir]);
    const end = ended(child);
    await until(() => existsSync(at('home', 'start')));
    child.kill('SIGKILL');
    await end;
    await restart('SIGTERM');
    await until(async () => (await current()) === undefined, { what: 'no release is the current one' });
    await until(() => !existsSync(at('app', 'pending')));
    assert.equal((await deploy('two')).code, 0);
    await answers('two');
  });

  test('is refused where its owner has another program, or nothing could start it again', async (t) => {
    const { run, at } = await machine(t);
    await writeFile(at('home', 'start'), '#!/bin/sh\n');
    const own = await run(['begin']);
    assert.equal(own.code, 6);
    assert.match(own.out, /has a program of its own, \S+\/start\. Remove that file/);
    await rm(at('home', 'start'));
    await rm(at('troupe-init.pid'));
    const other = await run(['begin']);
    assert.equal(other.code, 6);
    assert.match(other.out, /Deploy to a new container/);
    const given = await (await machine(t, ['sleep', '1000'])).run(['begin']);
    assert.equal(given.code, 6);
    assert.match(given.out, /has a command, which runs in the place of what is deployed\. Take it away/);
  });
});
