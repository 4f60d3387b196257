/** Commands with a session, as the service handles them; their holders run on this machine. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { z } from 'zod';
import { keptName, programOf } from '../../actors/compute/exec/exec-handler.ts';
import { stopContainer } from '../../proto/compute/endpoints.ts';
import { execContainer } from '../../proto/compute/exec.ts';
import type { Caller } from '../../proto/endpoint.ts';
import { newId } from '../../proto/ids.ts';
import type { KeptCommand, KeptCommands } from '../../proto/ports/kept-command.ts';
import { readAudit } from '../../storage/audit.ts';
import { keptCommands } from '../../transports/engines/common/kept-commands.ts';
import { localCommands } from '../support/exec/local-commands.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { findProgram, skipUnless } from '../support/require.ts';
import { callFrom, refused, someone } from '../support/service/calls.ts';
import { openCompute } from '../support/service/compute.ts';
import type { FakeSocket } from '../support/service/fake-socket.ts';
import { tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const ann = someone();
const SESSION = 'a-random-id-of-the-client';
const LOST = 1006;
const MEBIBYTE = 1024 * 1024;
const NEVER = new AbortController().signal;
const skip = skipUnless(findProgram('perl') !== undefined, 'perl');

const begunSchema = z.looseObject({ type: z.literal('session'), session: z.string(), resumable: z.boolean() });

interface BoxOptions {
  readonly env?: NodeJS.ProcessEnv;
  readonly commandLingerMs?: number;
  /** Runs in the place of what would keep the command. */
  readonly liar?: string;
  /** Before a command is opened. */
  readonly before?: () => Promise<void>;
}

/** A running container, whose commands are kept in a folder of this machine. */
async function box(t: TestContext, options: BoxOptions = {}) {
  const ends: (() => Promise<void>)[] = [];
  t.after(async () => {
    for (const end of ends) await end();
  });
  const folder = join(await tempDir(t), 'holders');
  const local = localCommands(options.env);
  const { liar } = options;
  const run_: typeof local.run = (id, words, signal) =>
    local.run(id, liar === undefined ? words : ['/bin/sh', '-c', liar], signal);
  const commands = keptCommands({ run: run_ }, folder);
  const opened: KeptCommands = {
    async open(...given) {
      await options.before?.();
      return await commands.open(...given);
    },
  };
  const holders = () => (existsSync(folder) ? readdirSync(folder).filter((name) => name !== 'lock') : []);
  const linger = options.commandLingerMs === undefined ? {} : { commandLingerMs: options.commandLingerMs };
  const onRun = (command: { exit: (code: number) => void; stdout: { write: (text: string) => unknown } }) => {
    command.stdout.write('plain');
    command.exit(6);
  };
  const compute = await openCompute(t, { commands: opened, engine: { onRun }, ...linger });
  const id = await compute.running(ann);
  ends.push(async () => {
    for (const name of holders()) {
      const last = { name, since: 0, lingerMs: 0, lifeMs: 0 };
      const left = await commands.open(id, last, NEVER).catch(() => undefined);
      left?.cancel();
    }
    await until(() => holders().length === 0 && local.bridges.size === 0, { what: 'nothing is left' });
  });
  const run = (command: string[], query: Record<string, string> = {}, caller = ann) =>
    compute.exec(caller, id, { command, session: SESSION, ...query });
  const join_ = (since: number, caller = ann) => compute.exec(caller, id, { session: SESSION, since: String(since) });
  return { compute, id, local, holders, run, join: join_ };
}

const printed = (socket: FakeSocket) => socket.bytes.map((frame) => frame.slice(1)).join('');
const prints = (socket: FakeSocket, text: string) => until(() => printed(socket) === text, { what: text });
const said = (socket: FakeSocket, type: string) =>
  until(() => socket.events.find((event) => z.looseObject({ type: z.literal(type) }).safeParse(event).success), {
    what: type,
  });

