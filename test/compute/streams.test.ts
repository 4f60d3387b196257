import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  computeSocket,
  deleteContainer,
  startContainer,
  stopContainer,
  terminal,
} from '../../proto/compute/endpoints.ts';
import { logs } from '../../proto/compute/logs.ts';
import type { Caller } from '../../proto/endpoint.ts';
import { newId } from '../../proto/ids.ts';
import { EngineError } from '../../proto/ports/engine.ts';
import { DEFAULT_USER_LIMITS } from '../../proto/user-limits.ts';
import { StorageError } from '../../storage/errors.ts';
import type { FakeShell } from '../support/engine/fake-shells.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { callFrom, refused, someone } from '../support/service/calls.ts';
import { type ComputeUnderTest, openCompute } from '../support/service/compute.ts';
import { FakeSocket } from '../support/service/fake-socket.ts';
import { turns, until } from '../support/until.ts';

failOnLeaks();

const ann = someone();

/** An open terminal of a running container, and the shell in it. */
async function terminalIn(compute: ComputeUnderTest): Promise<{ id: string; socket: FakeSocket; shell: FakeShell }> {
  const id = await compute.running(ann);
  const socket = await compute.terminal(ann, id);
  return { id, socket, shell: await until(() => compute.shells.opened[0]) };
}

/** As many logs were begun, and wait for news. */
async function followed(compute: ComputeUnderTest, count: number): Promise<void> {
  await until(() => compute.engine.calls.filter((name) => name.startsWith('logs ')).length >= count);
  await turns(5);
}

const idle = (compute: ComputeUnderTest, kind: string) =>
  until(() => compute.alive(kind) === 0, { what: `no ${kind} is left` });

