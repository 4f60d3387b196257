/** Commands in a real container, through the real command line. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { z } from 'zod';
import { type Box, startBox } from '../support/clients/container.ts';
import { commandOutcome, execSocket } from '../support/clients/exec.ts';
import { UpgradeRefused, websocket } from '../support/clients/websocket.ts';
import { deleteAll, logIn, type RunningPlatform, request, startPlatform } from '../support/cluster/platform.ts';
import { docker, skipWithoutDocker, tinyImage } from '../support/engine/docker-client.ts';
import type { Cleanup } from '../support/temp.ts';
import { until } from '../support/until.ts';

const CONTROL_D = '{"type":"eof"}';

describe('commands in a real container', { skip: skipWithoutDocker(), timeout: 900_000 }, () => {
  let data = '';
  let platform: RunningPlatform;
  let token = '';
  let box: Box;

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

  const exec = (t: Cleanup, command: readonly string[], more = '', by = token) =>
    execSocket(t, `${box.ws}/exec`, by, command, more);
  const processes = async (pattern: RegExp) => {
    const schema = z.object({ Processes: z.array(z.array(z.string())) });
    const { Processes } = await docker().json('GET', `/containers/${box.dockerId}/top`, schema);
    return Processes.filter((columns) => pattern.test(columns.at(-1) ?? '')).length;
  };

  test('one word is a script, several are a program and its arguments, which pass unchanged', async (t) => {
    const script = await commandOutcome(await exec(t, ['echo out; echo err >&2; exit 3']));
    assert.deepEqual(script, { out: 'out\n', err: 'err\n', exit: 3, end: { code: 1000, reason: 'command ended' } });
    const words = await commandOutcome(await exec(t, ['printf', '<%s>', 'a b', '$HOME', '*', '', 'ä"\'']));
    assert.equal(words.out, '<a b><$HOME><*><><ä"\'>');
    assert.equal((await commandOutcome(await exec(t, ['/none/such', 'x']))).exit, 127);
    assert.equal((await commandOutcome(await exec(t, ['kill -9 $$']))).exit, 137);
  });

  test('input passes byte for byte until its end is told', async (t) => {
    const socket = await exec(t, ['cat | md5sum']);
    const sent = Buffer.alloc(
      3_000_000,
      Uint8Array.from({ length: 251 }, (_, at) => at),
    );
    for (let at = 0; at < sent.length; at += 50_000) {
      socket.send(sent.subarray(at, at + 50_000));
      await until(() => socket.socket.bufferedAmount === 0, { everyMs: 5 });
    }
    socket.send(CONTROL_D);
    assert.match((await commandOutcome(socket)).out, new RegExp(createHash('md5').update(sent).digest('hex')));
  });

  test('a terminal has its size and follows it, and Ctrl-D ends its input', async (t) => {
    const socket = await exec(
      t,
      ['stty size; until [ "$(stty size)" = "50 120" ]; do sleep 0.1; done; echo "$(stty size) now"; cat; test -t 0'],
      '&tty=true&cols=100&rows=40',
    );
    await socket.find((frame) => 'binary' in frame && Buffer.from(frame.binary).includes('40 100'));
    socket.send('{"type":"resize","cols":120,"rows":50}');
    socket.send('{"type":"something of a later version"}');
    await socket.find((frame) => 'binary' in frame && Buffer.from(frame.binary).includes('50 120 now'));
    socket.send(CONTROL_D);
    assert.equal((await commandOutcome(socket)).exit, 0);
  });

  test('a slow reader makes the command wait, and gets all of it', async (t) => {
    const socket = await exec(t, ['i=0; while [ $i -lt 400 ]; do head -c 50000 /dev/zero; i=$((i+1)); done']);
    socket.socket.pause();
    await until(async () => (await processes(/head -c|while/)) > 0);
    socket.socket.resume();
    const { out, exit } = await commandOutcome(socket);
    assert.deepEqual([out.length, exit], [20_000_000, 0]);
  });

  test('a command ends with its connection, and its container', async (t) => {
    const left = await exec(t, ['sleep 4321']);
    await until(async () => (await processes(/^sleep 4321/)) > 0);
    left.socket.terminate();
    await until(async () => (await processes(/^sleep 4321/)) === 0, { what: 'the command is gone' });
    const url = `${platform.ready.urls.compute}/compute/containers/${box.id}`;
    const stopped = await exec(t, ['sleep 4321']);
    await until(async () => (await processes(/^sleep 4321/)) > 0);
    assert.equal((await request('POST', `${url}/stop`, { token })).status, 200);
    assert.deepEqual(await stopped.closed, { code: 1000, reason: 'container stopped' });
    await assert.rejects(exec(t, ['true']), (error) => error instanceof UpgradeRefused && error.status === 409);
    await request('POST', `${url}/start`, { token });
    await until(async () => (await request('GET', url, { token })).json.status === 'running', { timeoutMs: 60_000 });
  });

  test('what is no command is refused, and text that controls nothing', async (t) => {
    for (const query of ['', 'command=', 'command=a%00b', 'command=a&cols=0', 'command=a&tty=maybe']) {
      const url = `${box.ws}/exec?${query}`;
      const refused = websocket(t, url, { headers: { authorization: `Bearer ${token}` } });
      await assert.rejects(refused, (error) => error instanceof UpgradeRefused && error.status === 400, query);
    }
    const socket = await exec(t, ['cat']);
    socket.send('hello');
    assert.equal((await socket.closed).code, 1003);
  });

  test('an API token needs the right to update the container', async (t) => {
    const { urls } = platform.ready;
    const [, claims = ''] = token.split('.');
    const { user_id } = z
      .object({ user_id: z.string() })
      .parse(JSON.parse(Buffer.from(claims, 'base64url').toString()));
    const made = async (action: string) => {
      const body = {
        name: action,
        scopes: { [`compute.${user_id}.containers.${box.id}`]: [action] },
        expires_in: '30d',
      };
      return z.string().parse((await request('POST', `${urls.auth}/api/tokens`, { token, body })).json.token);
    };
    assert.equal((await commandOutcome(await exec(t, ['true'], '', await made('update')))).exit, 0);
    const reader = await made('read');
    await assert.rejects(
      exec(t, ['true'], '', reader),
      (error) => error instanceof UpgradeRefused && error.status === 403,
    );
  });
});