describe('a command with a session', { skip, timeout: 900_000 }, () => {
  test('goes on after a lost connection, from the cursor of its client, and tells its exit code', async (t) => {
    const at = await box(t);
    const first = await at.run(['echo one; echo two >&2; read line; echo "<$line>"; exit 3']);
    const begun = { type: 'session', session: SESSION, resumable: true, cursor: 0, gap: 0 };
    assert.deepEqual(await said(first, 'session'), { ...begun, input: { received: 0, written: 0 } });
    await until(() => printed(first).length === 8);
    assert.deepEqual([...first.bytes].sort(), ['\x01one\n', '\x02two\n']);
    first.type(Buffer.from('half a '));
    await until(() => first.events.length > 1);
    first.leave(LOST);
    const second = await at.join(4);
    assert.deepEqual(await said(second, 'session'), { ...begun, cursor: 4, input: { received: 7, written: 7 } });
    second.type(Buffer.from('line\n'));
    assert.deepEqual(await said(second, 'exit'), { type: 'exit', code: 3 });
    assert.match(printed(second), /^(one|two)\n<half a line>\n$/);
    second.leave(1000);
    await until(() => at.holders().length === 0, { what: 'it is forgotten' });
    assert.equal((await (await at.join(0)).end()).code, 4404);
  });

  test('is the same for whoever asks for it once more, and goes to the latest connection', async (t) => {
    const at = await box(t);
    const first = await at.run(['echo $$; cat']);
    await until(() => printed(first).endsWith('\n'));
    const second = await at.run(['echo $$; cat']);
    assert.deepEqual(await first.end(), { code: 4000, reason: 'session taken over' });
    await prints(second, printed(first));
    second.leave(1000);
  });

  test('belongs to its user and kind of token: for others it is another, or none', async (t) => {
    const at = await box(t);
    const robot: Caller = { ...ann, kind: 'api_token', scopes: { [`compute.${ann.userId}`]: ['update'] } };
    const mine = await at.run(['cat']);
    await said(mine, 'session');
    assert.equal((await (await at.join(0, robot)).end()).code, 4404);
    await refused('not_found', at.join(0, someone('bob')));
    const of = (caller: Caller, containerId = 'c', session = SESSION) => keptName({ caller, containerId, session });
    const names = [of(ann), of(robot), of(someone('bob')), of(ann, 'd'), of(ann, 'c', `${SESSION}2`)];
    assert.equal(new Set(names).size, names.length);
    assert.equal(mine.closed, undefined);
    mine.leave(1000);
  });

  test('ends with a client that leaves for good, and after the time without a client', async (t) => {
    const at = await box(t, { commandLingerMs: 400 });
    const closed = await at.run(['sleep 1000']);
    await said(closed, 'session');
    closed.leave(1000);
    await until(() => at.holders().length === 0, { what: 'the client left' });
    const revoked = await at.run(['sleep 1000']);
    await said(revoked, 'session');
    const lost = await at.run(['sleep 1000'], { session: `${SESSION}-2` });
    await said(lost, 'session');
    lost.leave(LOST);
    await until(() => at.holders().length === 1, { what: 'nobody came back' });
    revoked.leave(LOST);
    await until(() => at.holders().length === 0);
  });

  test('ends when its token is revoked while its client is away, and not after that came back', async (t) => {
    const at = await box(t);
    const socket = await at.run(['sleep 1000']);
    await said(socket, 'session');
    socket.leave(LOST);
    await until(() => at.compute.tokens.watched === 1);
    const again = await at.join(0);
    await said(again, 'session');
    await until(() => at.compute.tokens.watched === 0);
    again.leave(1012);
    await until(() => at.compute.tokens.watched === 1);
    at.compute.tokens.revoke(ann.tokenId);
    await until(() => at.holders().length === 0 && at.compute.tokens.watched === 0);
  });

  test('asks before it runs a command that cannot be kept, and then runs it without a session', async (t) => {
    const at = await box(t, { env: { PATH: '/none' } });
    const socket = await at.run(['true']);
    const begun = begunSchema.parse(await said(socket, 'session'));
    assert.deepEqual([begun.resumable, begun.reason], [false, 'it has no perl']);
    assert.ok(!at.compute.engine.calls.some((call) => call.startsWith('run ')));
    socket.type('{"type":"start"}');
    assert.deepEqual(await said(socket, 'exit'), { type: 'exit', code: 6 });
    assert.deepEqual(await socket.end(), { code: 1000, reason: 'command ended' });
    assert.equal(printed(socket), 'plain');
    assert.equal((await (await at.join(0)).end()).code, 4404);
  });

  test('stops taking input that the command does not, and pauses while its client does not read', async (t) => {
    const at = await box(t);
    const greedy = await at.run(['sleep 1000']);
    await said(greedy, 'session');
    for (let sent = 0; sent <= 1024 * 1024 + 70_000; sent += 32_768) greedy.type(new Uint8Array(32_768));
    assert.deepEqual(await greedy.end(), { code: 1013, reason: 'too much input' });
    const back = await at.join(0);
    await said(back, 'session');
    back.leave(1000);
    const slow = await at.run(['yes'], { session: `${SESSION}-2` });
    slow.full = true;
    await until(() => printed(slow).length > 0);
    let bytes = -1;
    await until(
      () => {
        const before = bytes;
        bytes = printed(slow).length;
        return before === bytes;
      },
      { everyMs: 200 },
    );
    assert.ok(bytes < 400_000, `${bytes} bytes`);
    slow.drain();
    await until(() => printed(slow).length === 1024 * 1024);
    slow.type(JSON.stringify({ type: 'ack', cursor: 500_000 }));
    await until(() => printed(slow).length === 1024 * 1024 + 500_000);
    slow.leave(1000);
  });

  test('ends with its container', async (t) => {
    const at = await box(t);
    const socket = await at.run(['sleep 1000']);
    await said(socket, 'session');
    await at.compute.on(stopContainer, ann, at.id);
    assert.deepEqual(await socket.end(), { code: 1000, reason: 'container stopped' });
    await refused('not_running', at.join(0));
  });

  test('has a query that is whole', () => {
    const call = (query: Record<string, string | string[]>) =>
      callFrom(execContainer, ann, { params: { id: newId() }, query });
    for (const query of [
      {},
      { session: SESSION },
      { command: ['true'], session: 'short' },
      { since: '0' },
      { since: '0', session: 'new' },
      { since: '-1', session: SESSION },
      { since: '1e3', session: SESSION },
    ])
      assert.throws(() => call(query), { code: 'invalid_request' }, JSON.stringify(query));
    assert.equal(z.looseObject({ since: z.number() }).parse(call({ since: '12', session: SESSION }).query).since, 12);
  });
});

