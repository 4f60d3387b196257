import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { TerminalReplay } from '../../actors/compute/terminal/replay.ts';
import { MAX_TERMINAL_SESSIONS, stopContainer, terminal } from '../../proto/compute/endpoints.ts';
import type { Caller } from '../../proto/endpoint.ts';
import { newId } from '../../proto/ids.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { callFrom, refused, someone } from '../support/service/calls.ts';
import { type ComputeOptions, type ComputeUnderTest, openCompute } from '../support/service/compute.ts';
import { FakeSocket } from '../support/service/fake-socket.ts';
import { turns, until } from '../support/until.ts';

failOnLeaks();

const ann = someone();
const ID = 'a-random-id-of-the-client';
const LOST = 1006;

async function inSession(t: TestContext, options: ComputeOptions = {}) {
  const compute = await openCompute(t, options);
  const id = await compute.running(ann);
  const socket = await compute.terminal(ann, id, ID);
  const shell = await until(() => compute.shells.opened[0]);
  await until(() => shell.near.listenerCount('data') > 0);
  return { compute, id, socket, shell };
}

const shows = (socket: FakeSocket, text: string) => until(() => socket.bytes.join('').endsWith(text));
const sessions = (compute: ComputeUnderTest) => compute.alive('compute/terminal-session');

