/** The client commands without a platform: what they read, what they print, how they end. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, readFile, stat, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { test } from 'node:test';
import { build } from 'esbuild';
import { TroupeError } from '../../client/index.ts';
import { clean } from '../../cmd/client/clean.ts';
import { gigabytes, megabytes, several } from '../../cmd/client/common.ts';
import { ClientFailure, EXIT, failureOf } from '../../cmd/client/failure.ts';
import { pick } from '../../cmd/client/names.ts';
import { age, cut } from '../../cmd/client/output.ts';
import { parsePort } from '../../cmd/client/ports.ts';
import { checkedUrl } from '../../cmd/client/profiles.ts';
import { EscapeKeys } from '../../cmd/client/shell.ts';
import { scopesOf, shownScopes } from '../../cmd/client/tokens.ts';
import { atTerminal } from '../support/client/terminal.ts';
import { troupe, troupeCommand } from '../support/cluster/platform.ts';
import { projectRoot } from '../support/project.ts';
import { skipWithout } from '../support/require.ts';
import { tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

test('a failure has the exit code of its kind', () => {
  const code = (error: unknown) => EXIT[failureOf(error)];
  const refused = (name: string, status: number) => code(new TroupeError(name, 'no', { status }));
  assert.deepEqual(
    [
      refused('invalid_request', 400),
      refused('unauthorized', 401),
      refused('missing_scope', 403),
      refused('not_found', 404),
      refused('not_running', 409),
      refused('limit_reached', 403),
      refused('too_many_changes', 429),
      refused('unavailable', 503),
      refused('not_configured', 503),
      refused('unreachable', 0),
      refused('internal', 500),
    ],
    [2, 3, 4, 5, 6, 7, 7, 8, 6, 8, 1],
  );
  assert.equal(code(new ClientFailure('timeout', '')), 124);
  assert.equal(code(new ClientFailure('interrupted', '')), 130);
  assert.equal(code(new Error('a defect')), 1);
});

test('a thing is found by its name, its id, or a beginning that only it has', () => {
  const things = [
    { id: 'aaa1', name: 'web' },
    { id: 'aab2', name: 'web-two' },
    { id: 'web', name: 'db' },
  ];
  const found = (text: string) => pick(things, text, 'container').name;
  assert.deepEqual(['web-', 'aab', 'd'].map(found), ['web-two', 'web-two', 'db']);
  assert.throws(() => found('web'), { code: 'usage', candidates: ['web (aaa1)', 'db (web)'] });
  assert.throws(() => found('aa'), /aa may be web \(aaa1\), web-two \(aab2\): say which/);
  assert.throws(() => found('x'), { code: 'missing', message: 'There is no container x: there is web, web-two, db.' });
});

test('ports, sizes, scopes and addresses are read as they are written', () => {
  assert.deepEqual(parsePort('80:8080'), { port: 80, target_port: 8080 });
  assert.deepEqual(parsePort('8080'), { port: 8080, target_port: 8080 });
  assert.deepEqual(parsePort('443:8080/https'), { port: 443, target_port: 8080, tls: 'platform' });
  for (const bad of ['', 'x', '80:', '80:90:100', '1234567', '80:90/http', '443/'])
    assert.throws(() => parsePort(bad), { code: 'usage' });
  assert.deepEqual(['512', '512M', '2G', '1gb'].map(megabytes), [512, 512, 2048, 1024]);
  assert.deepEqual(['5', '5G', '1T'].map(gigabytes), [5, 5, 1024]);
  for (const bad of ['', '-1', '5X']) assert.throws(() => megabytes(bad));
  assert.deepEqual(several('b,c', ['a']), ['a', 'b', 'c']);
  assert.deepEqual(scopesOf(['compute.containers:read,start', 'compute.u1.containers:stop', 'storage:pull'], 'u1'), {
    'compute.u1.containers': ['read', 'start', 'stop'],
    'storage.u1': ['pull'],
  });
  assert.throws(() => scopesOf(['compute'], 'u1'), { code: 'usage' });
  const given = ['compute:read', 'compute.containers.c1:read,update'];
  assert.equal(shownScopes(scopesOf(given, 'u1'), 'u1'), given.join(' '));
  assert.equal(checkedUrl('cloud.example.com'), 'https://cloud.example.com');
  assert.equal(checkedUrl('http://127.0.0.1:7001/x'), 'http://127.0.0.1:7001');
  assert.throws(() => checkedUrl('ssh://cloud.example.com'), { code: 'usage' });
  assert.throws(() => checkedUrl('http://cloud.example.com'), /is not encrypted: use https:\/\/cloud.example.com/);
});

test('what comes from elsewhere cannot act on a terminal, and fits it', () => {
  assert.equal(clean('a\x1b]52;c;eA==\x07b\x1b[31mred\x1b[0m\u202e'), 'a ]52;c;eA== b\x1b[31mred\x1b[0m ');
  assert.equal(cut('abcdef', 4), 'abc…');
  assert.equal(cut('日本語', 5), '日本…');
  assert.equal(cut('abc', 3), 'abc');
  assert.deepEqual([5_000, 90_000, 7_200_000, 4 * 86_400_000].map(age), ['5s', '1m', '2h', '4d']);
});

/** Keys of a terminal, and what became of those taken. */
function escapeKeys() {
  const done: string[] = [];
  const keys = new EscapeKeys({
    type: (bytes) => done.push(Buffer.from(bytes).toString()),
    hangUp: () => done.push('<hang up>'),
    leave: () => done.push('<leave>'),
    help: () => done.push('<help>'),
  });
  return { done, take: (text: string) => keys.take(Buffer.from(text)) };
}