describe('what a client may say to a command with a session', { skip, timeout: 900_000 }, () => {
  test('is held up before the command is there, and no more of it waits than may, however small it is', async (t) => {
    let open = () => {};
    const gate = new Promise<void>((resolve) => {
      open = resolve;
    });
    const at = await box(t, { before: () => gate });
    const socket = await at.run(['cat']);
    for (let n = 0; n < 10_000; n++) socket.type(new Uint8Array(0));
    assert.equal(socket.paused, false);
    socket.type(Buffer.from('early'));
    assert.equal(socket.paused, true);
    const greedy = await at.run(['cat'], { session: `${SESSION}-2` });
    for (let n = 0; n < 5000; n++) greedy.type(Buffer.of(1));
    assert.deepEqual(await greedy.end(), { code: 1013, reason: 'too much input' });
    open();
    await prints(socket, 'early');
    assert.equal(socket.paused, false);
    socket.leave(1000);
  });

  test('is held up while what keeps the command does not read, and past a bound it is too much', async (t) => {
    const at = await box(t);
    const socket = await at.run(['cat >/dev/null']);
    await said(socket, 'session');
    const signal = (name: NodeJS.Signals) => {
      for (const bridge of at.local.bridges) bridge.kill(name);
    };
    signal('SIGSTOP');
    for (let n = 0; n < 100_000; n++) socket.type(JSON.stringify({ type: 'ack', cursor: n }));
    assert.equal(socket.paused, false);
    for (let n = 0; n < 16; n++) socket.type(new Uint8Array(32_768));
    assert.equal(socket.paused, true);
    signal('SIGCONT');
    await until(() => !socket.paused, { what: 'it may go on' });
    signal('SIGSTOP');
    for (let n = 0; n < 10_000; n++) socket.type(Buffer.of(1));
    assert.deepEqual(await socket.end(), { code: 1013, reason: 'too much input' });
    signal('SIGKILL');
  });

  test('is bounded also where the container says that the command takes all of it', async (t) => {
    const frame = (letter: string, text: string) =>
      `printf '${letter}\\0\\0\\0\\${text.length.toString(8).padStart(3, '0')}%s' '${text}'`;
    const lies = [frame('B', '0 0 0'), frame('C', '999999999 999999999')];
    const at = await box(t, { liar: [`printf 'troupe-command held\\n'`, ...lies, 'exec sleep 1000'].join(';') });
    const socket = await at.run(['cat']);
    await said(socket, 'input');
    for (let sent = 0; sent < 3 * MEBIBYTE; sent += 32_768) socket.type(new Uint8Array(32_768));
    assert.deepEqual(await socket.end(), { code: 1013, reason: 'too much input' });
  });

  test('is `start` only as an answer: nothing runs that was not offered', async (t) => {
    const at = await box(t, { env: { PATH: '/none' } });
    const whyNot = { code: 1003, reason: 'start is the answer to "resumable":false, and to nothing else' };
    const early = await at.run(['true']);
    early.type('{"type":"start"}');
    assert.deepEqual(await early.end(), whyNot);
    const joined = await at.join(0);
    joined.type('{"type":"start"}');
    assert.deepEqual(await joined.end(), whyNot);
    assert.ok(!at.compute.engine.calls.some((call) => call.startsWith('run ')));
    const kept = await box(t);
    const socket = await kept.run(['cat']);
    await said(socket, 'session');
    socket.type('{"type":"start"}');
    assert.deepEqual(await socket.end(), whyNot);
    await until(() => kept.holders().length === 0, { what: 'it is ended' });
  });

  test('is no command where one is joined', async (t) => {
    const at = await box(t);
    const { message } = await refused('invalid_request', at.run(['true'], { since: '0' }));
    assert.match(message, /"command" must be left out with `since`/);
  });
});