describe('a terminal with a session id', () => {
  test('whose connection to a kept shell is lost is told to come back, and its token is followed until then', async (t) => {
    const compute = await openCompute(t);
    compute.shells.keeps = true;
    const id = await compute.running(ann);
    const socket = await compute.terminal(ann, id, ID);
    const first = await until(() => compute.shells.opened[0]);
    await until(() => first.near.listenerCount('data') > 0);
    first.near.destroy(new Error('lost'));
    assert.deepEqual(await socket.end(), { code: 1012, reason: 'connection to the container lost' });
    const second = await until(() => compute.shells.opened[1]);
    await until(() => second.said.includes('wait'));
    assert.equal(second.keeping?.name, first.keeping?.name);
    compute.tokens.revoke(ann.tokenId);
    await until(() => second.isClosed && sessions(compute) === 0);
  });

  test('whose connection to a kept shell is lost again and again is not made anew each time', async (t) => {
    const compute = await openCompute(t);
    compute.shells.keeps = true;
    const id = await compute.running(ann);
    await compute.terminal(ann, id, ID);
    for (const n of [0, 1]) {
      const shell = await until(() => compute.shells.opened[n]);
      await until(() => shell.near.listenerCount('data') > 0);
      shell.near.destroy(new Error('lost'));
    }
    await until(() => sessions(compute) === 0);
    // Its client comes back to it, or to a fresh one.
    const again = await compute.terminal(ann, id, ID);
    const third = await until(() => compute.shells.opened[2]);
    third.far.write('here');
    await shows(again, 'here');
    assert.equal(compute.shells.opened.length, 3);
  });

  test('is in the same shell again after a lost connection, and sees what was printed', async (t) => {
    const { compute, id, socket, shell } = await inSession(t);
    shell.far.write('before ');
    await shows(socket, 'before ');
    socket.leave(LOST);
    shell.far.write('between ');
    const again = await compute.terminal(ann, id, ID);
    await shows(again, 'before between ');
    shell.far.write('after');
    await shows(again, 'before between after');
    again.type(Buffer.from('pwd\n'));
    await until(() => shell.typed() === 'pwd\n');
    assert.equal(compute.shells.opened.length, 1);
    assert.equal(socket.bytes.join(''), 'before ');
  });

  test('asks a terminal once: what is shown again has no questions, and what nobody saw has', async (t) => {
    const { compute, id, socket, shell } = await inSession(t);
    shell.far.write('one\u001b[6n');
    await shows(socket, 'one\u001b[6n');
    socket.leave(LOST);
    shell.far.write('two\u001b[6n');
    await turns();
    const again = await compute.terminal(ann, id, ID);
    await shows(again, 'onetwo\u001b[6n');
    const other = await compute.terminal(ann, id, ID);
    await shows(other, 'onetwo');
  });

  test('shows at most the last 64 KiB again', async (t) => {
    const { compute, id, socket, shell } = await inSession(t);
    shell.far.write('lost');
    for (let i = 0; i < 16; i++) shell.far.write(Buffer.alloc(8192, 97 + i));
    await until(() => socket.bytes.join('').length === 4 + 16 * 8192);
    socket.leave(LOST);
    const again = await compute.terminal(ann, id, ID);
    assert.equal(again.bytes.join(''), socket.bytes.join('').slice(-65_536));
  });

  test('keeps all that is printed while its client is away: what prints more has to wait', async (t) => {
    const { compute, id, socket, shell } = await inSession(t);
    socket.leave(LOST);
    let written = 0;
    for (; written < 100 && !shell.far.writableNeedDrain; written++) {
      shell.far.write(Buffer.alloc(8192, 97 + (written % 26)));
      await turns(5);
    }
    assert.ok(written < 100);
    assert.equal(shell.near.isPaused(), true);
    const again = await compute.terminal(ann, id, ID);
    await until(() => again.bytes.join('').length === written * 8192);
    assert.match(again.bytes.join(''), /^a{8192}b{8192}c{8192}d{8192}/);
  });

  test('goes to the latest connection, and the one before is told so', async (t) => {
    const { compute, id, socket, shell } = await inSession(t);
    const second = await compute.terminal(ann, id, ID);
    assert.deepEqual(await socket.end(), { code: 4000, reason: 'session taken over' });
    shell.far.write('for the second');
    await shows(second, 'for the second');
    assert.equal(socket.bytes.length, 0);
    second.type('{"type":"resize","cols":90,"rows":30}');
    assert.deepEqual(shell.sizes, ['90x30']);
    assert.equal(shell.isClosed, false);
  });

  test('is taken over also while its shell is being opened, and keeps what was typed', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    const release = compute.shells.hold();
    const first = await compute.terminal(ann, id, ID);
    first.type(Buffer.from('one '));
    first.leave(LOST);
    const second = await compute.terminal(ann, id, ID);
    second.type(Buffer.from('two'));
    release();
    const shell = await until(() => compute.shells.opened[0]);
    let typed = '';
    await until(() => {
      typed += shell.typed();
      return typed.length === 7;
    });
    assert.equal(typed, 'one two');
    assert.equal(compute.shells.opened.length, 1);
  });

  for (const code of [1000, 1005]) {
    test(`ends with its connection when the client closes it with ${code}`, async (t) => {
      const { compute, id, socket, shell } = await inSession(t);
      socket.leave(code);
      await until(() => shell.isClosed && sessions(compute) === 0);
      await compute.terminal(ann, id, ID);
      await until(() => compute.shells.opened.length === 2);
    });
  }

  test('waits for a client that left its page, was too slow or met a restart', async (t) => {
    const { compute, id, socket, shell } = await inSession(t);
    let last = socket;
    for (const code of [1001, 1006, 1012, 1013]) {
      last.leave(code);
      last = await compute.terminal(ann, id, ID);
    }
    await turns();
    assert.equal(shell.isClosed, false);
    assert.equal(compute.shells.opened.length, 1);
  });

  test('is hung up when nobody comes back', async (t) => {
    const { compute, id, socket, shell } = await inSession(t, { lingerMs: 300, pace: 1 });
    socket.leave(LOST);
    const again = await compute.terminal(ann, id, ID);
    again.leave(LOST);
    const left = performance.now();
    await until(() => shell.isClosed && sessions(compute) === 0);
    assert.ok(performance.now() - left > 290);
    assert.equal(compute.tokens.watched, 0);
  });

  test('does not outlive the token of a client that is away', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    const brief = { ...ann, expiresAt: Math.ceil(Date.now() / 1000) + 1 };
    const expiring = await compute.terminal(brief, id, ID);
    const revoked = await compute.terminal(ann, id, `${ID}-2`);
    await until(() => compute.shells.opened.length === 2);
    expiring.leave(LOST);
    revoked.leave(LOST);
    assert.equal(compute.tokens.watched, 2);
    compute.tokens.revoke('another');
    await turns();
    assert.equal(sessions(compute), 2);
    if (ann.tokenId !== brief.tokenId) assert.fail('both are of one token');
    await until(() => compute.shells.opened[0]?.isClosed === true, { what: 'the token expires' });
    assert.equal(compute.shells.opened[1]?.isClosed, false);
    compute.tokens.revoke(ann.tokenId);
    await until(() => compute.shells.opened[1]?.isClosed === true);
    await until(() => compute.tokens.watched === 0 && sessions(compute) === 0);
  });

  test('ends when its token is revoked, its scope withdrawn or its client broke the rules', async (t) => {
    for (const code of [1008, 1003]) {
      const { shell, socket } = await inSession(t);
      socket.leave(code);
      await until(() => shell.isClosed);
    }
  });

  test('ends at once with its container, also while nobody looks', async (t) => {
    const { compute, id, socket, shell } = await inSession(t);
    socket.leave(LOST);
    t.after(compute.engine.hold('stop'));
    await compute.on(stopContainer, ann, id);
    await until(() => shell.isClosed && sessions(compute) === 0);
    await refused('not_running', compute.terminal(ann, id, ID));
  });

  test('is over when the connection to the container is, also while nobody looks', async (t) => {
    const { compute, id, socket, shell } = await inSession(t);
    socket.leave(LOST);
    shell.near.destroy();
    await until(() => sessions(compute) === 0);
    await compute.terminal(ann, id, ID);
    await until(() => compute.shells.opened.length === 2);
  });

  test('is bound to the user, the container and the kind of token', async (t) => {
    const { compute, id, socket } = await inSession(t);
    const [bob, other] = [someone('bob'), await compute.running(ann)];
    await refused('not_found', compute.terminal(bob, id, ID));
    const robot = (account: string | null): Caller => ({
      ...ann,
      kind: 'api_token',
      tokenId: newId(),
      scopes: { [`compute.${ann.userId}`]: ['update'] },
      serviceAccount: account === null ? null : { id: account, name: account },
    });
    const bobs = await compute.running(bob);
    for (const [caller, container] of [
      [bob, bobs],
      [ann, other],
      [robot(null), id],
      [robot('r2d2'), id],
      [robot('c3po'), id],
    ] as const)
      await compute.terminal(caller, container, ID);
    await until(() => compute.shells.opened.length === 6);
    assert.equal(socket.closed, undefined);
    await compute.terminal(robot('r2d2'), id, ID);
    await turns();
    assert.equal(compute.shells.opened.length, 6);
    assert.equal(socket.closed, undefined);
  });

  test('takes an id of 16 to 64 characters that needs no encoding', () => {
    for (const session of ['', 'short', 'x'.repeat(15), 'x'.repeat(65), `${'x'.repeat(16)}/`, 'ä'.repeat(20)]) {
      assert.throws(() => callFrom(terminal, ann, { params: { id: newId() }, query: { session } }), {
        code: 'invalid_request',
      });
    }
  });

  test('is one of at most sixteen of a user: who was away longest makes place, and nobody who is there', async (t) => {
    const { compute, id, socket, shell } = await inSession(t);
    const others: FakeSocket[] = [];
    for (let i = 1; i < MAX_TERMINAL_SESSIONS; i++) others.push(await compute.terminal(ann, id, `${ID}-${i}`));
    await until(() => compute.shells.opened.length === MAX_TERMINAL_SESSIONS);
    const refusal = await refused('limit_reached', compute.terminal(ann, id, `${ID}-more`));
    assert.match(refusal.message, /16 terminals/);
    socket.leave(LOST);
    compute.clock.advance(10);
    others[0]?.leave(LOST);
    // Both let in, room for two: the third comes too late.
    const input = (n: number) => callFrom(terminal, ann, { params: { id }, query: { session: `${ID}-more-${n}` } });
    const admitted = [];
    for (const n of [1, 2, 3]) admitted.push(await compute.service.connect(terminal, input(n)));
    const [first, second, third] = admitted.map((handlers) => FakeSocket.open(handlers));
    await until(() => shell.isClosed);
    assert.deepEqual([first?.closed, second?.closed], [undefined, undefined]);
    assert.equal((await third?.end())?.code, 1008);
    assert.equal(sessions(compute), MAX_TERMINAL_SESSIONS);
    // Those without an id, and those that are there already, are not counted.
    await compute.terminal(ann, id);
    await compute.terminal(ann, id, `${ID}-more-1`);
    assert.equal((await first?.end())?.code, 4000);
  });

  test('ends with the service', async (t) => {
    const { compute, socket, shell } = await inSession(t);
    const away = await compute.terminal(ann, (await compute.list(ann))[0]?.id ?? '', `${ID}-2`);
    await until(() => compute.shells.opened.length === 2);
    away.leave(LOST);
    await compute.stop();
    assert.deepEqual(await socket.end(), { code: 1012, reason: 'service restarts' });
    assert.ok(shell.isClosed && compute.shells.opened[1]?.isClosed);
    assert.equal(compute.tokens.watched, 0);
    await compute.start();
  });
});