describe('a terminal', () => {
  test('carries bytes both ways, unchanged', async (t) => {
    const compute = await openCompute(t);
    const { socket, shell } = await terminalIn(compute);
    const all = Uint8Array.from({ length: 256 }, (_, i) => i);
    shell.far.write(all);
    await until(() => socket.bytes.join('').length === 256);
    assert.equal(socket.bytes.join(''), Buffer.from(all).toString('latin1'));
    socket.type(Buffer.from('ls\n'));
    await until(() => shell.typed() === 'ls\n');
  });

  test('is refused before the upgrade while the container does not run', async (t) => {
    const compute = await openCompute(t);
    const release = compute.engine.hold('ensureImage');
    const id = await compute.create(ann);
    const refusal = await refused('not_running', compute.terminal(ann, id));
    assert.match(refusal.message, /pending/);
    release();
    await compute.reaches(ann, id, 'running');
    await compute.on(stopContainer, ann, id);
    assert.match((await refused('not_running', compute.terminal(ann, id))).message, /stopped/);
    assert.equal(compute.shells.opened.length, 0);
  });

  test('begins at 24 by 80 and follows resize frames', async (t) => {
    const compute = await openCompute(t);
    const { socket, shell } = await terminalIn(compute);
    assert.deepEqual(shell.asked, { term: 'xterm-256color', rows: 24, cols: 80 });
    socket.type('{"type":"resize","cols":120,"rows":40}');
    socket.type('{"type":"resize","cols":1,"rows":1000}');
    assert.deepEqual(shell.sizes, ['120x40', '1x1000']);
    assert.equal(socket.closed, undefined);
  });

  test('takes text as it is for what is typed, and passes over control messages it does not know', async (t) => {
    const compute = await openCompute(t);
    const { socket, shell } = await terminalIn(compute);
    const typed = ['', 'ls', '\n', '{', 'null', '[]', '{"cols":80}', '{"type":1}', '"resize"', '\u00e9\u{1f600}'];
    const passedOver = [
      ...['{"type":"resize"}', '{"type":"size","cols":80,"rows":24}', '{"type":""}'],
      ...[0, -1, 65_536, 1001, 1.5, '"80"', 'null'].map((size) => `{"type":"resize","cols":${size},"rows":24}`),
      ...[0, -1, 65_536].map((size) => `{"type":"resize","cols":80,"rows":${size}}`),
    ];
    for (const text of typed) socket.type(text);
    for (const text of passedOver) socket.type(text);
    const long = `{"type":"${'x'.repeat(2000)}"}`;
    socket.type(long);
    const expected = Buffer.from(typed.join('') + long).toString();
    await until(() => shell.typed() === expected);
    assert.equal(socket.closed, undefined);
    assert.deepEqual(shell.sizes, []);
  });

  test('presses Enter after each text frame of a client that sends lines', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    const socket = await compute.connect(terminal, ann, { params: { id }, query: { input: 'lines' } });
    const shell = await until(() => compute.shells.opened[0]);
    socket.type('ls');
    socket.type('{"type":"resize","cols":90,"rows":30}');
    socket.type(Buffer.from('raw'));
    socket.type('');
    await until(() => shell.typed() === 'ls\rraw\r');
    assert.deepEqual(shell.sizes, ['90x30']);
  });

  test('keeps what is typed before the shell is there, in order, and its size', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    const release = compute.shells.hold();
    const socket = await compute.terminal(ann, id);
    for (const text of ['one ', 'two ', 'three ']) socket.type(Buffer.from(text));
    socket.type('{"type":"resize","cols":132,"rows":50}');
    release();
    const shell = await until(() => compute.shells.opened[0]);
    socket.type(Buffer.from('four'));
    let typed = '';
    await until(() => {
      typed = shell.typed();
      return typed.length >= 18;
    });
    assert.equal(typed, 'one two three four');
    assert.deepEqual(shell.sizes, ['132x50']);
  });

  test('keeps no more than a mebibyte for a shell that is not there', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    t.after(compute.shells.hold());
    const socket = await compute.terminal(ann, id);
    for (let i = 0; i < 16; i++) socket.type(new Uint8Array(64 * 1024));
    assert.equal(socket.closed, undefined);
    socket.type(new Uint8Array(1));
    assert.deepEqual(socket.closed, { code: 1013, reason: 'too much input' });
    await until(() => compute.shells.givenUp === 1);
  });

  test('pauses the shell while its reader is slow', async (t) => {
    const compute = await openCompute(t);
    const { socket, shell } = await terminalIn(compute);
    socket.full = true;
    shell.far.write('first');
    await until(() => socket.bytes.length === 1);
    shell.far.write('second');
    await turns();
    assert.equal(socket.bytes.length, 1);
    assert.equal(shell.near.isPaused(), true);
    socket.drain();
    await until(() => socket.bytes.join('') === 'firstsecond');
  });

  test('pauses its writer while the shell does not read, and ends it past a bound', async (t) => {
    const compute = await openCompute(t);
    const { socket, shell } = await terminalIn(compute);
    socket.type(new Uint8Array(64 * 1024));
    socket.type(new Uint8Array(64 * 1024));
    assert.equal(socket.paused, true);
    await until(() => shell.typed().length === 128 * 1024);
    assert.equal(socket.paused, false);
    for (let i = 0; i < 18; i++) socket.type(new Uint8Array(64 * 1024));
    assert.deepEqual(await socket.end(), { code: 1013, reason: 'too much input' });
  });

  test('ends with 1000 when its shell does, after all that was printed', async (t) => {
    const compute = await openCompute(t);
    const { socket, shell } = await terminalIn(compute);
    shell.far.resume();
    shell.far.end('logout\n');
    assert.deepEqual(await socket.end(), { code: 1000, reason: 'session ended' });
    assert.equal(socket.bytes.join(''), 'logout\n');
    await idle(compute, 'compute/terminal');
  });

  test('tells the exit code to a client that asks for it, and to no other', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    for (const [query, end, told] of [
      [{ exit: 'true' }, { code: 3, signal: null }, ['{"type":"exit","code":3}']],
      [{ exit: 'true' }, { code: null, signal: 'HUP' }, ['{"type":"exit","code":129}']],
      [{ exit: 'true' }, { code: null, signal: 'SIGKILL' }, ['{"type":"exit","code":137}']],
      [{ exit: 'true' }, { code: null, signal: null }, []],
      [{}, { code: 3, signal: null }, []],
    ] as const) {
      const count = compute.shells.opened.length;
      const socket = await compute.connect(terminal, ann, { params: { id }, query });
      const shell = await until(() => compute.shells.opened[count]);
      shell.endsWith(end);
      shell.far.resume();
      shell.far.end('logout\n');
      assert.deepEqual(await socket.end(), { code: 1000, reason: 'session ended' });
      assert.deepEqual([socket.bytes.join(''), socket.texts], ['logout\n', told]);
    }
  });

  test('asks its client to come back when the connection to the shell is lost', async (t) => {
    const compute = await openCompute(t);
    const { socket, shell } = await terminalIn(compute);
    shell.near.destroy(new EngineError('unavailable', 'lost'));
    assert.equal((await socket.end()).code, 1012);
  });

  test('takes input no more once the shell is over', async (t) => {
    const compute = await openCompute(t);
    const { socket, shell } = await terminalIn(compute);
    shell.near.end();
    socket.type(Buffer.from('too late'));
    shell.far.resume();
    shell.far.end();
    assert.equal((await socket.end()).code, 1000);
  });

  test('says why when its shell cannot be opened', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    compute.shells.fail(new EngineError('no_listener', `Nothing listens. ${'ä'.repeat(200)}`));
    const first = await compute.terminal(ann, id);
    const { code, reason } = await first.end();
    assert.equal(code, 1011);
    assert.match(reason, /^Nothing listens\. ä+$/);
    compute.shells.fail(new Error('a secret of ours'));
    const second = await compute.terminal(ann, id);
    assert.deepEqual(await second.end(), { code: 1011, reason: 'the shell could not be opened' });
  });

  test('ends its shell when its client leaves, also one that is still being opened', async (t) => {
    const compute = await openCompute(t);
    const { id, socket, shell } = await terminalIn(compute);
    socket.leave();
    await until(() => shell.isClosed);
    const release = compute.shells.hold();
    const early = await compute.terminal(ann, id);
    early.leave();
    await until(() => compute.shells.givenUp > 0);
    release();
    await idle(compute, 'compute/terminal');
    assert.equal(compute.shells.opened.length, 1);
  });

  const ends = [
    { when: 'the container is stopped', endpoint: stopContainer, reason: 'container stopped' },
    { when: 'the container is deleted', endpoint: deleteContainer, reason: 'container deleted' },
  ];
  for (const { when, endpoint, reason } of ends) {
    test(`is closed at once when ${when}, before the engine has done it`, async (t) => {
      const compute = await openCompute(t);
      const { id, socket, shell } = await terminalIn(compute);
      t.after(compute.engine.hold(endpoint === stopContainer ? 'stop' : 'remove'));
      await compute.on(endpoint, ann, id);
      assert.deepEqual(await socket.end(), { code: 1000, reason });
      await until(() => shell.isClosed);
    });
  }

  test('is told to come back when the workload crashes', async (t) => {
    const compute = await openCompute(t);
    const { id, socket } = await terminalIn(compute);
    compute.engine.crash(id);
    assert.deepEqual(await socket.end(), { code: 1012, reason: 'container restarts' });
    await compute.reaches(ann, id, 'running');
  });

  test('allowed just before the stop is closed as it opens', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    const allowed = await compute.service.connect(terminal, callFrom(terminal, ann, { params: { id } }));
    await compute.on(stopContainer, ann, id);
    assert.deepEqual(await FakeSocket.open(allowed).end(), { code: 1000, reason: 'container stopped' });
    await until(async () => (await compute.engine.inspect(id))?.phase === 'exited');
    const release = compute.engine.hold('start');
    t.after(release);
    await compute.on(startContainer, ann, id);
    await refused('not_running', compute.terminal(ann, id));
  });

  test('is closed with 1008 when its token expires, also one that expired during the upgrade', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    const soon = { ...ann, expiresAt: Math.ceil(Date.now() / 1000) + 1 };
    const socket = await compute.terminal(soon, id);
    assert.equal(socket.closed, undefined);
    assert.deepEqual(await socket.end(), { code: 1008, reason: 'token expired' });
    const late = await compute.terminal({ ...ann, expiresAt: Math.floor(Date.now() / 1000) - 1 }, id);
    assert.deepEqual(await late.end(), { code: 1008, reason: 'token expired' });
  });

  test('of a token without an end, or with a far one, stays', async (t) => {
    const compute = await openCompute(t);
    for (const expiresAt of [0, 4_102_444_800]) {
      const socket = await compute.updates({ ...ann, expiresAt });
      await turns();
      assert.equal(socket.closed, undefined);
    }
  });
});

