/** The whole path with the defaults, as a person walks it: the real command line, a real Docker Engine, the real base image. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { z } from 'zod';
import { type TestSocket, websocket } from '../support/clients/websocket.ts';
import { logIn, request, startPlatform } from '../support/cluster/platform.ts';
import { inDocker, leftInDocker, skipWithoutDocker } from '../support/engine/docker-client.ts';
import { findProgram } from '../support/require.ts';
import { tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

const run = promisify(execFile);
const containerSchema = z.object({ id: z.string(), status: z.string(), hostname: z.string() });
const wholeList = z.object({ type: z.literal('containers') });
const statusEvent = z.object({
  type: z.literal('container_status'),
  data: z.object({ container_id: z.string(), status: z.string(), external_ip: z.string() }),
});

/** Reads statuses of one container from /compute/ws until `last`; returns all of them in order. */
async function statusesUntil(socket: TestSocket, id: string, last: string): Promise<string[]> {
  const seen: string[] = [];
  while (seen.at(-1) !== last) {
    const message = await socket.json(120_000);
    // The whole list comes again when the user's actor was taken anew, as on a machine that stood still for long.
    if (wholeList.safeParse(message).success) continue;
    const event = statusEvent.parse(message);
    if (event.data.container_id === id) seen.push(event.data.status);
    assert.notEqual(seen.at(-1), 'failed', JSON.stringify(event));
  }
  return seen;
}

/** Types a line and reads until `pattern`; returns all that was shown meanwhile. */
async function type(terminal: TestSocket, line: string, pattern: RegExp): Promise<string> {
  terminal.send(Buffer.from(`${line}\n`));
  return read(terminal, pattern);
}

async function read(terminal: TestSocket, pattern: RegExp): Promise<string> {
  let shown = '';
  while (!pattern.test(shown)) {
    const frame = await terminal.next(20_000);
    assert.ok('binary' in frame, 'a terminal sends binary frames');
    shown += Buffer.from(frame.binary).toString();
  }
  return shown;
}