describe('a terminal whose shell is kept in its container', () => {
  async function kept(t: TestContext, options: ComputeOptions = {}) {
    const compute = await openCompute(t, options);
    compute.shells.keeps = true;
    const id = await compute.running(ann);
    const socket = await compute.terminal(ann, id, ID);
    const shell = await until(() => compute.shells.opened[0]);
    await until(() => shell.near.listenerCount('data') > 0);
    return { compute, id, socket, shell };
  }

  test('is asked for under a name that tells nothing and is the same at every process, with the life of its token', async (t) => {
    const { compute, id, shell } = await kept(t, { lingerMs: 5000 });
    const name = shell.keeping?.name ?? '';
    assert.match(name, /^[0-9a-f]{40}$/);
    assert.equal(shell.keeping?.lingerMs, 5000);
    const lifeOf = (n: number) => compute.shells.opened[n]?.keeping?.lifeMs ?? 0;
    const forEver = { ...ann, expiresAt: 0 };
    const brief = { ...ann, expiresAt: Math.ceil(Date.now() / 1000) + 100 };
    await compute.terminal(forEver, id, `${ID}-2`);
    await until(() => compute.shells.opened.length === 2);
    await compute.terminal(brief, id, `${ID}-3`);
    await until(() => compute.shells.opened.length === 3);
    await compute.terminal(ann, id);
    await until(() => compute.shells.opened.length === 4);
    assert.equal(lifeOf(1), Number.POSITIVE_INFINITY);
    assert.ok(lifeOf(2) <= 101_000 && lifeOf(0) > lifeOf(2), `${lifeOf(0)} ${lifeOf(2)}`);
    assert.equal(compute.shells.opened[3]?.keeping, undefined);
    assert.equal(new Set(compute.shells.opened.map(({ keeping }) => keeping?.name)).size, 4);
    // As if another process were asked.
    shell.near.destroy();
    await until(() => sessions(compute) === 3);
    await compute.terminal(ann, id, ID);
    assert.equal((await until(() => compute.shells.opened[4])).keeping?.name, name);
  });

  test('tells its keeper what the client has, and who is there', async (t) => {
    const { compute, id, socket, shell } = await kept(t);
    shell.far.write('12345');
    await shows(socket, '12345');
    assert.deepEqual(shell.said, ['seen 5']);
    socket.leave(LOST);
    assert.deepEqual(shell.said, ['seen 5', 'wait']);
    shell.near.push('on its way still');
    await turns();
    const again = await compute.terminal(ann, id, ID);
    assert.match(shell.said[2] ?? '', /^look 30000 \d+$/);
    assert.equal(again.bytes.length, 0);
    shell.far.write('12345 and more');
    await shows(again, '12345 and more');
    assert.equal(compute.shells.opened.length, 1);
    again.leave(1000);
    await until(() => shell.isClosed);
  });

  test('hands nothing that was for one client to the next', async (t) => {
    const { compute, id, socket, shell } = await kept(t);
    shell.near.pause();
    shell.near.push('for the first');
    const second = await compute.terminal(ann, id, ID);
    assert.equal((await socket.end()).code, 4000);
    shell.far.write('again');
    await shows(second, 'again');
    assert.deepEqual(second.bytes, ['again']);
  });

  test('that nobody looks at when it is there is told so', async (t) => {
    const compute = await openCompute(t);
    compute.shells.keeps = true;
    const id = await compute.running(ann);
    const release = compute.shells.hold();
    (await compute.terminal(ann, id, ID)).leave(LOST);
    release();
    const shell = await until(() => compute.shells.opened[0]);
    await until(() => shell.said.length > 0);
    assert.deepEqual(shell.said, ['wait']);
  });

  test('is left, and not hung up, when the service ends', async (t) => {
    const { compute, socket, shell } = await kept(t);
    await compute.stop();
    assert.deepEqual(await socket.end(), { code: 1012, reason: 'service restarts' });
    assert.ok(shell.said.includes('leave'));
    assert.equal(shell.isClosed, false);
    await compute.start();
  });

  test('is hung up when nobody comes back, its token is revoked or its container stops', async (t) => {
    const { compute, id, socket, shell } = await kept(t);
    const other = await compute.terminal(ann, id, `${ID}-2`);
    await until(() => compute.shells.opened.length === 2);
    socket.leave(LOST);
    compute.tokens.revoke(ann.tokenId);
    await until(() => shell.isClosed);
    t.after(compute.engine.hold('stop'));
    await compute.on(stopContainer, ann, id);
    assert.deepEqual(await other.end(), { code: 1000, reason: 'container stopped' });
    await until(() => compute.shells.opened[1]?.isClosed === true);
    const late = await kept(t, { lingerMs: 100 });
    late.socket.leave(LOST);
    await until(() => late.shell.isClosed);
  });

  test('that another process took over closes its client with 4000', async (t) => {
    const { compute, id, socket, shell } = await kept(t);
    shell.take();
    assert.deepEqual(await socket.end(), { code: 4000, reason: 'session taken over' });
    await until(() => sessions(compute) === 0);
    await compute.terminal(ann, id, ID);
    await until(() => compute.shells.opened.length === 2);
  });
});

test('output of one turn of the event loop leaves as one frame', async (t) => {
  const { socket, shell } = await inSession(t);
  for (const text of ['a', 'b', 'c']) shell.near.push(text);
  await shows(socket, 'abc');
  assert.deepEqual(socket.bytes, ['abc']);
});

test('a replay keeps the newest bytes and begins with a whole character', () => {
  const replay = new TerminalReplay(8);
  assert.equal(replay.contents().toString(), '');
  const text = 'aé€😀'.repeat(3);
  for (const byte of Buffer.from(text)) replay.push(Buffer.of(byte));
  assert.equal(replay.contents().toString(), '€😀'); // One of its eight bytes is the end of another.
  replay.push(Buffer.from(`${'x'.repeat(20)}12345678`));
  assert.equal(replay.contents().toString(), '12345678');
  replay.push(Buffer.from('90'));
  assert.equal(replay.contents().toString(), '34567890');
});