/** Commands that nothing keeps: who asked for them, and how they were left. */
function toldCommands() {
  const signals: AbortSignal[] = [];
  const told: string[] = [];
  const commands: KeptCommands = {
    async open(_id, request, signal) {
      signals.push(signal);
      const command: KeptCommand = {
        cursor: 0,
        input: { received: 0, written: 0 },
        listen() {},
        acknowledge() {},
        write() {},
        endInput() {},
        resize() {},
        pause() {},
        resume() {},
        cancel: () => void told.push(`cancel ${request.name}`),
        leave: () => void told.push(`leave ${request.name}`),
      };
      return command;
    },
  };
  return { commands, signals, told };
}

describe('commands without a client', { timeout: 900_000 }, () => {
  test('are followed up to a number of each user; one more is ended at once, and others keep theirs', async (t) => {
    const { commands, told } = toldCommands();
    const compute = await openCompute(t, { commands });
    const bob = someone('bob');
    const [annsBox, bobsBox] = [await compute.running(ann), await compute.running(bob)];
    const leave = async (caller: Caller, containerId: string, n: number) => {
      const session = `${SESSION}-${n}`;
      const socket = await compute.exec(caller, containerId, { command: ['cat'], session });
      await said(socket, 'session');
      socket.leave(LOST);
      return keptName({ caller, containerId, session });
    };
    for (let n = 1; n <= 64; n++) await leave(ann, annsBox, n);
    await until(() => compute.tokens.watched === 64);
    const last = await leave(ann, annsBox, 65);
    await until(() => told.includes(`cancel ${last}`), { what: 'it is ended' });
    await leave(bob, bobsBox, 1);
    await until(() => compute.tokens.watched === 65, { what: 'of another user' });
    assert.equal(told.filter((each) => each.startsWith('cancel')).length, 1);
    const again = await compute.exec(ann, annsBox, { session: `${SESSION}-1`, since: '0' });
    await until(() => compute.tokens.watched === 64);
    again.leave(LOST);
    await until(() => compute.tokens.watched === 65);
    assert.equal(told.filter((each) => each.startsWith('cancel')).length, 1);
  });

  test('are opened no longer than somebody asks', async (t) => {
    const { commands, signals } = toldCommands();
    const compute = await openCompute(t, { commands });
    const socket = await compute.exec(ann, await compute.running(ann), { command: ['cat'], session: SESSION });
    await said(socket, 'session');
    assert.equal(signals[0]?.aborted, false);
    socket.leave(1000);
    await until(() => signals[0]?.aborted, { what: 'nobody asks' });
  });
});

