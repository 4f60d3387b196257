/** Terminals with a session id, real containers, and processes of the compute service that end under them. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { after, before, describe, test } from 'node:test';
import { z } from 'zod';
import { addUser } from '../../actors/auth/users/users.ts';
import { skipWithoutNats, startNats } from '../support/bus/nats-server.ts';
import { type Box, startBox } from '../support/clients/container.ts';
import { returningTerminal } from '../support/clients/returning-terminal.ts';
import { type TestSocket, UpgradeRefused, websocket } from '../support/clients/websocket.ts';
import { deleteAll, logIn, request, spawnTroupe } from '../support/cluster/platform.ts';
import { type TestDatabase, testDatabase } from '../support/database/database.ts';
import { docker, perlImage, skipWithoutDocker } from '../support/engine/docker-client.ts';
import { type Cleanup, tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

const PASSWORD = 'a password of this test';
const SESSION = 'chosen-by-the-client-at-random';
const readySchema = z.object({ ready: z.literal(true), port: z.number() });

interface Process {
  readonly url: string;
  /** Resolves with its code. */
  end(signal: 'SIGTERM' | 'SIGKILL'): Promise<unknown>;
}

describe('a terminal with a session id outlives the process it was opened at', {
  skip: skipWithoutDocker() || skipWithoutNats(),
  timeout: 900_000,
}, () => {
  const ends: (() => unknown)[] = [];
  const cleanup: Cleanup = { after: (end) => void ends.unshift(end) };
  let env: Record<string, string> = {};
  let database: TestDatabase;
  let auth: Process;
  let [one, two]: Process[] = [];
  let [ann, bob] = ['', ''];
  let box: Box;

  const start = async (name: string, more: Record<string, string> = {}): Promise<Process> => {
    const child = spawnTroupe([name, '--addr', '127.0.0.1:0', '--json'], { ...env, ...more });
    let log = '';
    child.stderr.on('data', (chunk: Buffer) => (log += chunk));
    const ended = once(child, 'close').then(([code]: unknown[]) => code);
    const end: Process['end'] = (signal) => {
      child.kill(signal);
      return ended;
    };
    cleanup.after(async () => {
      await end('SIGTERM');
    });
    const first = await Promise.race([createInterface({ input: child.stdout })[Symbol.asyncIterator]().next(), ended]);
    const line = z.object({ value: z.string() }).safeParse(first).data?.value;
    assert.ok(line !== undefined, `troupe ${name} ended before it was ready:\n${log}`);
    return { url: `http://127.0.0.1:${readySchema.parse(JSON.parse(line)).port}`, end };
  };
  const at = (place: Process | undefined): Process => {
    assert.ok(place);
    return place;
  };
  /** As a client does it: again while the platform is busy with a process that has gone. */
  const open = async (
    t: Cleanup,
    place: Process | undefined,
    options: { session?: string; token?: string; id?: string; exit?: boolean } = {},
  ): Promise<TestSocket> => {
    const { session = SESSION, token = ann, id = box.id, exit = false } = options;
    const path = `/compute/containers/${id}/terminal?session=${session}&exit=${exit}`;
    const url = `${at(place).url.replace('http', 'ws')}${path}`;
    let refused: unknown;
    const socket = await until(
      () =>
        websocket(t, url, { headers: { authorization: `Bearer ${token}` } }).catch((error: unknown) => {
          if (!(error instanceof UpgradeRefused) || ![409, 503].includes(error.status)) throw error;
          refused = error;
          return undefined;
        }),
      { what: 'the terminal is opened', timeoutMs: 40_000 },
    ).catch((error: unknown) => {
      throw new Error(String(refused ?? error), { cause: error });
    });
    return socket;
  };

  before(async () => {
    database = await testDatabase();
    cleanup.after(() => database.close());
    const nats = await startNats(cleanup);
    env = {
      ...{ DATABASE_URL: database.url, NATS_URL: nats.url, ADMIN_PASSWORD: PASSWORD, DEFAULT_IMAGE: await perlImage() },
      JWT_SECRET: 'the shared secret of this test, over 32 bytes',
      ENCRYPTION_KEY: Buffer.alloc(32, 7).toString('base64'),
    };
    const started = await Promise.all(['auth', 'compute', 'compute'].map((name) => start(name)));
    [auth, one, two] = [at(started[0]), at(started[1]), at(started[2])];
    await addUser(database.db, 'bob', PASSWORD);
    ann = await logIn(auth.url, 'admin', PASSWORD);
    bob = await logIn(auth.url, 'bob', PASSWORD);
    box = await startBox(at(one).url, ann, await tempDir(cleanup));
  });
  after(async () => {
    try {
      if (ann !== '') await deleteAll(at(two).url, ann, bob);
    } finally {
      for (const end of ends) await end();
    }
  });

  test('a second connection takes over at another process, and the shell stays', async (t) => {
    const first = await open(t, one);
    await does(first, 'marker=kept; cd /tmp; echo do""ne', /done/);
    const second = await open(t, two);
    assert.deepEqual(await first.closed, { code: 4000, reason: 'session taken over' });
    await does(second, 'echo "<$PWD $marker>"', /done[\s\S]*<\/tmp kept>/);
    second.socket.terminate();
    const third = await open(t, one);
    await does(third, 'stty size', /24 80/);
    third.send('{"type":"resize","cols":100,"rows":30}');
    await does(third, 'stty size', /30 100/);
    // Who may log in by SSH changes, which ends the sessions of keys that may not any more: not ours.
    const ssh = (ssh_enabled: boolean) =>
      request('PUT', `${at(two).url}/compute/containers/${box.id}/ssh`, { token: ann, body: { ssh_enabled } });
    for (const isEnabled of [false, true]) assert.equal((await ssh(isEnabled)).status, 200);
    await does(third, 'echo "<$marker again>"', /<kept again>/);
    await third.close(1000);
    await noHolders(box);
  });

  test('the exit code of the shell is told to a client that asked for it, also at another process', async (t) => {
    const first = await open(t, one);
    await does(first, 'echo th""ere', /there/);
    const second = await open(t, two, { exit: true });
    second.send(Buffer.from('exit 5\n'));
    const told = await second.find((frame) => 'text' in frame);
    assert.deepEqual(told, { text: '{"type":"exit","code":5}' });
    assert.deepEqual(await second.closed, { code: 1000, reason: 'session ended' });
    await noHolders(box);
  });

  test('an id means something only to the same user with the same kind of token, at every process', async (t) => {
    const mine = await open(t, one);
    await does(mine, 'marker=secret; echo do""ne', /done/);
    const userId = z.string().parse((await request('GET', `${auth.url}/api/session`, { token: ann })).json.user_id);
    const body = { name: 'robot', scopes: { [`compute.${userId}`]: ['update'] }, expires_in: '30d' };
    const made = await request('POST', `${auth.url}/api/tokens`, { token: ann, body });
    const robot = z.string().parse(made.json.token);
    const other = await open(t, two, { token: robot });
    await does(other, 'echo "<$marker>"', /<>/);
    // A stranger is told of no such container; in a container of their own the id is another.
    await assert.rejects(open(t, two, { token: bob }), (error) => /404/.test(String(error)));
    const bobs = await startBox(at(two).url, bob, await tempDir(t));
    const strange = await open(t, two, { token: bob, id: bobs.id });
    await does(strange, 'echo "<$marker>"; ls /run/troupe | grep -v lock | wc -l', /<>\s+1\s/);
    await does(mine, 'echo "<$marker>"', /<secret>/);

    // The robot's token is revoked while nobody is connected: its shell ends, mine does not.
    other.socket.terminate();
    const id = z.union([z.string(), z.number()]).parse(made.json.id);
    assert.ok((await request('DELETE', `${auth.url}/api/tokens/${id}`, { token: ann })).status < 300);
    await until(async () => (await holdersIn(box)) === 1, { what: 'the shell of the revoked token has ended' });
    await mine.close(1000);
    await noHolders(box);
  });

  test('a process that is told to end closes it with 1012 or 1001; at another one it goes on, and nothing is lost', async (t) => {
    const leaving = await start('compute');
    const shell = await open(t, leaving);
    await does(shell, 'marker=kept; echo do""ne', /done/);
    const counts = 'i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo "n $i"; done; echo EN""D';
    shell.send(Buffer.from(`stty -echo -onlcr; PS1=; ${counts}\n`));
    await shell.find((frame) => 'binary' in frame && /n \d+/.test(Buffer.from(frame.binary).toString()));
    let place = leaving;
    const counting = await returningTerminal(() => open(t, place, { session: `${SESSION}-counting` }));
    await counting.advance(20);
    place = at(two);
    assert.equal(await leaving.end('SIGTERM'), 0);
    const { code } = await shell.closed;
    assert.ok([1001, 1012].includes(code), `closed with ${code}`);
    const again = await open(t, two);
    assert.match(await shown(again, /END/), /n 2999\nn 3000\nEND/);
    await does(again, 'echo "<$marker>"', /<kept>/);
    await again.close(1000);
    await counting.advance(50);
    assert.deepEqual([counting.problems, counting.connections], [[], 2]);
    await counting.stop();
    await noHolders(box);
  });

  test('a process is killed: at another one it goes on, and nothing is lost; without perl in its image it is a fresh one', async (t) => {
    const killed = await start('compute');
    const bobs = await startBox(at(one).url, bob, await tempDir(t));
    const ofBob = { id: bobs.id, token: bob };
    await does(await open(t, one, ofBob), 'rm /usr/bin/perl; exit', /exit/);
    await noHolders(bobs);
    const plain = await open(t, killed, ofBob);
    await does(plain, 'marker=lost; type perl || echo "no pe""rl"', /no perl/);
    assert.equal(await holdersIn(bobs), 0);
    let place = killed;
    const counting = await returningTerminal(() => open(t, place));
    await counting.advance(20);
    place = at(two);
    await killed.end('SIGKILL');
    await counting.advance(50);
    assert.deepEqual([counting.problems, counting.connections], [[], 2]);
    await counting.stop();
    await noHolders(box);
    assert.equal((await plain.closed).code, 1006);
    const fresh = await open(t, two, ofBob);
    await does(fresh, 'echo "<$marker>"', /<>/);
    await fresh.close(1000);
  });

  test('it ends with its container, and a fresh one begins when that runs again', async (t) => {
    const stopping = await open(t, one);
    await does(stopping, 'echo do""ne', /done/);
    const url = `${at(two).url}/compute/containers/${box.id}`;
    assert.equal((await request('POST', `${url}/stop`, { token: ann })).status, 200);
    assert.deepEqual(await stopping.closed, { code: 1000, reason: 'container stopped' });
    const running = async () => (await request('GET', url, { token: ann })).json.status === 'running';
    await until(async () => (await request('POST', `${url}/start`, { token: ann })).status === 200, {
      timeoutMs: 30_000,
    });
    await until(running, { timeoutMs: 60_000 });
    const fresh = await open(t, two);
    await does(fresh, 'echo "<$marker>"; ls /run/troupe | grep -v lock | wc -l', /<>\s+1\s/);
    await fresh.close(1000);
  });
});

/** Types a command and reads until `pattern`. */
async function does(terminal: TestSocket, command: string, pattern: RegExp): Promise<void> {
  terminal.send(Buffer.from(`${command}\n`));
  await shown(terminal, pattern);
}

async function shown(terminal: TestSocket, pattern: RegExp): Promise<string> {
  let text = '';
  while (!pattern.test(text)) {
    const frame = await terminal.next(30_000);
    if ('binary' in frame) text += Buffer.from(frame.binary).toString();
  }
  return text;
}

/** Shells that are kept in a container. */
async function holdersIn({ dockerId }: Box): Promise<number> {
  const schema = z.object({ Processes: z.array(z.array(z.string())) });
  const { Processes } = await docker().json('GET', `/containers/${dockerId}/top`, schema);
  return Processes.filter((columns) => columns.at(-1)?.startsWith('troupe-terminal')).length;
}

const noHolders = (box: Box) => until(async () => (await holdersIn(box)) === 0, { what: 'nothing is left behind' });
