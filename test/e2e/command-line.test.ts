/** The command line, as somebody meets it who has not read everything: wrong folders, taken ports, no rights, Ctrl-C. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { chmod } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { z } from 'zod';
import { schemaFinding } from '../../cmd/cli/doctor.ts';
import { takenPorts } from '../../cmd/cli/free-ports.ts';
import { wordsFor } from '../../cmd/config/cli-error.ts';
import { readEnvironment } from '../../cmd/config/config.ts';
import { dataDirInUse, openDataDir } from '../../cmd/config/data-dir.ts';
import { findRunning } from '../../cmd/config/running.ts';
import { startPlatform, troupe, troupeCommand } from '../support/cluster/platform.ts';
import { testDatabase } from '../support/database/database.ts';
import { skipWithoutDocker, tinyImage } from '../support/engine/docker-client.ts';
import { skipUnless } from '../support/require.ts';
import { type Cleanup, freePort, tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

async function database(t: Cleanup): Promise<{ DATABASE_URL: string }> {
  const made = await testDatabase();
  t.after(() => made.close());
  return { DATABASE_URL: made.url };
}

test('the folder is named before the command, after it, or by TROUPE_DATA, and what to type next names it too', async (t) => {
  const folder = join(await tempDir(t), 'not here');
  const ways: [args: string[], env: Record<string, string>][] = [
    [['--data', folder, 'users', 'list'], {}],
    [['users', '--data', folder, 'list'], {}],
    [['users', 'list', `--data=${folder}`], {}],
    [['nodes', 'drain', 'x', '--data', folder], {}],
    [['users', 'list'], { TROUPE_DATA: folder }],
    [['users', 'list', '--data', folder], { TROUPE_DATA: '/elsewhere' }],
    [['migrate', '--data', folder], {}],
  ];
  for (const [args, env] of ways) {
    const { code, stdout, stderr } = await troupe(args, { env: { DATABASE_URL: '', ...env } });
    assert.deepEqual([code, stdout], [1, ''], args.join(' '));
    assert.ok(stderr.includes(`There is no platform under ${folder} yet`), stderr);
    assert.ok(stderr.includes(`troupe up --data '${folder}'\``), stderr);
  }
  assert.ok(!existsSync(folder), 'no command makes a platform but up');
});

test('all ports are tried before anything is made, and doctor tries them too', async (t) => {
  const dir = await tempDir(t);
  // An offset with all ports free but two, which are taken here.
  let offset = 0;
  const taken = [18_080, 2222];
  const servers = taken.map(() => createServer());
  t.after(() => {
    for (const server of servers) server.close();
  });
  await until(
    async () => {
      offset = (await freePort()) - 7001;
      if (offset + 18_080 > 65_535) return false;
      const ports = {
        auth: 7001,
        compute: 7002,
        net: 7003,
        monitor: 7004,
        notify: 7005,
        http: 18_080,
        https: 8443,
        ssh: 2222,
      };
      const moved = z.record(z.string(), z.number()).parse(ports);
      for (const name of Object.keys(moved)) moved[name] = (moved[name] ?? 0) + offset;
      return (await takenPorts('127.0.0.1', { ...ports, ...moved })).length === 0;
    },
    { what: 'an offset with free ports' },
  );
  for (const [at, server] of servers.entries()) {
    server.listen((taken[at] ?? 0) + offset, '127.0.0.1');
    await once(server, 'listening');
  }
  const data = join(dir, 'new');
  const args = ['--data', data, '--port-offset', String(offset)];
  const refused = await troupe(['up', ...args], { env: { DATABASE_URL: '' } });
  assert.deepEqual([refused.code, refused.stdout], [1, '']);
  const [said] = refused.stderr.split('\n').filter((line) => line.includes('"node":'));
  assert.equal(
    refused.stderr.replace(`${said}\n`, ''),
    `troupe: Cannot listen on 127.0.0.1:${offset + 18_080}: it is taken (the gateway's HTTP).\n` +
      `Cannot listen on 127.0.0.1:${offset + 2222}: it is taken (the gateway's SSH).\n` +
      'Stop what uses them, or move all ports with --port-offset N.\n',
  );
  assert.ok(!existsSync(data));
  const looked = await troupe(['doctor', ...args, '--json'], { env: { DATABASE_URL: '' } });
  const ports = findings(looked.stdout).find(({ name }) => name === 'Ports');
  assert.equal(ports?.ok, false);
  assert.match(ports?.what ?? '', /the gateway's HTTP\).*the gateway's SSH\)/);
});

const findings = (stdout: string) =>
  z
    .object({ findings: z.array(z.object({ name: z.string(), ok: z.boolean(), what: z.string() })) })
    .parse(JSON.parse(stdout)).findings;

test("doctor compares the schema's version with this Troupe's", async (t) => {
  const env = await database(t);
  const data = await tempDir(t);
  const { stdout } = await troupe(['doctor', '--json', '--data', data, '--port-offset', 'auto'], { env });
  const schema = findings(stdout).find(({ name }) => name === 'Schema');
  assert.match(schema?.what ?? '', /^version \d+, which is this Troupe's$/);
  assert.match(
    schemaFinding({ has: 0, knows: 3 }, data).what,
    /^none yet: the next start, or `.*migrate --data .*`, brings/,
  );
  assert.match(schemaFinding({ has: 2, knows: 3 }, data).what, /^version 2 of 3: /);
  assert.deepEqual([schemaFinding({ has: 4, knows: 3 }, data).ok], [false]);
});

test("somebody else's folder is refused in a sentence", {
  skip: skipUnless(process.getuid?.() === 0, 'becoming somebody else takes root'),
}, async (t) => {
  const dir = await tempDir(t);
  await chmod(dir, 0o755);
  const data = openDataDir(join(dir, 'data'));
  openDataDir(join(data, 'postgres'));
  const announced = join(data, 'up.json');
  await (await import('node:fs/promises')).writeFile(announced, '{}', { mode: 0o600 });
  process.seteuid?.(65_534);
  try {
    assert.throws(() => dataDirInUse(data), /belongs to root: run the command as root, with sudo for example\.$/);
    assert.throws(
      () => findRunning(data),
      /You may not read .*up\.json: run the command as the user who runs Troupe\.$/,
    );
  } finally {
    process.seteuid?.(0);
  }
  const denied = Object.assign(new Error('EACCES: permission denied'), {
    code: 'EACCES',
    syscall: 'scandir',
    path: '/x',
  });
  assert.equal(wordsFor(denied), 'You may not use /x: run the command as the user who runs Troupe.');
});

test('a time that is none is answered with the forms that are taken', () => {
  for (const given of ['90m', '24h', '7d', '3600']) readEnvironment({ SESSION_TTL: given });
  assert.throws(
    () => readEnvironment({ SESSION_TTL: 'a day' }),
    /SESSION_TTL: must be a time such as 90m, 24h or 7d, or a number of seconds/,
  );
});

test('what is not read by a person is lines of JSON alone; services say at / what they are; doctor looks at them', {
  skip: skipWithoutDocker(),
  timeout: 900_000,
}, async (t) => {
  const data = await tempDir(t);
  const platform = await startPlatform({
    data,
    env: { DATABASE_URL: '', DEFAULT_IMAGE: await tinyImage(), LOG_LEVEL: 'info' },
  });
  t.after(() => platform.stop());
  const { auth, compute, net, monitor, notify } = platform.ready.urls;
  for (const [name, url] of Object.entries({ auth, compute, monitor, notify })) {
    const response = await fetch(`${url}/`);
    const body = z.object({ service: z.string(), description: z.string(), openapi: z.literal('/openapi.json') });
    assert.equal(response.status, 200);
    assert.equal(body.parse(await response.json()).service, name);
  }
  const text = await fetch(`${net}/`);
  assert.match(text.headers.get('content-type') ?? '', /^text\/plain/);
  assert.match(await text.text(), /^This is the network service of Troupe .*\/openapi\.json\.\n$/);

  const env = { DATABASE_URL: '' };
  const found = findings((await troupe(['doctor', '--data', data, '--json'], { env })).stdout);
  for (const name of ['auth', 'compute', 'net', 'monitor', 'notify'])
    assert.match(
      found.find((finding) => finding.name === `Platform, ${name}`)?.what ?? '',
      /^runs and is well at http:/,
    );
  assert.match(found.find(({ name }) => name === 'Schema')?.what ?? '', /which is this Troupe's/);
  const down = await troupe(['down', '--data', data], { env });
  assert.match(
    down.stderr,
    /already runs on .* \(process \d+\)\. Stop it first: it would start the containers again\.\n$/,
  );

  assert.equal(await platform.stop(), 0);
  const lines = platform.log().trimEnd().split('\n');
  const messages = lines.map((line) => z.object({ msg: z.string() }).parse(JSON.parse(line)).msg);
  assert.ok(messages.includes('The database was created'), 'progress is in the log');
  assert.equal(messages.at(-1), 'stopped');
});

test('Ctrl-C at a terminal says what goes on running', {
  skip: skipWithoutDocker(),
  timeout: 900_000,
}, async (t) => {
  const data = await tempDir(t);
  const env = { ...process.env, ...(await database(t)), DEFAULT_IMAGE: await tinyImage(), PATH: '/usr/bin:/bin' };
  const command = troupeCommand(['up', '--data', data, '--port-offset', 'auto']);
  // script(1) gives it a terminal.
  const child = spawn('script', ['-qefc', command.join(' '), '/dev/null'], { env, stdio: ['pipe', 'pipe', 'inherit'] });
  const ended = once(child, 'close');
  let shown = '';
  child.stdout.on('data', (chunk: Buffer) => (shown += chunk));
  await until(async () => shown.includes('Troupe is running.'), { what: 'the banner', timeoutMs: 60_000 });
  child.stdin.write('\x03');
  await ended;
  assert.match(shown, /Troupe has stopped; no container is running\. `.*troupe up --data .*` starts it again\.\r\n$/);
});