test('a person logs in, runs a container with the defaults and is inside it', {
  skip: skipWithoutDocker(),
  timeout: 900_000,
}, async (t) => {
  const data = await tempDir(t);
  const keyFile = join(data, 'key');
  await run(findProgram('ssh-keygen') ?? 'ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', keyFile]);

  const platform = await startPlatform({ data, fromNothing: true });
  t.after(() => platform.kill());
  const { urls, admin } = platform.ready;
  const token = await logIn(urls.auth, admin.username, admin.password ?? '');
  const ws = urls.compute.replace('http', 'ws');
  const authorized = { headers: { authorization: `Bearer ${token}` } };

  const socket = await websocket(t, `${ws}/compute/ws`, authorized);
  assert.deepEqual(await socket.json(), { type: 'containers', data: [] });

  const key = await request('POST', `${urls.compute}/compute/ssh-keys`, {
    token,
    body: { name: 'laptop', public_key: await readFile(`${keyFile}.pub`, 'utf8') },
  });
  assert.equal(key.status, 200, JSON.stringify(key.json));
  const created = await request('POST', `${urls.compute}/compute/containers`, {
    token,
    body: { name: 'first', ssh_key_ids: [key.json.id], ssh_enabled: true },
  });
  assert.equal(created.status, 200, JSON.stringify(created.json));
  const { id, status, hostname } = containerSchema.parse(created.json);
  assert.equal(status, 'pending');
  assert.equal(hostname, `${id}.compute.troupe.localhost`);
  assert.deepEqual(await statusesUntil(socket, id, 'running'), ['pending', 'initializing', 'running']);

  await t.test('its terminal is a PTY of 24 by 80 that can be resized', async () => {
    const terminal = await websocket(t, `${ws}/compute/containers/${id}/terminal`, authorized);
    assert.match(
      await type(terminal, 'stty size; echo "TERM is $TERM"', /TERM is xterm\S*\r/),
      /24 80\r[\s\S]*TERM is xterm-256color\r/,
    );
    terminal.send(JSON.stringify({ type: 'resize', cols: 132, rows: 43 }));
    await type(terminal, 'while [ "$(stty size)" != "43 132" ]; do sleep 0.1; done; echo resi""zed', /resized\r/);
    await type(terminal, 'echo kept > /root/kept.txt && sync && echo writ""ten', /written\r/);
    await type(terminal, 'echo one > /proc/1/fd/1; echo two > /proc/1/fd/1; echo lo""gged', /logged\r/);
    terminal.send(Buffer.from('exit\n'));
    assert.deepEqual(await terminal.closed, { code: 1000, reason: 'session ended' });
  });

  await t.test('the key that was added opens it by SSH', async () => {
    const { json } = await request('GET', `${urls.compute}/compute/containers`, { token });
    assert.equal(z.array(containerSchema).parse(json.containers)[0]?.status, 'running');
    const [{ address } = { address: '' }] = await inDocker(id);
    const options = [
      '-i',
      keyFile,
      '-o',
      'StrictHostKeyChecking=no',
      '-o',
      'UserKnownHostsFile=/dev/null',
      '-o',
      'BatchMode=yes',
      '-o',
      'LogLevel=ERROR',
    ];
    const { stdout } = await run('ssh', [...options, `root@${address}`, 'cat /root/kept.txt; hostname']);
    assert.equal(stdout, `kept\n${hostname}\n`);
  });

  await t.test('its log is followed, with stamps, from the newest lines', async () => {
    const terminal = await websocket(t, `${ws}/compute/containers/${id}/terminal`, authorized);
    await type(terminal, 'for i in 1 2 3; do echo $i > /proc/1/fd/1; done; echo begu""n', /begun\r/);
    const log = await websocket(t, `${ws}/compute/containers/${id}/logs?tail=2&token=${token}`);
    const lines = [await log.text(), await log.text()];
    for (const line of lines) assert.match(line, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z [1-3]$/);
    await type(terminal, 'echo three-of-the-log > /proc/1/fd/1; echo lo""gged', /logged\r/);
    const frame = await log.find((line) => 'text' in line && line.text.endsWith(' three-of-the-log'));
    assert.ok('text' in frame);

    const stopped = await request('POST', `${urls.compute}/compute/containers/${id}/stop`, { token });
    assert.equal(stopped.status, 200);
    assert.equal(stopped.json.status, 'stopped');
    assert.equal((await terminal.closed).code, 1000);
    assert.deepEqual(await log.closed, { code: 1000, reason: 'container stopped' });
    assert.deepEqual(await statusesUntil(socket, id, 'stopped'), ['stopped']);
  });

  await t.test('what was written under /root is there after stop and start', async () => {
    const started = await request('POST', `${urls.compute}/compute/containers/${id}/start`, { token });
    assert.equal(started.json.status, 'pending');
    assert.deepEqual(await statusesUntil(socket, id, 'running'), ['pending', 'initializing', 'running']);
    const terminal = await websocket(t, `${ws}/compute/containers/${id}/terminal`, authorized);
    await type(terminal, 'cat /root/kept.txt', /kept\r\n/);
  });

  await t.test(
    'apt works inside',
    {
      skip:
        process.env.TROUPE_TEST_REAL !== 'required' && process.env.TROUPE_TEST_SLOW !== '1'
          ? 'takes a package mirror: TROUPE_TEST_SLOW=1'
          : false,
    },
    async () => {
      const terminal = await websocket(t, `${ws}/compute/containers/${id}/terminal`, authorized);
      terminal.send(
        Buffer.from('apt-get update -qq && apt-get install -yqq hello >/dev/null 2>&1; hello; echo do""ne\n'),
      );
      let shown = '';
      while (!/done\r/.test(shown)) {
        const frame = await terminal.next(120_000);
        if ('binary' in frame) shown += Buffer.from(frame.binary).toString();
      }
      assert.match(shown, /Hello, world!/);
    },
  );

  await t.test('after delete nothing of it is left in Docker', async () => {
    assert.ok((await leftInDocker(id)) > 0);
    assert.equal((await request('DELETE', `${urls.compute}/compute/containers/${id}`, { token })).status, 200);
    assert.deepEqual((await request('GET', `${urls.compute}/compute/containers`, { token })).json, { containers: [] });
    assert.equal((await request('GET', `${urls.compute}/compute/containers/${id}`, { token })).status, 404);
    await until(async () => (await leftInDocker(id)) === 0, {
      what: 'Docker forgets the container',
      timeoutMs: 20_000,
    });
  });

  assert.equal(await platform.stop(), 0, platform.log());
  assert.doesNotMatch(platform.log(), /"level":"error"/);
  for (const secret of [token, admin.password ?? '?'])
    assert.ok(!platform.log().includes(secret), 'a secret reached the log');
});