describe('commands in the audit trail', { skip, timeout: 900_000 }, () => {
  test('have one entry where they could not be kept, and were run all the same', async (t) => {
    const at = await box(t, { env: { PATH: '/none' } });
    const entries = () => readAudit(at.compute.db, { action: 'container.exec', limit: 10 });
    const joined = await at.join(0);
    joined.type('{"type":"start"}');
    await joined.end();
    assert.deepEqual(await entries(), []);
    const socket = await at.run(['/bin/date', '-u']);
    await said(socket, 'session');
    socket.type('{"type":"start"}');
    socket.type('{"type":"start"}');
    await said(socket, 'exit');
    assert.deepEqual(
      (await entries()).map(({ detail }) => detail),
      [{ program: 'date' }],
    );
    assert.equal(at.compute.engine.calls.filter((call) => call.startsWith('run ')).length, 1);
  });

  test('have who, where and the name of the program; never arguments, and no entry for who comes back', async (t) => {
    const at = await box(t);
    const socket = await at.run(['/usr/bin/printf', 'a secret']);
    await said(socket, 'exit');
    socket.leave(LOST);
    const again = await at.join(0);
    await said(again, 'exit');
    again.leave(1000);
    const [entry, ...others] = await readAudit(at.compute.db, { action: 'container.exec', limit: 10 });
    assert.deepEqual([entry?.username, entry?.target, entry?.detail], ['ann', at.id, { program: 'printf' }]);
    assert.deepEqual(others, []);
  });

  test('are no more than so many, and say how many are left out', async (t) => {
    const at = await box(t);
    for (let n = 0; n < 33; n++) {
      const socket = await at.compute.exec(ann, at.id, { command: ['true', 'it'] });
      await said(socket, 'exit');
    }
    at.compute.clock.advance(6000);
    await said(await at.compute.exec(ann, at.id, { command: ['false', 'it'] }), 'exit');
    const entries = await readAudit(at.compute.db, { action: 'container.exec', limit: 100 });
    assert.equal(entries.length, 31);
    assert.deepEqual(entries.at(-1)?.detail, { program: 'false', omitted: 3 });
  });

  test('name no program that may be something else', () => {
    const programs = [
      ['/usr/local/bin/node', 'x'],
      ['TOKEN=abc node x'],
      ['curl -H "Bearer x"', 'y'],
      ['', 'x'],
      ['a/', 'x'],
    ];
    assert.deepEqual(programs.map(programOf), ['node', 'sh', 'other', 'other', 'other']);
  });
});
