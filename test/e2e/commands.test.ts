/** The command line, run as a person or a script runs it. */
import assert from 'node:assert/strict';
import { generateKeyPairSync, X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { z } from 'zod';
import { insertContainer, setStatus } from '../../storage/compute/containers.ts';
import { openDb } from '../../storage/db.ts';
import { logIn, request, startPlatform, troupe } from '../support/cluster/platform.ts';
import { testDatabase } from '../support/database/database.ts';
import { skipWithoutDocker, tinyImage } from '../support/engine/docker-client.ts';
import { silentLog } from '../support/log.ts';
import { type Cleanup, tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

async function setting(t: Cleanup) {
  const database = await testDatabase();
  t.after(() => database.close());
  const data = await tempDir(t);
  const env = { DATABASE_URL: database.url };
  return {
    data,
    env,
    cli: (args: string[], input?: string) =>
      troupe([...args, '--data', data], { env, ...(input === undefined ? {} : { input }) }),
  };
}

test('users are added, listed and given passwords', async (t) => {
  const { cli } = await setting(t);
  const generated = await cli(['users', 'add', 'ann']);
  assert.equal(generated.code, 0, generated.stderr);
  assert.match(generated.stdout, /^Added ann\. The password is [A-Za-z0-9]{20} \(shown only now\)\.\n$/);
  const piped = await cli(['users', 'add', 'bob', '--json'], 'from a pipe\r\nsecond line\n');
  const bob = z
    .object({ id: z.string(), username: z.literal('bob'), password: z.null() })
    .parse(JSON.parse(piped.stdout));

  const table = await cli(['users', 'list']);
  assert.match(
    table.stdout,
    /^USERNAME +ID +ADDED +STATUS +IMAGES +CONTAINERS +SSH KEYS\n(?:(?:ann|bob) +[a-z0-9]{12} +\S+ +active(?: +default){3}\n){2}$/,
  );
  const json = await cli(['users', 'list', '--json']);
  assert.equal(
    z.array(z.object({ id: z.string(), username: z.string() })).parse(JSON.parse(json.stdout))[1]?.id,
    bob.id,
  );

  const given = await cli(['users', 'registry-limit', 'bob', '10240']);
  assert.equal(given.stdout, 'The images of bob may hold 10240 MiB, from the next push on.\n');
  assert.match((await cli(['users', 'list'])).stdout, /\nbob +\S+ +\S+ +active +10240 MiB +default +default\n/);
  const none = await cli(['users', 'registry-limit', 'bob', '0']);
  assert.equal(none.stdout, 'bob may push no images. Those that are there stay.\n');
  const back = JSON.parse((await cli(['users', 'registry-limit', 'bob', 'default', '--json'])).stdout);
  assert.deepEqual(back, { id: bob.id, username: 'bob', registry_limit_mb: null, before: 0, changed: true });
  for (const wrong of ['lots', '1.5', '1e3', '9999999999'])
    assert.match(
      (await cli(['users', 'registry-limit', 'bob', wrong])).stderr,
      /give a number of MiB such as 10240, 0/,
    );
  assert.match((await cli(['users', 'registry-limit', 'nobody', '5'])).stderr, /There is no user nobody/);

  const limits = (...options: string[]) => cli(['users', 'limits', 'bob', ...options]);
  const raised = await limits('--containers', '10', '--log-sockets', '60', '--images', '5');
  assert.match(
    raised.stdout,
    /^LIMIT +VALUE\ncontainers +10\nssh keys +default\n(.+\n){2}log sockets +60\n(.+\n){2}images +5 MiB\n$/,
  );
  const reset = JSON.parse((await limits('--log-sockets', 'default', '--json')).stdout);
  assert.deepEqual(
    [reset.limits.containers, reset.limits.log_sockets, reset.registry_limit_mb, reset.changed],
    [10, null, 5, ['log_sockets']],
  );
  assert.match((await limits('--ssh-keys', '101')).stderr, /--ssh-keys is "101": give 0 to 100, or "default"/);
  assert.match((await cli(['users', 'list'])).stdout, /\nbob +\S+ +\S+ +active +5 MiB +10 +default\n/);
  assert.match((await cli(['users', 'limits', 'nobody'])).stderr, /There is no user nobody/);

  assert.equal((await cli(['users', 'forget-keys', 'ann'])).stdout, 'ann has no security keys.\n');
  const again = await cli(['users', 'add', 'ann'], 'whatever it is\n');
  assert.deepEqual([again.code, again.stdout, again.stderr], [1, '', 'troupe: There is a user ann already.\n']);
  for (const [args, input, message] of [
    [['users', 'add', 'Not A Name'], 'long enough', /The username must be 1 to 63 characters/],
    [['users', 'add', 'carol'], 'short', /The password must be 8 to 256 characters/],
    [['users', 'passwd', 'nobody'], 'long enough', /There is no user nobody/],
    [['users', 'forget-keys', 'nobody'], '', /There is no user nobody/],
  ] as const) {
    const refused = await cli([...args], input);
    assert.equal(refused.code, 1);
    assert.match(refused.stderr, message);
  }
});

test('a link to set a password is printed alone, and leads to where the console is', async (t) => {
  const { cli, data, env } = await setting(t);
  await cli(['users', 'add', 'ann'], 'the first password\n');
  const command = ['users', 'password-link', 'ann'];
  const nowhere = await cli(command);
  assert.deepEqual([nowhere.code, nowhere.stdout], [1, '']);
  assert.match(nowhere.stderr, /Where is the console\? .*--url/);
  const given = await cli([...command, '--url', 'https://cloud.example.com:8443/anything']);
  assert.match(given.stdout, /^https:\/\/cloud\.example\.com:8443\/password#[\w-]{43}\n$/);
  assert.match(given.stderr, /^ann sets a new password with this link, once, until \d{4}-\d\d-\d\d \d\d:\d\d UTC\./);
  const byDomain = await troupe([...command, '--data', data, '--json', '--expires', '1h'], {
    env: { ...env, PLATFORM_DOMAIN: 'cloud.test' },
  });
  const json = z.strictObject({ username: z.literal('ann'), url: z.url(), expires_at: z.iso.datetime() });
  const { url, expires_at } = json.parse(JSON.parse(byDomain.stdout));
  assert.match(url, /^https:\/\/cloud\.test\/password#/);
  assert.notEqual(url.split('#')[1], given.stdout.trim().split('#')[1]);
  assert.ok(Date.parse(expires_at) <= Date.now() + 3_600_000);
  const added = await cli(['users', 'add', 'bob', '--link', '--url', 'https://cloud.test', '--json'], '');
  const bob = z.strictObject({
    ...{ id: z.string(), username: z.literal('bob'), password: z.null() },
    ...{ url: z.url(), expires_at: z.iso.datetime() },
  });
  bob.parse(JSON.parse(added.stdout));
  for (const [args, message] of [
    [['users', 'password-link', 'nobody', '--url', 'https://cloud.test'], /There is no user nobody/],
    [[...command, '--url', 'cloud.test'], /--url must be the address of the console/],
    [[...command, '--expires', '30d'], /Allowed choices are 1h, 24h, 7d/],
  ] as const) {
    const refused = await cli([...args]);
    assert.deepEqual([refused.code === 0, refused.stdout], [false, '']);
    assert.match(refused.stderr, message);
  }
  await cli(['users', 'disable', 'ann']);
  const disabled = await cli([...command, '--url', 'https://cloud.test']);
  assert.equal(disabled.stderr, 'troupe: ann is disabled: enable them before you make a link.\n');
});

test('the audit trail is shown, filtered, as text and as lines of JSON', async (t) => {
  const { cli } = await setting(t);
  await cli(['users', 'add', 'ann'], 'the first password\n');
  await cli(['users', 'add', 'bob'], 'the first password\n');
  await cli(['users', 'passwd', 'ann'], 'the second password\n');
  const text = await cli(['audit']);
  assert.equal(text.code, 0, text.stderr);
  const [header, ...lines] = text.stdout.trimEnd().split('\n');
  assert.match(header ?? '', /^AT +WHO +ACTION +TARGET +ADDRESS +DETAIL$/);
  assert.deepEqual(
    lines.map((line) => /^\S+Z {2}(operator) +(\S+) +[a-z0-9]{12} +- +username=(\S+)$/.exec(line)?.slice(1)),
    [
      ['operator', 'user.add', 'ann'],
      ['operator', 'user.add', 'bob'],
      ['operator', 'user.password', 'ann'],
    ],
  );
  const count = async (...args: string[]) => {
    const { stdout } = await cli(['audit', '--json', ...args]);
    return stdout.split('\n').filter((line) => line !== '' && JSON.parse(line).username === 'operator').length;
  };
  assert.equal(await count(), 3);
  assert.equal(await count('--action', 'user', '--limit', '2'), 2);
  assert.equal(await count('--action', 'user.password', '--user', 'operator', '--since', '1h'), 1);
  assert.equal(await count('--user', 'ann'), 0);
  const wrong = await cli(['audit', '--since', 'yesterday']);
  assert.deepEqual([wrong.code, wrong.stdout], [1, '']);
  assert.match(wrong.stderr, /^troupe: --since must be a time such as 30m/);
});

test('a password changed from the command line holds in the running platform', {
  skip: skipWithoutDocker(),
  timeout: 900_000,
}, async (t) => {
  const { data, env, cli } = await setting(t);
  const platform = await startPlatform({
    data,
    env: { ...env, DEFAULT_IMAGE: await tinyImage(), ADMIN_PASSWORD: 'the admin of this test' },
  });
  t.after(() => platform.stop());
  const { auth } = platform.ready.urls;
  await cli(['users', 'add', 'ann'], 'the first password\n');
  const token = await logIn(auth, 'ann', 'the first password');
  assert.equal((await request('GET', `${auth}/api/session`, { token })).json.username, 'ann');

  const changed = await cli(['users', 'passwd', 'ann'], 'the second password\n');
  assert.equal(changed.code, 0, changed.stderr);
  assert.equal(changed.stdout, 'The password of ann is changed. All sessions are ended (1); API tokens go on.\n');
  await until(async () => (await request('GET', `${auth}/api/session`, { token })).status === 401, {
    what: 'the old session is over',
  });
  const next = await logIn(auth, 'ann', 'the second password');
  const body = { current_password: 'the second password', new_password: 'the third password' };
  // The user's actor was awake: it hears of the change through the outbox.
  await until(
    async () => (await request('PUT', `${auth}/api/settings/password`, { token: next, body })).status === 200,
    {
      what: 'the actor knows the new password',
    },
  );
  await logIn(auth, 'ann', 'the third password');

  const made = await cli(['users', 'password-link', 'ann', '--json']);
  const { url } = z.object({ url: z.url() }).parse(JSON.parse(made.stdout));
  const console = platform.ready.urls.console ?? platform.ready.urls.https;
  assert.equal(new URL(url).origin, new URL(console).origin);
  const used = await request('POST', `${auth}/api/password-link/use`, {
    body: { token: new URL(url).hash.slice(1), new_password: 'the fourth password' },
  });
  assert.deepEqual([used.status, used.json], [200, { username: 'ann' }]);
  await logIn(auth, 'ann', 'the fourth password');
});

test('containers of all users are listed with what they wait for', async (t) => {
  const { cli, env } = await setting(t);
  const owner = z
    .object({ id: z.string() })
    .parse(JSON.parse((await cli(['users', 'add', 'ann', '--json'], 'the password of ann\n')).stdout));
  assert.equal((await cli(['containers', 'list'])).stdout, 'There are no such containers.\n');
  const db = openDb({ connectionString: env.DATABASE_URL }, { log: silentLog, name: 'test', max: 1 });
  t.after(() => db.close());
  const reason = 'Waiting for the container engine.';
  for (const [id, name] of [
    ['aaaaaaaaaaaa', 'waiting'],
    ['bbbbbbbbbbbb', 'running'],
  ] as const) {
    await db.tx(async (tx) => {
      const shape = { memoryMb: 512, storageGb: 5, mountPaths: ['/root'], sshEnabled: true, image: null };
      const kind = { instanceType: 'nano', pullPolicy: 'IfNotPresent' } as const;
      await insertContainer(tx, { ...shape, ...kind, id, name, userId: owner.id });
    });
  }
  const change = { from: 'pending', address: null, externalAddress: null, announced: false, keysApplied: 0 } as const;
  await setStatus(db, 'aaaaaaaaaaaa', { ...change, status: 'pending', reason });
  await setStatus(db, 'bbbbbbbbbbbb', { ...change, status: 'running', reason: null });
  assert.match(
    (await cli(['containers', 'list'])).stdout,
    /^ID +STATUS +OWNER +SINCE +NAME\na{12} +pending +ann +[-\d]{10} [\d:]{8} +waiting\n {2}Waiting for .*\nb{12} +running .*\n$/,
  );
  const listed = z
    .array(z.object({ id: z.string(), owner: z.string(), status_reason: z.string().nullable() }))
    .parse(JSON.parse((await cli(['containers', 'list', '--status', 'pending', '--json'])).stdout));
  assert.deepEqual(listed, [{ id: 'aaaaaaaaaaaa', owner: 'ann', status_reason: reason }]);
  const refused = await cli(['containers', 'list', '--status', 'waiting']);
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /There is no status waiting: it is one of pending, initializing,/);
});

test('repositories are made public and private, and listed', async (t) => {
  const { cli } = await setting(t);
  await cli(['users', 'add', 'ann'], 'the password of ann\n');
  const visibility = async (...args: string[]) => (await cli(['registry', 'visibility', ...args])).stdout;
  assert.match(await visibility('ann/app', 'public'), /^ann\/app is now public\. .*only the registry knows\.\n$/);
  assert.equal(await visibility('ann/app', 'public'), 'ann/app is public already.\n');
  assert.deepEqual(JSON.parse(await visibility('ann/a/b', 'public', '--json')), {
    ...{ repository: 'ann/a/b', visibility: 'public', changed: true },
  });
  const table = await cli(['registry', 'repositories']);
  assert.match(table.stdout, /^REPOSITORY +PUBLIC SINCE\nann\/a\/b +\d{4}-\S+Z\nann\/app +\d{4}-\S+Z\n$/);
  assert.match(await visibility('ann/app', 'private'), /^ann\/app is now private\. /);
  assert.equal(await visibility('ann/app', 'private'), 'ann/app is private already.\n');
  const listed = z
    .array(z.strictObject({ repository: z.string(), made_public_at: z.iso.datetime() }))
    .parse(JSON.parse((await cli(['registry', 'repositories', '--json'])).stdout));
  assert.deepEqual(
    listed.map(({ repository }) => repository),
    ['ann/a/b'],
  );

  for (const [args, message] of [
    [['app', 'public'], /A repository is <username>\/<name>/],
    [['nobody/app', 'public'], /There is no user nobody/],
    [['ann/app', 'secret'], /Allowed choices are public, private/],
  ] as const) {
    const refused = await cli(['registry', 'visibility', ...args]);
    assert.deepEqual([refused.code, refused.stdout], [1, ''], args.join(' '));
    assert.match(refused.stderr, message);
  }
});

test('the certificate of registry tokens is printed for the registry, the same every time', async (t) => {
  const { data, env, cli } = await setting(t);
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const REGISTRY_SIGNING_KEY = privateKey.export({ type: 'sec1', format: 'pem' }).toString();
  const certificate = (...args: string[]) =>
    troupe(['registry', 'certificate', '--data', data, ...args], { env: { ...env, REGISTRY_SIGNING_KEY } });
  const { stdout, stderr } = await certificate();
  assert.ok(new X509Certificate(stdout).checkPrivateKey(privateKey), stderr);
  assert.equal((await certificate()).stdout, stdout);
  const json = z.strictObject({ kid: z.string(), certificate: z.string() });
  const printed = json.parse(JSON.parse((await certificate('--json')).stdout));
  assert.equal(printed.certificate, stdout);
  assert.match(printed.kid, /^([A-Z2-7]{4}:){11}[A-Z2-7]{4}$/);
  const without = await cli(['registry', 'certificate']);
  assert.deepEqual([without.code, without.stdout], [1, '']);
  assert.match(without.stderr, /REGISTRY_SIGNING_KEY is not set[\s\S]*openssl genpkey/);
});

test('migrate says that the database is up to date, again and again', async (t) => {
  const { cli } = await setting(t);
  for (let run = 0; run < 2; run++) {
    const { code, stdout } = await cli(['migrate']);
    assert.deepEqual([code, stdout], [0, 'The database is up to date.\n']);
  }
});

test('doctor says what is there and what is missing', async (t) => {
  const { cli, data, env } = await setting(t);
  const schema = z.object({
    ok: z.boolean(),
    findings: z.array(z.object({ name: z.string(), ok: z.boolean(), what: z.string() })),
  });
  const { stdout } = await cli(['doctor', '--json']);
  const { findings } = schema.parse(JSON.parse(stdout));
  assert.ok(findings.some(({ name, ok }) => name === 'PostgreSQL' && ok));
  const lacking = await troupe(['doctor', '--data', data], {
    env: { ...env, DATABASE_URL: 'postgres://127.0.0.1:1/none', DOCKER_HOST: 'unix:///nowhere/docker.sock' },
  });
  assert.equal(lacking.code, 1);
  assert.match(lacking.stdout, /MISSING {2}docker/);
  assert.match(lacking.stdout, /MISSING {2}PostgreSQL[\s\S]*correct DATABASE_URL/);
  assert.match(lacking.stdout, /Troupe cannot run here yet: see above\.\n$/);
});

test('a start that cannot be says why and what to do, with exit code 1', async (t) => {
  const { data, env } = await setting(t);
  const typo = join(data, 'typo');
  const cases: [args: string[], env: Record<string, string>, message: RegExp][] = [
    [
      ['up', '--data', data],
      { ...env, DOCKER_HOST: 'unix:///nowhere/docker.sock' },
      /DOCKER_HOST is unix:\/\/\/nowhere\/docker\.sock, but no Docker Engine answers there/,
    ],
    [['up', '--data', data], { ...env, JWT_SECRET: 'short' }, /JWT_SECRET: must be at least 32 bytes/],
    [
      ['up', '--data', data],
      { ...env, REGISTRY_SIGNING_KEY: '/nowhere/key.pem' },
      /REGISTRY_SIGNING_KEY: must be a PEM with an EC P-256 private key, or the path of a file with one/,
    ],
    [
      ['users', 'list', '--data', data],
      { DATABASE_URL: 'postgres://127.0.0.1:1/none' },
      /The database cannot be reached: .*\n.*DATABASE_URL/,
    ],
    [['up', '--data', typo, '--domain', 'no name'], env, /'no name' is invalid\. must be a host name/],
    [['up', '--data', typo, '--listen', '192.0.2.7'], env, /--listen is 192\.0\.2\.7, which is no address of this/],
    [['up', '--data', typo, '--tls-cert', '/nowhere'], env, /--tls-cert and --tls-key go together/],
    [['gateway', '--data', typo], {}, /There is no platform under .* yet: start it with `.*troupe up --data .*typo`/],
    [['down', '--data', typo], {}, /There is no platform under/],
    [['up', '--data', data, '--port-offset', 'x'], env, /must be a whole number, or "auto"/],
    [['up', '--data', data, '--port-offset', '99999'], env, /--port-offset must leave all ports between 0 and 65535/],
  ];
  for (const [args, environment, message] of cases) {
    const { code, stdout, stderr } = await troupe(args, { env: environment });
    assert.equal(code, 1, args.join(' '));
    assert.equal(stdout, '');
    assert.match(stderr, message);
    assert.doesNotMatch(stderr, /^\s+at /m);
  }
  const unknown = await troupe(['nonsense'], { env });
  assert.equal(unknown.code, 2);
  assert.match(unknown.stderr, /^troupe: unknown command 'nonsense'\n\(troupe --help shows what there is\)\n$/);
  assert.ok(!existsSync(typo), 'nothing is made for a command that is refused');
});

test('a start that fails makes no administrator, whose password nobody would ever read', {
  skip: skipWithoutDocker(),
}, async (t) => {
  const { data, env, cli } = await setting(t);
  const taken = createServer();
  t.after(() => taken.close());
  // Below the ports that systems hand out by themselves, and so low that no other port of the platform is past the last one.
  let port = 0;
  while (!taken.listening) {
    port = 20_000 + Math.floor(Math.random() * 10_000);
    taken.listen(port, '127.0.0.1');
    await once(taken, 'listening').catch(() => undefined);
  }
  const offset = String(port - 7001);
  const { code, stderr } = await troupe(['up', '--data', data, '--port-offset', offset], { env });
  assert.equal(code, 1);
  assert.match(stderr, new RegExp(`Cannot listen on 127\\.0\\.0\\.1:${port}: it is taken`));
  assert.equal((await cli(['users', 'list', '--json'])).stdout, '[]\n');
});

test('--help and --version tell what there is; one dash is as good as two', async () => {
  const help = await troupe(['--help']);
  for (const command of ['up', 'down', 'doctor', 'migrate', 'database', 'users', 'registry', 'audit'])
    assert.match(help.stdout, new RegExp(`^  ${command} `, 'm'));
  assert.match(help.stdout, /^Your containers:\n {2}ps [\s\S]*^The platform, on its machine:\n {2}up /m);
  assert.match(
    help.stdout,
    /^The platform, on its machine:[\s\S]*^Looking in, on a machine of the platform:\n {2}nodes /m,
  );
  assert.doesNotMatch(help.stdout, /^Commands:/m, 'a command is in no group of cmd/main.ts');
  assert.match((await troupe(['up', '--help'])).stdout, /--port-offset <n>/);
  assert.match((await troupe(['-version'])).stdout, /^\d+\.\d+\.\d+\n$/);
});