describe('a log', () => {
  test('shows the newest lines, then what comes, one a message', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    compute.engine.print(id, ['one', 'two', 'three']);
    const [two, all] = [await compute.logs(ann, id, '2'), await compute.logs(ann, id)];
    await until(() => two.texts.length === 2 && all.texts.length === 4);
    for (const line of two.texts) assert.match(line, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z (two|three)$/);
    const none = await compute.logs(ann, id, '0');
    await followed(compute, 3);
    compute.engine.print(id, ['four']);
    await until(() => two.texts.length === 3 && all.texts.length === 5 && none.texts.length === 1);
    assert.match(none.texts[0] ?? '', / four$/);
  });

  test('ends with 1000 when the container stops or is deleted', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    const socket = await compute.logs(ann, id);
    await compute.on(stopContainer, ann, id);
    assert.deepEqual(await socket.end(), { code: 1000, reason: 'container stopped' });
    await refused('not_running', compute.logs(ann, id));
    await until(async () => (await compute.engine.inspect(id))?.phase === 'exited');
    await compute.on(startContainer, ann, id);
    await compute.reaches(ann, id, 'running');
    const again = await compute.logs(ann, id);
    await compute.on(deleteContainer, ann, id);
    assert.equal((await again.end()).code, 1000);
    await idle(compute, 'compute/log');
  });

  test('goes at the pace of its reader, and nobody else waits for it', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    const [slow, fast] = [await compute.logs(ann, id, '0'), await compute.logs(ann, id, '0')];
    slow.full = true;
    await followed(compute, 2);
    compute.engine.print(id, ['1', '2', '3']);
    await until(() => fast.texts.length === 3 && slow.texts.length === 1);
    await turns();
    assert.equal(slow.texts.length, 1);
    slow.drain();
    await until(() => slow.texts.length === 3);
    assert.deepEqual(slow.texts, fast.texts);
    assert.equal(slow.closed, undefined);
  });

  test('leaves nothing with the engine when its reader leaves, however it reads', async (t) => {
    const active = new Set<AbortSignal>();
    const compute = await openCompute(t, {
      wrapEngine: (engine) => ({
        ...engine,
        logs: async function* (id, options) {
          active.add(options.signal);
          try {
            yield* engine.logs(id, options);
          } finally {
            active.delete(options.signal);
          }
        },
      }),
    });
    const id = await compute.running(ann);
    const [following, stalled] = [await compute.logs(ann, id), await compute.logs(ann, id, '0')];
    stalled.full = true;
    await followed(compute, 2);
    assert.ok(active.size >= 2);
    compute.engine.print(id, ['1', '2']);
    await until(() => stalled.texts.length === 1);
    following.leave();
    stalled.leave();
    await until(() => active.size === 0, { what: 'the engine’s streams have ended' });
    await idle(compute, 'compute/log');
  });

  test('a reader who stalls a thousand times costs no more than one who never does', async (t) => {
    const listeners: string[] = [];
    const compute = await openCompute(t, {
      wrapEngine: (engine) => ({
        ...engine,
        logs: (id, options) => {
          const { signal } = options;
          const add = signal.addEventListener.bind(signal);
          Object.defineProperty(signal, 'addEventListener', {
            value: (...args: Parameters<typeof add>) => {
              listeners.push(args[0]);
              add(...args);
            },
          });
          return (async function* () {
            for (let i = 0; i < 1000 && !signal.aborted; i++) yield [`line ${i}`];
            yield* engine.logs(id, options);
          })();
        },
      }),
    });
    const id = await compute.running(ann);
    const socket = await compute.logs(ann, id);
    for (let i = 0; i < 1000; i++) {
      socket.full = true;
      await until(() => socket.texts.length >= i + 1, { everyMs: 0 });
      socket.drain();
    }
    await until(() => socket.texts.length > 1000);
    assert.ok(listeners.length < 10, `${listeners.length} listeners`);
  });

  test('resumes after a stamp with all that came since, or with the newest of it', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    compute.engine.print(id, ['one', 'two', 'three', 'four']);
    const first = await compute.logs(ann, id, '4');
    await until(() => first.texts.length === 4);
    const since = first.texts[1]?.split(' ')[0];
    const [all, newest, east] = [
      await compute.logs(ann, id, undefined, since),
      await compute.logs(ann, id, '1', since),
      await compute.logs(ann, id, undefined, '2001-01-01T00:00:00+05:00'),
    ];
    await until(() => all.texts.length === 2 && newest.texts.length === 1 && east.texts.length === 5);
    assert.deepEqual(all.texts, first.texts.slice(2));
    assert.deepEqual(newest.texts, first.texts.slice(3));
    await followed(compute, 4);
    compute.engine.print(id, ['five']);
    await until(() => all.texts.length === 3 && newest.texts.length === 2);
    const late = await compute.logs(ann, id, undefined, '9999-12-31T23:59:59.999999999Z');
    await followed(compute, 5);
    compute.engine.print(id, ['six']);
    await until(() => all.texts.length === 4);
    assert.deepEqual(late.texts, []);
  });

  test('since is a time of RFC 3339', () => {
    const wrong = [
      '',
      '-1',
      'NaN',
      '1000000000000',
      'yesterday',
      '2026-01-31',
      '2026-01-31T12:00:00',
      '2026-13-01T00:00:00Z',
    ];
    for (const since of [...wrong, '2026-01-31 12:00:00Z', '2026-01-31T12:00:00.0123456789Z', '2026-01-31T25:00:00Z']) {
      assert.throws(() => callFrom(logs, ann, { params: { id: newId() }, query: { since } }), {
        code: 'invalid_request',
      });
    }
  });

  test('tells its reader to come back when the workload crashed, and when nobody knows what became of it', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    const [first, second] = [await compute.logs(ann, id), await compute.logs(ann, id)];
    await followed(compute, 2);
    compute.engine.crash(id);
    for (const socket of [first, second])
      assert.deepEqual(await socket.end(), { code: 1012, reason: 'container restarts' });
    // Its status may still be that of before.
    await until(() => compute.engine.calls.filter((call) => call === `start ${id}`).length === 2);
    await compute.reaches(ann, id, 'running');
    const third = await compute.logs(ann, id);
    await followed(compute, 3);
    await compute.on(deleteContainer, ann, id);
    assert.equal((await third.end()).code, 1000);
  });

  test('says with its code whether it is worth coming back when it breaks', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    compute.engine.fail('logs', new EngineError('unavailable', 'down'));
    assert.equal((await (await compute.logs(ann, id)).end()).code, 1013);
    compute.engine.fail('logs', new EngineError('refused', 'no'));
    assert.equal((await (await compute.logs(ann, id)).end()).code, 1011);
  });

  test('takes no frames from its reader', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    for (const frame of ['hello', new Uint8Array(3)]) {
      const socket = await compute.logs(ann, id);
      socket.type(frame);
      assert.equal(socket.closed?.code, 1003);
    }
  });
});

