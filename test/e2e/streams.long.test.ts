/** Terminals and logs of a real container, through the real command line, over connections that break. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { z } from 'zod';
import { type Box, startBox } from '../support/clients/container.ts';
import { type TestSocket, UpgradeRefused, websocket } from '../support/clients/websocket.ts';
import { deleteAll, logIn, type RunningPlatform, request, startPlatform } from '../support/cluster/platform.ts';
import { docker, skipWithoutDocker, tinyImage } from '../support/engine/docker-client.ts';
import { endlessLine } from '../support/streams/endless-line.ts';
import { logResume } from '../support/streams/log-resume.ts';
import type { Cleanup } from '../support/temp.ts';
import { until } from '../support/until.ts';

const SESSION = 'chosen-by-the-client-at-random';

describe('streams of a real container', { skip: skipWithoutDocker(), timeout: 900_000 }, () => {
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

  const terminal = (t: Cleanup, session?: string, by = token) =>
    websocket(t, `${box.ws}/terminal${session === undefined ? '' : `?session=${session}`}`, {
      headers: { authorization: `Bearer ${by}` },
    });
  const log = (t: Cleanup, query: string) => websocket(t, `${box.ws}/logs?${query}&token=${token}`);

  /** A log that shows what is written from now on: one that is open may not have begun yet. */
  const following = async (t: Cleanup, shell: TestSocket): Promise<TestSocket> => {
    const follower = await log(t, 'tail=0');
    const mark = 'rm -f /tmp/seen; while [ ! -e /tmp/seen ]; do echo mark > /proc/1/fd/1; usleep 50000; done &';
    shell.send(Buffer.from(`${mark}\n`));
    await textOf(follower, 'mark');
    shell.send(Buffer.from('touch /tmp/seen; wait; echo fol""lowed\n'));
    await shown(shell, /followed/);
    return follower;
  };

  test('a log over thirty cut connections has every line exactly once', async () => {
    const report = await logResume(box, token, { disconnects: 30, lines: 1200, mostTaken: 100 });
    assert.deepEqual(report.problems, []);
    assert.ok(report.connections > 30);
  });

  test('a log is followed while Docker rotates its files', async (t) => {
    const shell = await terminal(t);
    const follower = await following(t, shell);
    // Two of the three files of 10 MB that are kept.
    const lines = 100_000;
    shell.send(
      Buffer.from(
        `exec >/proc/1/fd/1; i=0; while [ $i -lt ${lines} ]; do echo "r $i ${'.'.repeat(100)}"; i=$((i+1)); done\n`,
      ),
    );
    let next = 0;
    while (next < lines) assert.equal(Number((await textOf(follower, 'r')).split(' ')[1]), next++);
  });

  test('a slow reader of a firehose stops the source, and still gets every line', async (t) => {
    const shell = await terminal(t);
    const follower = await following(t, shell);
    follower.socket.pause();
    const rss = () => residentMb(platform.child.pid ?? 0);
    const atFirst = rss();
    shell.send(Buffer.from(`seq 1 100000 | sed "s/^/slow /" >/proc/1/fd/1; echo writ""ten\n`));
    await shown(shell, /written/);
    assert.ok(rss() - atFirst < 64, `${rss() - atFirst} MB more`);
    follower.socket.resume();
    for (let i = 1; i <= 100_000; i++) assert.equal(await textOf(follower, 'slow'), `slow ${i}`);
  });

  test('a line without an end passes in pieces, and costs the platform no more memory than any other', async () => {
    const { receivedMb, longest, memoryMb } = await endlessLine(box, token, platform.child.pid ?? 0, 24);
    assert.ok(receivedMb > 1 && longest < 2 ** 20, `${receivedMb} MB, the longest message ${longest}`);
    assert.ok(memoryMb.most - memoryMb.before < 100, `${memoryMb.before} MB became ${memoryMb.most}`);
  });

  test('what is no text arrives as text: NUL and escape sequences as they are, bad UTF-8 replaced', async (t) => {
    const shell = await terminal(t);
    const follower = await following(t, shell);
    shell.send(Buffer.from(`printf 'a\\000b\\033]52;c;eA==\\007\\377\\302\\342\\200\\256z\\n' >/proc/1/fd/1\n`));
    assert.equal(await textOf(follower, 'a'), 'a\0b\x1b]52;c;eA==\x07\ufffd\ufffd\u202ez');
  });

  test('a terminal is the same after a lost connection, and after another that came too soon', async (t) => {
    const first = await terminal(t, SESSION);
    first.send(Buffer.from('cd /tmp; marker=kept; echo do""ne\n'));
    await shown(first, /done/);
    first.socket.terminate();
    const second = await terminal(t, SESSION);
    assert.match(await shown(second, /done/), /done/); // Again, from the replay.
    second.send(Buffer.from('echo "$PWD $marker"\n'));
    await shown(second, /\/tmp kept/);
    const third = await terminal(t, SESSION);
    assert.deepEqual(await second.closed, { code: 4000, reason: 'session taken over' });
    third.send(Buffer.from('exit\n'));
    assert.equal((await third.closed).code, 1000);
    const fresh = await terminal(t, SESSION);
    fresh.send(Buffer.from('echo "<$marker>"\n'));
    await shown(fresh, /<>/);
    await fresh.close(1000);
  });

  test('a revoked token ends its terminal, also one that waits for its client, within a second', async (t) => {
    const { urls } = platform.ready;
    const { user_id } = z
      .object({ user_id: z.string() })
      .parse(JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()));
    const made = await request('POST', `${urls.auth}/api/tokens`, {
      token,
      body: { name: 'robot', scopes: { [`compute.${user_id}`]: ['update'] }, expires_in: '30d' },
    });
    assert.equal(made.status, 200, JSON.stringify(made.json));
    const api = z.string().parse(made.json.token);
    const others = await shellsIn(box);
    const away = await terminal(t, SESSION, api);
    const here = await terminal(t, `${SESSION}-2`, api);
    for (const socket of [away, here]) {
      socket.send(Buffer.from('echo $$ > /tmp/shell; sleep 1000 & echo rea""dy\n'));
      await shown(socket, /ready/);
    }
    away.socket.terminate();
    await until(async () => (await shellsIn(box)) >= others + 2);
    const id = z.union([z.string(), z.number()]).parse(made.json.id);
    const begin = performance.now();
    assert.ok((await request('DELETE', `${urls.auth}/api/tokens/${id}`, { token })).status < 300);
    assert.deepEqual(await here.closed, { code: 1008, reason: 'token revoked' });
    assert.ok(performance.now() - begin < 2000);
    await assert.rejects(terminal(t, SESSION, api), (error) => error instanceof UpgradeRefused && error.status === 401);
    await until(async () => (await shellsIn(box)) <= others, { what: 'both shells are gone' });
  });

  test('a stop ends a log with 1000 and a crash with 1012', async (t) => {
    const url = `${platform.ready.urls.compute}/compute/containers/${box.id}`;
    const running = () =>
      until(async () => (await request('GET', url, { token })).json.status === 'running', { timeoutMs: 60_000 });
    const crashed = await log(t, 'tail=1');
    await crashed.text();
    const before = await startedAt(box);
    await docker().call('POST', `/containers/${box.dockerId}/kill`);
    assert.deepEqual(await crashed.closed, { code: 1012, reason: 'container restarts' });
    await until(async () => (await startedAt(box)) !== before, { what: 'the container is started again' });
    await running();
    const stopped = await log(t, 'tail=1');
    await stopped.text();
    await request('POST', `${url}/stop`, { token });
    assert.deepEqual(await stopped.closed, { code: 1000, reason: 'container stopped' });
    for (const query of ['tail=-1', 'tail=NaN', 'since=yesterday', 'since=2026-13-01T00:00:00Z', 'since=-1', 'since='])
      await assert.rejects(log(t, query), (error) => error instanceof UpgradeRefused && error.status === 400, query);
    assert.ok(!platform.log().includes(token), 'a token reached the log');
  });
});

/** Reads a terminal until `pattern`. */
async function shown(terminal: TestSocket, pattern: RegExp): Promise<string> {
  let text = '';
  while (!pattern.test(text)) {
    const frame = await terminal.next(20_000);
    if ('binary' in frame) text += Buffer.from(frame.binary).toString();
  }
  return text;
}

/** The text of the next line that begins with `start`: sshd writes to the log too. */
async function textOf(follower: TestSocket, start: string): Promise<string> {
  for (;;) {
    const text = (await follower.text(30_000)).slice(31);
    if (text.startsWith(start)) return text;
  }
}

async function startedAt({ dockerId }: Box): Promise<string> {
  const schema = z.object({ State: z.object({ StartedAt: z.string() }) });
  return (await docker().json('GET', `/containers/${dockerId}/json`, schema)).State.StartedAt;
}

/** Login shells that run in the container. */
async function shellsIn({ dockerId }: Box): Promise<number> {
  const schema = z.object({ Processes: z.array(z.array(z.string())) });
  const { Processes } = await docker().json('GET', `/containers/${dockerId}/top`, schema);
  return Processes.filter((columns) => /^-sh$|^sshd: root@pts/.test(columns.at(-1) ?? '')).length;
}

function residentMb(pid: number): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;
}
