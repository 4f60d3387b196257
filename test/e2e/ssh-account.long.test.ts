/** The client commands by SSH alone: a real platform, a real container, OpenSSH's client, and no program of Troupe's. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { z } from 'zod';
import { generateKeyPair } from '../../transports/ssh/keys.ts';
import { startBox } from '../support/clients/container.ts';
import { deleteAll, logIn, type RunningPlatform, request, startPlatform, troupe } from '../support/cluster/platform.ts';
import { skipWithoutDocker, tinyImage } from '../support/engine/docker-client.ts';
import { skipWithout } from '../support/require.ts';
import { type Ended, finish } from '../support/ssh/gateway.ts';
import { tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

const PASSWORD = 'the password of ann';

describe('SSH to an account', { skip: skipWithoutDocker() || skipWithout('ssh', 'script'), timeout: 900_000 }, () => {
  const ends: (() => unknown)[] = [];
  const cleanup = { after: (end: () => unknown) => void ends.unshift(end) };
  let platform: RunningPlatform;
  let data = '';
  let dir = '';
  let token = '';
  const ids = { login: 0, ordinary: 0, other: 0 };

  before(async () => {
    [dir, data] = [await tempDir(cleanup), await tempDir(cleanup)];
    platform = await startPlatform({ data, env: { DEFAULT_IMAGE: await tinyImage(), TROUPE_SECRET_OF_TEST: 'x' } });
    cleanup.after(() => platform.stop());
    const added = await troupe(['users', 'add', 'ann', '--data', data], { input: `${PASSWORD}\n` });
    assert.equal(added.code, 0, added.stderr);
    token = await logIn(platform.ready.urls.auth, 'ann', PASSWORD);
    for (const name of ['login', 'ordinary', 'other', 'stranger'] as const) {
      const pair = generateKeyPair(name);
      await writeFile(join(dir, name), pair.privateKey, { mode: 0o600 });
      if (name === 'stranger') continue;
      const body = { name, public_key: pair.publicKey, ...(name === 'ordinary' ? {} : { login: true }) };
      ids[name] = z.number().parse((await call('POST', '/ssh-keys', body)).id);
    }
    await startBox(platform.ready.urls.compute, token, dir);
  });
  after(async () => {
    const fresh = await logIn(platform.ready.urls.auth, 'ann', PASSWORD).catch(() => '');
    if (fresh !== '') await deleteAll(platform.ready.urls.compute, fresh);
    for (const end of ends) await end();
  });

  async function call(method: string, path: string, body?: unknown): Promise<Record<string, unknown>> {
    const more = body === undefined ? {} : { body };
    const reply = await request(method, `${platform.ready.urls.compute}/compute${path}`, { token, ...more });
    assert.equal(reply.status, 200, JSON.stringify(reply.json));
    return reply.json;
  }

  function sshWords(words: readonly string[], { key = 'login', user = 'ann', tty = false } = {}): string[] {
    const { host, port } = platform.ready.ssh;
    const known = ['-o', `UserKnownHostsFile=${join(dir, 'known_hosts')}`, '-o', 'StrictHostKeyChecking=accept-new'];
    const own = ['-F', 'none', '-i', join(dir, key), '-o', 'IdentitiesOnly=yes', '-o', 'BatchMode=yes'];
    return ['ssh', ...own, ...known, ...(tty ? ['-tt'] : []), '-p', String(port), `${user}@${host}`, ...words];
  }
  const startSsh = (words: readonly string[], how?: Parameters<typeof sshWords>[1]): ChildProcess => {
    const [program = '', ...args] = sshWords(words, how);
    const child = spawn(program, args);
    cleanup.after(() => void child.kill());
    return child;
  };
  const ssh = (words: readonly string[], input?: string, how?: Parameters<typeof sshWords>[1]): Promise<Ended> =>
    input === undefined ? finish(startSsh(words, how)) : finish(startSsh(words, how), input);

  /** A session at a terminal of 80 columns and 24 rows. */
  function atTerminal(words: readonly string[], how?: Parameters<typeof sshWords>[1]) {
    const quoted = sshWords(words, { ...how, tty: true }).map((word) => `'${word.replaceAll("'", `'\\''`)}'`);
    const child = spawn('script', ['-qec', `stty cols 80 rows 24; exec ${quoted.join(' ')}`, '/dev/null']);
    cleanup.after(() => void child.kill());
    let screen = '';
    child.stdout.on('data', (chunk: Buffer) => {
      screen += chunk;
    });
    const bare = () => screen.replaceAll(/\p{Cc}\[[0-9;?]*[A-Za-z]/gu, '');
    const shows = (text: string | RegExp) =>
      until(() => (typeof text === 'string' ? bare().includes(text) : text.test(bare())), {
        what: `${text} on the screen, which has ${JSON.stringify(screen.slice(-500))}`,
        timeoutMs: 30_000,
      });
    return {
      shows,
      type: (text: string) => void child.stdin.write(text),
      forget: () => {
        screen = '';
      },
      ended: () => until(() => child.exitCode !== null, { what: 'it ends' }).then(() => child.exitCode),
      screen: () => screen,
    };
  }

  test('the words, columns and exit codes are those of the command', async () => {
    const listed = await ssh(['ps']);
    assert.equal(listed.code, 0, listed.stderr);
    assert.match(listed.stdout.toString(), /^NAME\tSTATUS\tSIZE\tMEMORY\tDISK\tCREATED\tID\nbox\trunning\tmini\t/);
    assert.match((await ssh(['troupe', 'ps', '-q'])).stdout.toString(), /^[a-z0-9]{12}\n$/);
    const other = await ssh(['whoami'], undefined, { user: 'anything' });
    assert.match(other.stdout.toString(), /^user\tann$/m);
    assert.equal(other.stderr, 'account ann\n', 'whose account it is, where another name was given');
    assert.doesNotMatch(listed.stderr, /^account/m);
    const missing = await ssh(['show', 'nothing']);
    assert.deepEqual([missing.code, missing.stderr], [5, 'troupe: There is no container nothing: there is box.\n']);
    const wrong = await ssh(['show', 'nothing', '--json']);
    assert.equal(z.looseObject({ code: z.string() }).parse(JSON.parse(wrong.stderr)).code, 'missing');
    assert.equal((await ssh(['no-such-command'])).code, 2);
    assert.equal((await ssh(["ps 'open"])).code, 2);
    assert.equal((await ssh([], '')).code, 2, 'without a command or a terminal there is only help');
    const help = await ssh(['help']);
    assert.equal(help.code, 0);
    assert.doesNotMatch(help.stdout.toString(), /^ +(cp|login|profile|completion) /m);
  });

  test('containers are changed, and commands run in them with their input and exit code', async () => {
    const ran = await ssh(['exec', 'box', '--', "'cat; echo said >&2; exit 7'"], 'typed\n'.repeat(20_000));
    assert.deepEqual([ran.code, ran.stderr], [7, 'said\n']);
    assert.equal(ran.stdout.length, 'typed\n'.length * 20_000);
    assert.equal((await ssh(['port', 'add', 'box', '8080:80'])).code, 0);
    assert.match((await ssh(['port', 'ls', 'box'])).stdout.toString(), /:8080\t80\t/);
    const { port } = new URL(platform.ready.urls.http);
    const opened = await ssh(['port', 'add', 'box', '80']);
    assert.match(opened.stderr, new RegExp(`^http://\\S+:${port}/ leads to port 80, within 5 s\\.\\n$`));
    const kept = await ssh(['rm', 'box']);
    assert.deepEqual([kept.code, kept.stderr], [2, 'troupe: This deletes box with all data: add --yes.\n']);
    const stopped = await ssh(['stop', 'box', '--wait']);
    assert.equal(stopped.code, 0, stopped.stderr);
    assert.equal((await ssh(['start', 'box', '--wait'])).code, 0);
    const { publicKey } = generateKeyPair('by ssh');
    const added = await ssh(['key', 'add', '-', '--name', 'piped'], `${publicKey}\n`);
    assert.equal(added.code, 0, added.stderr);
    assert.match((await ssh(['key', 'ls'])).stdout.toString(), /^piped\ted25519\tSHA256:\S+\tno\t/m);
    assert.equal((await ssh(['key', 'rm', 'piped'])).code, 0);
  });

  test('a key that its owner did not mark is told how to mark it, and a strange one learns nothing', async () => {
    const ordinary = await ssh(['ps'], undefined, { key: 'ordinary' });
    assert.equal(ordinary.code, 255);
    assert.match(ordinary.stderr, /opens containers, but no account[\s\S]*`troupe key login NAME`/);
    const strange = await ssh(['ps'], undefined, { key: 'stranger' });
    assert.equal(strange.code, 255);
    assert.doesNotMatch(strange.stderr, /opens containers, but/);
    await call('PUT', `/ssh-keys/${ids.ordinary}/login`, { login: true });
    assert.equal((await ssh(['ps'], undefined, { key: 'ordinary' })).code, 0);
    await call('PUT', `/ssh-keys/${ids.ordinary}/login`, { login: false });
    assert.equal((await ssh(['ps'], undefined, { key: 'ordinary' })).code, 255);
    const { stdout } = await troupe(['audit', '--json', '--data', data]);
    assert.match(stdout, /"ssh_key\.login"/);
    assert.match(stdout, /"factor":"ssh_key"/);
  });

  test('only a login marks a key: an API token cannot', async () => {
    const { urls } = platform.ready;
    const me = await request('GET', `${urls.auth}/api/session`, { token });
    const scopes = { [`compute.${me.json.user_id}.keys`]: ['read', 'create', 'delete'] };
    const body = { name: 'keys', scopes, expires_in: '30d' };
    const made = await request('POST', `${urls.auth}/api/tokens`, { token, body });
    const api = z.string().parse(made.json.token);
    const put = { token: api, body: { login: true } };
    assert.equal((await request('PUT', `${urls.compute}/compute/ssh-keys/${ids.ordinary}/login`, put)).status, 403);
    const key = { name: 'mine', public_key: generateKeyPair('mine').publicKey, login: true };
    assert.equal((await request('POST', `${urls.compute}/compute/ssh-keys`, { token: api, body: key })).status, 403);
  });

  test('a login by key makes no credential and marks no key', async () => {
    for (const words of [
      ['api', 'POST', '/api/session/renew'],
      ['api-token', 'create', 'robot', '--scope', 'compute:read'],
      ['key', 'login', 'ordinary'],
    ]) {
      const { code, stderr } = await ssh(words);
      assert.notEqual(code, 0, words.join(' '));
      assert.match(stderr, /A login by SSH key/, words.join(' '));
    }
  });

  test('a key that somebody else marked leads to them, but not by the name of another user', async () => {
    const added = await troupe(['users', 'add', 'eve', '--data', data], { input: `${PASSWORD}\n` });
    assert.equal(added.code, 0, added.stderr);
    const eve = await logIn(platform.ready.urls.auth, 'eve', PASSWORD);
    const { publicKey, privateKey } = generateKeyPair('taken');
    await writeFile(join(dir, 'taken'), privateKey, { mode: 0o600 });
    const body = { name: 'taken', public_key: publicKey, login: true };
    const made = await request('POST', `${platform.ready.urls.compute}/compute/ssh-keys`, { token: eve, body });
    assert.equal(made.status, 200);
    const asAnn = await ssh(['whoami'], undefined, { key: 'taken' });
    assert.equal(asAnn.code, 255);
    assert.match(asAnn.stderr, /There is a user ann, whose account this key does not open/);
    assert.equal((await ssh(['whoami'], undefined, { key: 'taken', user: 'anything' })).stderr, 'account eve\n');
  });

  test('a container that answers a step of a deployment without end is cut off, and rules no terminal', async () => {
    const exec = async (text: string) => {
      const write = `mkdir -p /root/.troupe && echo '${text}' > /root/.troupe/release.sh\n`;
      assert.equal((await ssh(['exec', 'box', '--', 'sh'], write)).code, 0);
    };
    await exec('yes');
    const endless = await ssh(['releases', 'box']);
    assert.deepEqual(
      [endless.code, endless.stdout.length, endless.stderr],
      [1, 0, 'troupe: The container answered with more than it should.\n'],
    );
    await exec('printf "1\\tnever\\t\\tx\\n2\\t9\\tcurrent\\t\\033]0;title\\007\\n"');
    const listed = await ssh(['releases', 'box']);
    assert.match(listed.stdout.toString(), /^CURRENT\tDEPLOYED\tNOTE\tRELEASE\n\*\t1970-\S+\t \]0;title \t2\n$/);
    await exec('printf "a \\033]0;title\\007 b\\n" >&2; exit 1');
    assert.equal((await ssh(['releases', 'box'])).stderr, 'troupe: a  ]0;title  b\n');
    assert.equal((await ssh(['exec', 'box', '--', 'sh'], 'rm -r /root/.troupe\n')).code, 0);
  });

  test('nothing reads files, variables or programs of the platform', async () => {
    for (const words of [
      ['cp', '/etc/passwd', 'box:/tmp/x'],
      ['login'],
      ['token'],
      ['ssh-config'],
      ['forward', 'box', '1:2'],
      ['completion', 'bash'],
      ['mcp'],
      ['profile', 'ls'],
      ['admin', 'ps'],
      ['key', 'add', '/etc/ssh/ssh_host_ed25519_key.pub'],
      ['key', 'add'],
      ['env', 'set', 'box', '--file', '/etc/passwd'],
      ['env', 'secret', 'box', '--file', '/etc/passwd'],
      ['run', 'other', '--env-file', '/etc/passwd'],
      ['ps', '--profile', 'default'],
      ['logs', 'box', '--grep', "'(a+)+$'"],
    ]) {
      const { code, stdout, stderr } = await ssh(words);
      assert.deepEqual([code, stdout.toString()], [2, ''], words.join(' '));
      assert.match(stderr, /by SSH|By SSH/, words.join(' '));
    }
    for (const words of [
      ['exec', 'box', '--', 'env'],
      ['show', 'box'],
      ['whoami', '--json'],
      ['api', 'GET', '/'],
    ]) {
      const { stdout, stderr } = await ssh(words);
      assert.doesNotMatch(`${stdout}${stderr}`, /TROUPE_SECRET_OF_TEST|root:x:0|eyJ/, words.join(' '));
    }
    const outside = await ssh(['api', 'GET', '//127.0.0.1:1/']);
    assert.notEqual(outside.code, 0);
    const sftp = startSsh(['-s', 'sftp']);
    assert.notEqual((await finish(sftp)).code, 0);
    const forward = await ssh(['-W', '127.0.0.1:5432']);
    assert.notEqual(forward.code, 0);
  });

  test('at a terminal there are shapes, questions, and Ctrl-C', async () => {
    const listed = atTerminal(['ps']);
    assert.equal(await listed.ended(), 0);
    assert.match(listed.screen(), /● running/);
    assert.match(listed.screen(), /\r\n/);
    const asked = atTerminal(['rm', 'box']);
    await asked.shows('Type its name to go on: ');
    asked.type('bx\x7fog\r');
    assert.equal(await asked.ended(), 1);
    assert.match(asked.screen(), /Nothing was deleted/);
    const following = atTerminal(['logs', '-f', 'box']);
    await ssh(['exec', 'box', '--', "'echo from outside > /proc/1/fd/1'"]);
    await following.shows('from outside');
    following.type('\x03');
    assert.equal(await following.ended(), 130, following.screen());
    const shell = atTerminal(['shell', 'box']);
    await shell.shows('(~? lists what ~ does)');
    shell.type('echo $((6*7)); exit\r');
    assert.equal(await shell.ended(), 0, shell.screen());
    assert.match(shell.screen(), /\b42\r\n/);
  });

  test('a client that leaves takes its command with it', async () => {
    const sockets = async () => {
      const actors = await request('GET', `${platform.ready.urls.auth}/api/runtime/actors`, {
        token: await logIn(
          platform.ready.urls.auth,
          platform.ready.admin.username,
          platform.ready.admin.password ?? '',
        ),
      });
      return JSON.stringify(actors.json).split('"compute/log"').length;
    };
    const before = await sockets();
    const child = startSsh(['logs', '-f', 'box']);
    await until(async () => (await sockets()) > before, { what: 'it follows the log' });
    child.kill('SIGKILL');
    await until(async () => (await sockets()) === before, { what: 'nothing follows the log', timeoutMs: 60_000 });
  });

  test('the menu lists, follows logs, opens a shell, stops, starts, creates, and leaves the terminal clean', async () => {
    const menu = atTerminal([]);
    await menu.shows('1 container');
    await menu.shows(/1 box +● running/);
    menu.type('l');
    await menu.shows('Ctrl-C goes back to the menu');
    menu.type('\x03');
    await menu.shows(/Ctrl-C goes back[\s\S]*1 container/);
    menu.forget();
    menu.type('\r');
    await menu.shows('(~? lists what ~ does)');
    menu.type('echo $((6*7))\rexit\r');
    await menu.shows('You left box.');
    assert.match(menu.screen(), /\b42\r\n/);
    menu.forget();
    menu.type('s');
    await menu.shows('■ stopped');
    menu.type('1\r');
    await menu.shows('box is stopped: s starts it.');
    menu.type('s');
    await menu.shows('● running');
    menu.type('c');
    await menu.shows('Name of the new container');
    menu.type('second\r');
    await menu.shows('second runs.');
    await menu.shows('2 containers');
    menu.type('q');
    assert.equal(await menu.ended(), 0);
    assert.ok(menu.screen().trimEnd().includes('\x1b[?25h\x1b[?1049l'), 'the cursor and the screen of before are back');
    assert.equal((await ssh(['rm', 'second', '--yes'])).code, 0);
  });

  test('ends at once when the key is unmarked, and when its user is disabled', async () => {
    const open = async (key: string) => {
      const session = atTerminal([], { key });
      await session.shows('1 container');
      return session;
    };
    const [byOther, byLogin] = [await open('other'), await open('login')];
    await call('PUT', `/ssh-keys/${ids.other}/login`, { login: false });
    assert.equal(await byOther.ended(), 255);
    await byOther.shows('does not open your account any more');
    const disabled = await troupe(['users', 'disable', 'ann', '--data', data]);
    assert.equal(disabled.code, 0, disabled.stderr);
    assert.equal(await byLogin.ended(), 255);
    assert.equal((await ssh(['ps'])).code, 255);
    assert.equal((await troupe(['users', 'enable', 'ann', '--data', data])).code, 0);
    await until(async () => (await ssh(['ps'])).code === 0, { what: 'the key opens the account again' });
  });

  test('leaves no file on the platform', async () => {
    const written = await readdir(data, { recursive: true });
    assert.ok(written.every((name) => !/client\.json|known_hosts/.test(name)));
    assert.match(await readFile(join(dir, 'known_hosts'), 'utf8'), /ssh-ed25519/);
  });
});