describe('updates', () => {
  test('end with the service, which asks clients to come back; so do those that arrive too late', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    const sockets = [await compute.updates(ann), await compute.terminal(ann, id), await compute.logs(ann, id)];
    const accepted = await compute.service.connect(computeSocket, callFrom(computeSocket, ann));
    await compute.stop();
    for (const socket of sockets) assert.deepEqual(await socket.end(), { code: 1012, reason: 'service restarts' });
    assert.deepEqual(await FakeSocket.open(accepted).end(), { code: 1012, reason: 'service restarts' });
    await until(() => compute.shells.opened.every((shell) => shell.isClosed));
    await compute.start();
  });

  test('of a user whose list cannot be read are closed with 1013, and others stay', async (t) => {
    const compute = await openCompute(t);
    const first = await compute.updates(ann);
    compute.db.failure = new StorageError('unavailable', 'gone');
    const second = await compute.connect(computeSocket, ann);
    assert.deepEqual(await second.end(), { code: 1013, reason: 'not available, try again' });
    compute.db.failure = undefined;
    await compute.create(ann);
    await until(() => first.texts.length > 1);
  });

  test('leave nothing behind when many clients come and go', async (t) => {
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    const sockets = await Promise.all(
      Array.from({ length: 60 }, (_, i) => {
        if (i % 3 === 0) return compute.connect(computeSocket, ann);
        return i % 3 === 1 ? compute.terminal(ann, id) : compute.logs(ann, id);
      }),
    );
    await until(() => sockets.filter((socket) => socket.texts.length > 0).length === 40);
    for (const socket of sockets) socket.leave();
    for (const kind of ['compute/updates', 'compute/terminal', 'compute/log']) await idle(compute, kind);
    await until(() => compute.shells.opened.every((shell) => shell.isClosed));
    // Nobody is sent anything any more.
    await compute.on(stopContainer, ann, id);
    await turns();
    assert.equal(sockets.filter((socket) => socket.texts.join().includes('"stopped"')).length, 0);
  });
});