test('a ~ at the beginning of a line is a command, and elsewhere a ~', () => {
  const { done, take } = escapeKeys();
  take('ls ~.\r');
  take('~');
  take('~x\r~?');
  take('~a\r~.never');
  assert.deepEqual(done, ['ls ~.\r', '~x\r', '<help>', '~a\r', '<hang up>']);
  assert.equal(take('\r~d'), 'leave');
  assert.deepEqual(done.slice(-2), ['\r', '<leave>']);
});

test('what a terminal answers by itself is no typing: a ~ after it is still at the beginning of its line', () => {
  const { done, take } = escapeKeys();
  // The place of the cursor, in two pieces; the kind of the terminal; a colour.
  const reports = [
    '\x1b[1',
    ';5R',
    '\x1b[?62;22c',
    '\x1b]11;rgb:0000/0000/0000\x1b\\',
    '\x1b]11;?\x07',
    '\x1bP1+r\x1b\\',
  ];
  for (const report of reports) take(report);
  take('~?');
  assert.deepEqual(done, [...reports, '<help>']);
  // A key is typing: an arrow, a function key, Esc.
  for (const key of ['\x1b[A', '\x1bOP', '\x1b']) {
    done.length = 0;
    take(`\r${key}~?\r`);
    assert.deepEqual(done, [`\r${key}~?\r`]);
  }
});

