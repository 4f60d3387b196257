/** The client commands on a real platform with a real container, through its gateway. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { z } from 'zod';
import { createContainer, listContainers } from '../../proto/compute/endpoints.ts';
import { listNotifications } from '../../proto/notify/endpoints.ts';
import { atTerminal } from '../support/client/terminal.ts';
import { type Box, startBox } from '../support/clients/container.ts';
import {
  deleteAll,
  logIn,
  type RunningPlatform,
  request,
  spawnTroupe,
  startPlatform,
  troupe,
  troupeCommand,
} from '../support/cluster/platform.ts';
import { skipWithoutDocker, tinyImage } from '../support/engine/docker-client.ts';
import { skipWithout } from '../support/require.ts';
import { until } from '../support/until.ts';

describe('client commands', { skip: skipWithoutDocker(), timeout: 900_000 }, () => {
  let data = '';
  let platform: RunningPlatform;
  let token = '';
  let box: Box;

  const env = () => ({ XDG_CONFIG_HOME: join(data, 'config'), TROUPE_URL: '', TROUPE_TOKEN: '' });
  const run = (args: readonly string[], input?: string) =>
    troupe(args, input === undefined ? { env: env() } : { env: env(), input });
  const ok = async (args: readonly string[], input?: string) => {
    const { code, stdout, stderr } = await run(args, input);
    assert.equal(code, 0, `troupe ${args.join(' ')}: ${stderr}`);
    return { stdout, stderr };
  };

  before(async () => {
    data = await mkdtemp(join(tmpdir(), 'troupe-test-'));
    platform = await startPlatform({ data, env: { DEFAULT_IMAGE: await tinyImage() } });
    const { urls, admin } = platform.ready;
    token = await logIn(urls.auth, admin.username, admin.password ?? '');
    box = await startBox(urls.compute, token, data);
  });
  after(async () => {
    try {
      await deleteAll(platform.ready.urls.compute, token);
    } finally {
      await platform.stop();
      await rm(data, { recursive: true, force: true });
    }
  });

  test('login finds the platform of this machine, and pins its authority', async () => {
    const { urls, admin } = platform.ready;
    const without = await run(['login', urls.https, '--user', 'admin', '--password-stdin', '--data', '/none'], 'x');
    assert.equal(without.code, 1);
    assert.match(without.stderr, /is not trusted[\s\S]*--ca ca\.pem/);
    const wrong = await run(['login', '--data', data, '--user', 'admin', '--password-stdin'], 'wrong');
    assert.equal(wrong.code, 3);
    const { stderr } = await ok(
      ['login', '--data', data, '--user', 'admin', '--password-stdin'],
      `${admin.password}\n`,
    );
    assert.match(stderr, /own authority, SHA-256 ([0-9A-F]{2}:){31}/);
    assert.match((await ok(['whoami'])).stdout, /^user\tadmin$[\s\S]*^limits\t3 containers, 10 SSH keys/m);
    assert.equal(JSON.parse((await ok(['whoami', '--json'])).stdout).username, 'admin');
  });

  describe('login by browser', { skip: skipWithout('script') }, () => {
    const program = { XDG_CONFIG_HOME: '', TROUPE_URL: '', TROUPE_TOKEN: '' };
    before(() => {
      program.XDG_CONFIG_HOME = join(data, 'config-by-browser');
    });
    const decide = async (page: string, decision: 'approve' | 'refuse') => {
      const url = `${platform.ready.urls.auth}/api/device/approve`;
      const body = { user_code: new URL(page).hash.slice(1), decision };
      const { status, json } = await request('POST', url, { token, body });
      assert.equal(status, 200, JSON.stringify(json));
      return json;
    };

    test('at a terminal it opens the page with the code, and logs in once a person approves', async (t) => {
      const login = await atTerminal(['login', '--data', data], { folder: data, env: program });
      t.after(login.stop);
      const page = await login.opened();
      const { origin } = new URL(platform.ready.urls.https);
      assert.match(page, new RegExp(`^${origin}/device#[A-Z0-9]{4}-[A-Z0-9]{4}$`));
      await until(() => login.screen().includes('Waiting'), { what: 'it says what it waits for' });
      assert.ok(login.screen().includes(`Open ${origin}/device in a browser`), login.screen());
      assert.ok(login.screen().includes(new URL(page).hash.slice(1)));
      assert.equal((await decide(page, 'approve')).name, hostname());
      assert.equal(await login.ended, 0, login.screen());
      assert.match(login.screen(), /Logged in at \S+ as admin/);
      const who = await troupe(['whoami'], { env: program });
      assert.match(who.stdout, /^user\tadmin$/m);
      const sessions = await troupe(['api', 'GET', '/api/settings/sessions'], { env: program });
      const [newest] = z
        .array(z.looseObject({ user_agent: z.string(), is_current: z.boolean() }))
        .parse(JSON.parse(sessions.stdout));
      assert.deepEqual([newest?.user_agent, newest?.is_current], [`troupe on ${hostname()}`, true]);
    });

    test('a refusal ends it with 3, and keeps the login that was there', async (t) => {
      const kept = (await troupe(['token'], { env: program })).stdout;
      assert.match(kept, /\S/);
      const login = await atTerminal(['login', '--data', data], { folder: data, env: program });
      t.after(login.stop);
      await decide(await login.opened(), 'refuse');
      assert.equal(await login.ended, 3, login.screen());
      assert.match(login.screen(), /The login was refused in the browser\./);
      assert.equal((await troupe(['token'], { env: program })).stdout, kept);
    });

    test('it asks for the password instead where that is wanted', async (t) => {
      const { admin } = platform.ready;
      const login = await atTerminal(['login', '--data', data, '--password'], { folder: data, env: program });
      t.after(login.stop);
      await until(() => login.screen().includes('Username ['), { what: 'it asks', timeoutMs: 60_000 });
      login.type('admin\r');
      await until(() => login.screen().includes('Password of admin: '), { what: 'it asks again', timeoutMs: 60_000 });
      login.type(`${admin.password}\r`);
      assert.equal(await login.ended, 0, login.screen());
      assert.ok(!login.screen().includes(admin.password ?? ''));
    });

    test('off a terminal it opens nothing, waits for nobody, and reads no input that nobody asked it to', async () => {
      for (const more of [[], ['--json'], ['--user', 'admin'], ['--password']]) {
        // Its input stays open, as that of a job often does.
        const [node = '', ...args] = troupeCommand(['login', '--data', data, ...more]);
        const child = spawn(node, args, { env: { ...process.env, ...program }, stdio: ['pipe', 'ignore', 'ignore'] });
        const [code] = await once(child, 'close');
        assert.equal(code, 2, more.join(' '));
      }
    });
  });

  test('a list is a table with tabs, chosen columns, ids, or what the endpoint answers', async () => {
    const { stdout } = await ok(['ps']);
    assert.match(stdout, /^NAME\tSTATUS\tSIZE\tMEMORY\tDISK\tCREATED\tID\nbox\trunning\tmini\t/);
    assert.equal((await ok(['ps', '--columns', 'status,name'])).stdout, 'STATUS\tNAME\nrunning\tbox\n');
    assert.equal((await ok(['ps', '-q'])).stdout, `${box.id}\n`);
    listContainers.reply?.parse(JSON.parse((await ok(['ps', '--json'])).stdout));
    assert.match((await ok(['show', 'bo'])).stdout, new RegExp(`^id\t${box.id}$`, 'm'));
    const missing = await run(['show', 'nothing', '--json']);
    assert.deepEqual([missing.code, JSON.parse(missing.stderr).code], [5, 'missing']);
  });

  test('run makes a container with ports and waits for it; stop, start and rm follow', async () => {
    const made = await ok(['run', 'second', '--size', 'mini', '--mount', 'none', '-p', '8081:80', '--json']);
    createContainer.reply?.parse(JSON.parse(made.stdout));
    assert.equal(JSON.parse(made.stdout).status, 'running');
    assert.match((await ok(['show', 'second'])).stdout, /^kept paths\tnone$/m);
    assert.equal((await run(['run', 'third', '--mount', 'none', '--mount', '/data'])).code, 2);
    assert.match((await ok(['port', 'ls', 'second'])).stdout, /:8081\t80\t/);
    await ok(['port', 'rm', 'second', '8081']);
    const bad = await run(['port', 'add', 'second', '9999']);
    assert.equal(bad.code, 2);
    await ok(['exec', 'second', '--', 'echo begun > /proc/1/fd/2']);
    await ok(['stop', 'second', '--wait']);
    assert.match((await ok(['logs', 'second', '--stamps', '--until', '0s'])).stdout, /^20\S+Z begun$/m);
    assert.match((await ok(['logs', 'second', '--stream', 'stderr'])).stdout, /^begun$/m);
    assert.equal((await ok(['logs', 'second', '--until', '1h'])).stdout, '');
    const stopped = await run(['logs', 'second', '-f']);
    assert.equal(stopped.code, 6);
    assert.match(stopped.stderr, /is stopped: start it first/);
    assert.equal((await run(['logs', 'second', '-f', '--until', '1h'])).code, 2);
    assert.match((await ok(['start', 'second', '--wait'])).stderr, /second is running\.\n$/);
    assert.equal((await run(['rm', 'second'])).code, 2);
    await ok(['rm', 'second', '--yes']);
    assert.equal((await ok(['ps', '-q'])).stdout, `${box.id}\n`);
  });

  test('a shell takes its input from a pipe, and logs -f shows what it wrote, then goes on', async () => {
    const { stdout } = await ok(['shell', 'box'], 'echo $((6 * 7)) is it >/proc/1/fd/1; echo do""ne; exit\n');
    assert.match(stdout, /done\r\n/);
    assert.match((await ok(['logs', 'box', '--tail', '5'])).stdout, /^42 is it$/m);
    const follower = spawnTroupe(['logs', 'box', '-f', '--tail', '20', '--json'], env());
    let lines = '';
    follower.stdout.on('data', (chunk: Buffer) => (lines += chunk));
    await until(() => lines.includes('42 is it'), { what: 'the log begins', timeoutMs: 60_000 });
    await ok(['shell', 'box'], 'echo and on >/proc/1/fd/1; exit\n');
    await until(() => lines.includes('and on'), { what: 'the log goes on', timeoutMs: 60_000 });
    assert.deepEqual(Object.keys(JSON.parse(lines.split('\n')[0] ?? '')), ['stamp', 'text']);
    follower.kill('SIGINT');
    await until(() => follower.exitCode === 130, { what: 'it ends as interrupted' });
  });

  test('a shell ends with its input, however early that ends', async () => {
    assert.match((await ok(['shell', 'box'], 'echo se""en\n')).stdout, /seen\r\n/);
    await ok(['shell', 'box'], '');
  });

  test('ssh runs the system ssh, whose exit code is that of the command', async () => {
    const { code, stdout } = await run(['ssh', 'box', '--', '-i', box.keyFile, 'echo by ssh; exit 7']);
    assert.deepEqual([code, stdout], [7, 'by ssh\n']);
    assert.match(
      (await ok(['ssh-config'])).stdout,
      /^Host box\.troupe\n {2}HostName 127\.0\.0\.1\n {2}Port \d+\n {2}User /,
    );
  });

  test('exec passes input, both outputs and the exit code, without SSH', async () => {
    const shown = await run(['exec', 'box', '--', 'cat; echo to stderr >&2; exit 3'], 'typed\n');
    assert.deepEqual([shown.code, shown.stdout, shown.stderr], [3, 'typed\n', 'to stderr\n']);
    assert.equal((await ok(['exec', 'box', '--', 'printf', '%s|', 'a b', "it's"], '')).stdout, "a b|it's|");
    assert.equal((await run(['exec', 'box', '--', '/none/such'], '')).code, 127);
    assert.equal((await run(['exec', 'nothing', '--', 'true'], '')).code, 5);
    const many = await ok(['exec', 'box', '--', 'wc', '-c'], 'x'.repeat(3_000_000));
    assert.equal(many.stdout.trim(), '3000000');
  });

  test('cp copies files and folders both ways, and says what is a folder', async () => {
    const here = join(data, 'copies');
    await mkdir(join(here, 'site/deep'), { recursive: true });
    const bytes = Buffer.alloc(300_000, 'abc\0');
    await writeFile(join(here, 'site/one'), bytes);
    await writeFile(join(here, 'site/deep/two'), 'two');
    await writeFile(join(here, 'empty'), '');
    assert.match((await ok(['cp', join(here, 'site/one'), 'box:'])).stderr, / is copied to box:\/root\/one\.\n$/);
    await ok(['cp', 'box:one', join(here, 'back')]);
    assert.ok((await readFile(join(here, 'back'))).equals(bytes));
    await ok(['cp', join(here, 'empty'), join(here, 'site/one'), 'box:/tmp']);
    await ok(['cp', 'box:/tmp/empty', here]);
    const folder = await run(['cp', join(here, 'site'), 'box:/srv']);
    assert.equal(folder.code, 2);
    assert.match(folder.stderr, /is a folder: `troupe cp -r`/);
    // The engine would refuse the whole archive for it.
    await symlink('../../empty', join(here, 'site/deep/out'));
    await symlink('../one', join(here, 'site/deep/in'));
    const withLinks = await ok(['cp', '-r', join(here, 'site'), 'box:/new/place']);
    assert.match(withLinks.stderr, /^Left here, as they lead out of the folder: deep\/out -> \.\.\/\.\.\/empty\.\n/);
    assert.equal((await ok(['exec', 'box', '--', 'cat', '/new/place/deep/two'], '')).stdout, 'two');
    assert.equal((await ok(['exec', 'box', '--', 'ls', '/new/place/deep'], '')).stdout, 'in\ntwo\n');
    await ok(['cp', '-r', join(here, 'site'), 'box:/new/place']);
    const json = await ok(['cp', '-r', 'box:/new/place', here, '--json']);
    assert.deepEqual(JSON.parse(json.stdout), { copied: [{ from: 'box:/new/place', to: join(here, 'place') }] });
    assert.equal(await readFile(join(here, 'place/site/deep/two'), 'utf8'), 'two');
    assert.equal((await run(['cp', 'box:/none/such', here])).code, 5);
    assert.equal((await run(['cp', join(here, 'none'), 'box:'])).code, 5);
    assert.equal((await run(['cp', 'box:/root', here])).code, 2);
  });

  test('a token for programs is printed alone, does what it may, and says what it may not', async () => {
    const { stdout } = await ok([
      'api-token',
      'create',
      'ci',
      '--scope',
      'compute.containers:read',
      '--expires',
      '30d',
    ]);
    assert.match(stdout, /^svc_\S+\n$/);
    const ca = join(data, 'ca.pem');
    const program = { TROUPE_URL: platform.ready.urls.https, TROUPE_TOKEN: stdout.trim(), TROUPE_CA: ca };
    const asProgram = (...args: string[]) => troupe(args, { env: { XDG_CONFIG_HOME: '/nowhere', ...program } });
    assert.equal((await asProgram('ps', '-q')).stdout, `${box.id}\n`);
    const refused = await asProgram('stop', 'box');
    assert.equal(refused.code, 4);
    assert.match(refused.stderr, /missing compute\.\S+ scope/);
    assert.equal((await asProgram('notifications')).code, 4);
    await ok(['api-token', 'rm', 'ci']);
    assert.equal((await asProgram('ps')).code, 3);
  });

  test('keys, hostnames, mutes, notifications and any other request', async () => {
    assert.match((await ok(['key', 'ls'])).stdout, /^box\ted25519\tSHA256:\S{43}\t/m);
    const added = await ok(['key', 'add', '-'], await readFile(`${box.keyFile}.pub`, 'utf8')).catch(() => undefined);
    assert.equal(added, undefined, 'the same key is not added twice');
    const { stderr } = await ok(['hostname', 'add', 'www.example.com', 'box']);
    assert.match(stderr, /TXT {4}_svc-verify\.www\.example\.com/);
    assert.match((await ok(['hostname', 'ls'])).stdout, /^www\.example\.com\tpending\tbox:80\t/m);
    await ok(['hostname', 'rm', 'www.example.com']);
    await ok(['mute', 'add', 'storage']);
    assert.match((await ok(['mute', 'ls'])).stdout, /^storage\t\(all\)\t/m);
    await ok(['mute', 'rm', 'storage']);
    assert.equal((await ok(['mute', 'ls', '--json'])).stdout, '[]\n');
    const notifications = await ok(['notifications', '--json', '--limit', '5']);
    listNotifications.reply?.parse(JSON.parse(notifications.stdout));
    assert.ok(Array.isArray(JSON.parse((await ok(['api', 'GET', '/compute/images'])).stdout)));
    assert.equal((await run(['api', 'GET', '/compute/nothing'])).code, 5);
    assert.match((await ok(['admin', 'ps'])).stdout, /^admin\tbox\trunning\t/m);
    assert.match((await ok(['admin', 'machines', '--columns', 'name'])).stdout, /^NAME\n\S+\n/);
  });

  test('logout ends the session and forgets it', async () => {
    const token = (await ok(['token'])).stdout.trim();
    const asked = () =>
      fetch(`${platform.ready.urls.auth}/api/session`, { headers: { authorization: `Bearer ${token}` } });
    assert.equal((await asked()).status, 200);
    const made = (await ok(['api-token', 'create', 'spare', '--scope', 'compute:read'])).stdout.trim();
    await ok(['login', '--data', data, '--token', '--profile', 'spare'], `${made}\n`);
    await ok(['profile', 'use', 'default']);
    const out = await ok(['logout']);
    assert.match(
      out.stdout + out.stderr,
      /^Logged out of \S+ Commands go to \S+ with an API token .*\(profile spare\)\.$/m,
    );
    assert.equal((await asked()).status, 401);
    await ok(['logout']);
    assert.equal((await run(['ps'])).code, 3);
  });
});