describe('a user', () => {
  test('has so many sockets of each kind; one more is told why and closed, and others have theirs', async (t) => {
    const compute = await openCompute(t);
    const bob = someone('bob');
    const [id, other] = [await compute.running(ann), await compute.running(bob)];
    const kinds = [
      ['log_sockets', (caller: Caller, of: string) => compute.logs(caller, of)],
      ['terminals', (caller: Caller, of: string) => compute.terminal(caller, of)],
      ['update_sockets', (caller: Caller) => compute.connect(computeSocket, caller)],
    ] as const;
    for (const [kind, open] of kinds) {
      const most = DEFAULT_USER_LIMITS[kind];
      const sockets = await Promise.all(Array.from({ length: most }, () => open(ann, id)));
      const end = await (await open(ann, id)).end();
      assert.equal(end.code, 1008);
      assert.match(
        end.reason,
        new RegExp(
          `^your limit is ${most} open [a-z ]+: close one, or the operator raises it by troupe users limits NAME$`,
        ),
      );
      const theirs = await open(bob, other);
      sockets[0]?.leave();
      await turns();
      const again = await open(ann, id);
      await turns();
      for (const socket of [...sockets.slice(1), theirs, again]) assert.equal(socket.closed, undefined);
      for (const socket of [...sockets, theirs, again]) socket.leave();
    }
  });
});