test('profiles are kept where only their user may read them, and nowhere else', async (t) => {
  const folder = await tempDir(t);
  const file = join(folder, 'troupe', 'client.json');
  const env = { XDG_CONFIG_HOME: folder, TROUPE_URL: '', TROUPE_TOKEN: '', TROUPE_PROFILE: '' };
  const run = (...args: string[]) => troupe(args, { env });
  const none = await run('ps');
  assert.deepEqual([none.code, none.stdout], [3, '']);
  assert.match(none.stderr, /You are not logged in: `troupe login URL`/);

  await mkdir(join(folder, 'troupe'), { mode: 0o755 });
  const profile = (name: string) => ({
    name,
    url: `https://${name}.example.com`,
    token: `secret-${name}`,
    username: 'ann',
  });
  await writeFile(file, JSON.stringify({ current: 'a', profiles: [profile('a'), profile('b')] }), { mode: 0o600 });
  assert.equal((await run('profile', 'ls')).stdout.split('\n')[1], '*\thttps://a.example.com\tann\ta');
  assert.equal((await run('token', '--profile', 'b')).stdout, 'secret-b\n');
  assert.equal((await run('profile', 'use', 'b')).code, 0);
  assert.equal((await run('token', '--json')).stdout, '{"token":"secret-b"}\n');
  assert.equal((await stat(file)).mode & 0o777, 0o600);
  assert.equal((await stat(join(folder, 'troupe'))).mode & 0o777, 0o700);
  const unknown = await run('token', '--profile', 'c', '--json');
  assert.deepEqual(
    [unknown.code, JSON.parse(unknown.stderr)],
    [2, { error: 'There is no profile c: there is a, b.', code: 'usage' }],
  );
  assert.equal((await run('profile', 'rm', 'b')).code, 0);
  assert.ok(!(await readFile(file, 'utf8')).includes('secret-b'));

  await chmod(file, 0o644);
  const open = await run('token');
  assert.equal(open.code, 1);
  assert.match(open.stderr, /Others may read .*client\.json, which holds tokens: `chmod 600/);
});

test('the environment alone is enough, and wrong words end with 2', async (t) => {
  const folder = await tempDir(t);
  const env = { XDG_CONFIG_HOME: folder, TROUPE_URL: 'http://127.0.0.1:1', TROUPE_TOKEN: 'x' };
  const away = await troupe(['stop', 'x', '--json'], { env });
  assert.equal(away.code, 8);
  assert.equal(JSON.parse(away.stderr).code, 'unreachable');
  for (const words of [['ps', '--nonsense'], ['pull-policy', 'x', 'never'], ['rm']])
    assert.equal((await troupe(words, { env })).code, 2, words.join(' '));
  const wrong = await troupe(['run', 'x', '--memory', 'lots'], { env });
  assert.equal(
    wrong.stderr,
    "troupe: option '--memory <size>' argument 'lots' is invalid. It must be a number, or one with M or G.\n" +
      '(troupe run --help shows what there is)\n',
  );
  const json = await troupe(['port', 'ls', '--nonsense', '--json'], { env });
  assert.deepEqual(JSON.parse(json.stderr), { error: "unknown option '--nonsense'", code: 'usage' });
  assert.match((await troupe(['exec', 'x', 'ls', '-l'], { env })).stderr, /\(put -- before .*: exec NAME -- ls -l\)/);
  assert.equal((await troupe(['ssh', 'x', '--enable', '--disable'], { env })).code, 2);
});

test('help has two parts, and a shell completes commands, options and choices', async (t) => {
  const { stdout } = await troupe(['--help']);
  const at = (text: string) => {
    const found = stdout.indexOf(text);
    assert.ok(found > 0, text);
    return found;
  };
  assert.ok(at('Your containers:') < at('Your login:') && at('Your login:') < at('The platform, on its machine:'));
  const env = { XDG_CONFIG_HOME: await tempDir(t), TROUPE_URL: '', TROUPE_TOKEN: '' };
  const complete = async (...words: string[]) =>
    (await troupe(['__complete', '--', ...words], { env })).stdout.split('\n');
  assert.deepEqual(await complete('not'), ['notifications', '']);
  assert.deepEqual(await complete('hostname', ''), ['ls', 'add', 'cache', 'rm', 'verify', '']);
  assert.deepEqual(await complete('logs', '--ta'), ['--tail', '']);
  assert.deepEqual(await complete('completion', ''), ['bash', 'zsh', 'fish', '']);
  assert.match((await troupe(['completion', 'bash'])).stdout, /complete -F _troupe troupe/);
});

test('a key is added from a file or made, not both', async (t) => {
  const env = { XDG_CONFIG_HOME: await tempDir(t), TROUPE_URL: 'http://127.0.0.1:1', TROUPE_TOKEN: 'x' };
  const { code, stderr } = await troupe(['key', 'add', 'mine.pub', '--make'], { env });
  assert.deepEqual([code, stderr], [EXIT.usage, 'troupe: Give a file, or --make alone.\n']);
});

test('whoever reads no more of what is printed ends a command without a word', async () => {
  for (const words of [['--help'], ['run', '--help'], ['completion', 'bash'], ['users', '--help']]) {
    const [program = '', ...args] = troupeCommand(words);
    // The reader is gone before anything is written.
    const script = '{ "$@"; echo "code $?" >&2; } | true';
    const child = spawn('sh', ['-c', script, 'sh', program, ...args], { stdio: ['ignore', 'ignore', 'pipe'] });
    let said = '';
    child.stderr.on('data', (data: Buffer) => (said += data));
    await once(child, 'close');
    assert.match(said, /^code (141|0)\n$/, words.join(' '));
  }
});

test('a client command loads neither zod nor the platform', async () => {
  // The entry of the command line with all that it imports at once: the rest is imported when it is needed.
  const { metafile } = await build({
    entryPoints: [join(projectRoot, 'cmd/client/commands.ts'), join(projectRoot, 'cmd/client/session.ts')],
    absWorkingDir: projectRoot,
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    outdir: 'never-written',
    packages: 'external',
    write: false,
    metafile: true,
  });
  const loaded = new Set<string>();
  const load = (file: string) => {
    if (loaded.has(file)) return;
    loaded.add(file);
    for (const { path, kind, external } of metafile.inputs[file]?.imports ?? [])
      if (kind === 'import-statement') external ? loaded.add(path) : load(path);
  };
  load('cmd/client/commands.ts');
  load('cmd/client/session.ts');
  assert.ok(loaded.has('commander') && loaded.has('client/client.ts'));
  assert.deepEqual(
    [...loaded].filter((file) => /^(zod|ws|pg|actors|storage|transports|supervision|cmd\/(cli|node))\b/.test(file)),
    [],
  );
});

test('a platform without a login by browser is asked for the password; the end of the input interrupts', {
  skip: skipWithout('script'),
}, async (t) => {
  const asked: string[] = [];
  const server = createServer(({ method, url }, reply) => {
    asked.push(`${method} ${url}`);
    reply.writeHead(404, { 'content-type': 'application/json' }).end('{"error":"no","code":"not_found"}');
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  t.after(() => server.close());
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  const folder = await tempDir(t);
  const env = { XDG_CONFIG_HOME: join(folder, 'config'), TROUPE_URL: '', TROUPE_TOKEN: '' };
  const login = await atTerminal(['login', `http://127.0.0.1:${address.port}`], { folder, env });
  t.after(login.stop);
  await until(() => login.screen().includes('Username ['), { what: 'it asks', timeoutMs: 60_000 });
  login.type('\x04');
  assert.equal(await login.ended, EXIT.interrupted, login.screen());
  assert.deepEqual(asked, ['POST /api/device']);
});

test('a command waits for the limit on changes, and says so after some seconds', async (t) => {
  let asked = 0;
  const server = createServer((_request, reply) => {
    const [status, body] = asked++ === 0 ? [429, { error: 'too fast.', code: 'too_many_changes' }] : [200, { ok: 1 }];
    reply.writeHead(status, { 'content-type': 'application/json', 'retry-after': '3' }).end(JSON.stringify(body));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  t.after(() => server.close());
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  const url = `http://127.0.0.1:${address.port}`;
  const env = { XDG_CONFIG_HOME: await tempDir(t), TROUPE_URL: url, TROUPE_TOKEN: 'x' };
  const { code, stdout, stderr } = await troupe(['api', 'PUT', '/api/settings/profile', '--body', '{}'], { env });
  assert.deepEqual([code, stdout, stderr, asked], [0, '{"ok":1}\n', 'Waiting: too fast.\n', 2]);
});
