/** Commands that a holder keeps, with the perl of this machine: whatever becomes of connections, nothing is lost. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { holderFrame } from '../../lib/holder-script.ts';
import { EngineError } from '../../proto/ports/engine.ts';
import {
  KeptCommandError,
  type KeptCommandErrorCode,
  type KeptCommandRequest,
} from '../../proto/ports/kept-command.ts';
import { HolderFrames } from '../../transports/engines/common/command-holder-frames.ts';
import { keptCommands } from '../../transports/engines/common/kept-commands.ts';
import { type SeenCommand, seeCommand } from '../support/exec/kept-command.ts';
import { localCommands } from '../support/exec/local-commands.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { findProgram, skipUnless } from '../support/require.ts';
import { tempDir } from '../support/temp.ts';
import { standsStill, until } from '../support/until.ts';

failOnLeaks();

const skip = skipUnless(findProgram('perl') !== undefined, 'perl');
const RING = 1024 * 1024;
const NEVER = new AbortController().signal;

const script = (text: string, terminal?: { cols: number; rows: number }) => ({
  start: { words: ['/bin/sh', '-c', text], terminal },
});

/** A folder for holders, all of which are ended with the test. */
async function place(t: TestContext, env?: NodeJS.ProcessEnv) {
  // Before the folder goes, and its sockets with it.
  const ends: (() => Promise<void>)[] = [];
  t.after(async () => {
    for (const end of ends) await end();
  });
  const folder = join(await tempDir(t), 'holders');
  const local = localCommands(env);
  const commands = keptCommands(local, folder);
  const isFolder = () => existsSync(folder) && statSync(folder).isDirectory();
  const holders = () => (isFolder() ? readdirSync(folder).filter((name) => name !== 'lock') : []);
  ends.push(async () => {
    for (const name of holders()) {
      const last = { name, since: 0, lingerMs: 0, lifeMs: 0 };
      const left = await commands.open('c1', last, NEVER).catch(() => undefined);
      left?.cancel();
    }
    await until(() => holders().length === 0 && local.bridges.size === 0, { what: 'nothing is left' });
  });
  const see = (request: Partial<KeptCommandRequest>, acknowledges?: boolean): Promise<SeenCommand> =>
    seeCommand(commands, request, acknowledges);
  return { folder, local, commands, holders, see };
}

const isKeptError = (code: KeptCommandErrorCode, words: RegExp) => (error: unknown) => {
  assert.ok(error instanceof KeptCommandError, String(error));
  assert.equal(error.code, code);
  assert.match(error.message, words);
  return true;
};

describe('a command that is kept', { skip, timeout: 900_000 }, () => {
  test('tells its streams apart, and its exit code after all of its output', async (t) => {
    const at = await place(t);
    const seen = await at.see(script('echo out; echo err >&2; exit 3'));
    assert.equal(await seen.exit(), 3);
    assert.deepEqual([seen.of(1), seen.of(2)], ['out\n', 'err\n']);
    const words = await at.see({
      name: 'two',
      start: { words: ['printf', '<%s>', 'a b', '$HOME', '', 'ä'], terminal: undefined },
    });
    assert.equal(await words.exit(), 0);
    assert.equal(Buffer.from(words.all(), 'latin1').toString(), '<a b><$HOME><><ä>');
    assert.equal(await (await at.see({ name: 'three', ...script('kill -KILL $$') })).exit(), 137);
    assert.equal(
      await (await at.see({ name: 'four', start: { words: ['/none/such'], terminal: undefined } })).exit(),
      127,
    );
  });

  test('goes on while nobody is there, and its output goes on where the client was: none missing, none twice', async (t) => {
    const at = await place(t);
    const lines = 20_000;
    const some = '[ $((i % 500)) = 0 ] && sleep 0.02';
    const count = `i=0; while [ $i -lt ${lines} ]; do i=$((i+1)); echo "n $i"; ${some}; done; exit 7`;
    let seen = await at.see(script(count));
    let text = '';
    let cuts = 0;
    while (cuts < 8) {
      const before = text.length;
      const current = seen;
      await until(() => current.cursor() > before + 2000, { everyMs: 1 });
      at.local.cut();
      assert.equal(await seen.over(), 'lost');
      text += seen.all();
      cuts++;
      seen = await at.see({ since: text.length });
      assert.equal(seen.command.cursor, text.length);
    }
    assert.equal(await seen.exit(), 7);
    text += seen.all();
    assert.equal(text, Array.from({ length: lines }, (_, n) => `n ${n + 1}\n`).join(''));
  });

  test('is begun once, however often it is asked for', async (t) => {
    const at = await place(t);
    const file = join(at.folder, '..', 'runs');
    const request = script(`echo run >> ${file}; echo out; cat`);
    const asked = await Promise.all([at.see(request), at.see(request), at.see(request)]);
    await until(() => asked.some((seen) => seen.all() === 'out\n'));
    const again = await at.see(request);
    await until(() => again.all() === 'out\n');
    assert.equal(await readFile(file, 'utf8'), 'run\n');
    for (const seen of asked) assert.equal(await seen.over(), 'taken');
  });

  test('keeps its result until it is forgotten; then, and for a name nobody began, there is none', async (t) => {
    const at = await place(t);
    const first = await at.see(script('echo done; exit 5'));
    assert.equal(await first.exit(), 5);
    first.command.leave();
    const second = await at.see({});
    assert.equal(await second.exit(), 5);
    assert.equal(second.all(), 'done\n');
    second.command.cancel();
    await until(() => at.holders().length === 0);
    await assert.rejects(at.see({}), isKeptError('gone', /no such command/));
  });

  test('waits with a mebibyte that nobody has, and loses nothing of it', async (t) => {
    const at = await place(t);
    const progress = join(at.folder, '..', 'progress');
    const print = `i=0; while [ $i -lt 60 ]; do i=$((i+1)); head -c 65536 /dev/zero; echo $i > ${progress}; done`;
    const seen = await at.see(script(print), false);
    await until(() => seen.cursor() >= RING);
    await standsStill(() => seen.cursor(), 300);
    assert.equal(seen.cursor(), RING);
    assert.ok(Number(await readFile(progress, 'utf8')) <= RING / 65_536 + 2);
    seen.command.leave();
    const rest = await at.see({ since: RING });
    assert.equal(await rest.exit(), 0);
    assert.equal(rest.cursor(), 60 * 65_536);
  });

  test('says where its output begins when that is not kept any more', async (t) => {
    const at = await place(t);
    const seen = await at.see(script('head -c 6000000 /dev/zero; echo end'));
    assert.equal(await seen.exit(), 0);
    seen.command.leave();
    const late = await at.see({ since: 0 });
    const { cursor } = late.command;
    assert.ok(cursor > 6_000_004 - 3 * RING && cursor <= 6_000_004 - RING, `begins at ${cursor}`);
    assert.equal(await late.exit(), 0);
    assert.equal(late.all().length, 6_000_004 - cursor);
    assert.equal((await at.see({ since: 9_000_000 })).command.cursor, 6_000_004);
  });

  test('gets its input once, in order, over lost connections, and its end', async (t) => {
    const at = await place(t);
    const sent = Buffer.alloc(
      400_000,
      Uint8Array.from({ length: 251 }, (_, n) => n),
    );
    let seen = await at.see(script('cat'));
    let text = Buffer.alloc(0);
    let from = 0;
    for (let cuts = 0; cuts < 4; cuts++) {
      seen.command.write(sent.subarray(from, from + 100_000));
      const [current, least] = [seen, from + 20_000];
      await until(() => current.written() > least, { everyMs: 1 });
      at.local.cut();
      await seen.over();
      text = Buffer.concat([text, Buffer.from(seen.all(), 'latin1')]);
      seen = await at.see({ since: text.length });
      from = seen.command.input.received;
    }
    seen.command.write(sent.subarray(from));
    seen.command.endInput();
    assert.equal(await seen.exit(), 0);
    text = Buffer.concat([text, Buffer.from(seen.all(), 'latin1')]);
    assert.ok(text.equals(sent), `${text.length} of ${sent.length} bytes`);
    assert.equal(seen.written(), sent.length);
  });

  test('takes no more input once it has closed it, and says so', async (t) => {
    const at = await place(t);
    const seen = await at.see(script('exec <&-; sleep 0.1; echo closed; sleep 1000'));
    await until(() => seen.all() === 'closed\n');
    seen.command.write(Buffer.alloc(50_000));
    await until(() => seen.written() === 50_000);
  });

  test('on a terminal has its size and follows it', async (t) => {
    const at = await place(t);
    const wait = 'until [ "$(stty size)" = "50 120" ]; do sleep 0.05; done';
    const seen = await at.see(
      script(`stty size; ${wait}; stty size; read x; echo "<$x>"; test -t 0 || exit 9; exit 4`, {
        cols: 100,
        rows: 40,
      }),
    );
    await until(() => seen.all().startsWith('40 100\r\n'));
    seen.command.resize(120, 50);
    await until(() => seen.all().includes('50 120\r\n'));
    at.local.cut();
    await seen.over();
    const again = await at.see({ since: seen.cursor() });
    again.command.write(Buffer.from('typed\n'));
    assert.equal(await again.exit(), 4);
    assert.match(again.all(), /<typed>\r\n$/);
  });

  test('ends at once when it is cancelled, with all in its group', async (t) => {
    const at = await place(t);
    const file = join(at.folder, '..', 'hung-up');
    const seen = await at.see(script(`trap 'echo > ${file}; exit' HUP; echo ready; while :; do sleep 0.05; done`));
    await until(() => seen.all() === 'ready\n');
    seen.command.cancel();
    await until(() => existsSync(file) && at.holders().length === 0 && at.local.bridges.size === 0);
  });

  test('ends when nobody came for as long as it waits, and when its time is over', async (t) => {
    const at = await place(t);
    const left = await at.see({ lingerMs: 300, ...script('sleep 1000') });
    left.command.leave();
    await until(() => at.holders().length === 0, { what: 'nobody came' });
    const limited = await at.see({ lifeMs: 300, ...script('sleep 1000') });
    assert.equal(await limited.over(), 'lost');
    await until(() => at.holders().length === 0, { what: 'its time is over' });
    const done = await at.see({ lingerMs: 300, ...script('true') });
    await done.exit();
    done.command.leave();
    await until(() => at.holders().length === 0, { what: 'nobody came for its result' });
  });

  test('does not wait for what it left behind, and reads what that printed until then', async (t) => {
    const at = await place(t);
    const seen = await at.see(script('(echo left; exec sleep 1000) & echo "process $!"; sleep 0.2; echo mine; exit 2'));
    assert.equal(await seen.exit(), 2);
    process.kill(Number(/process (\d+)\n/.exec(seen.all())?.[1]), 'SIGTERM');
    assert.match(seen.all(), /left\n/);
    assert.match(seen.all(), /mine\n/);
    const flood = await at.see({ name: 'two', ...script('yes & sleep 0.1; exit 6') });
    assert.equal(await flood.exit(), 6);
  });

  test('is one of sixteen: results that nobody came for make place, and then no more are begun', async (t) => {
    const at = await place(t);
    for (let n = 0; n < 15; n++) (await at.see({ name: `n${n}`, ...script('cat') })).command.leave();
    const done = await at.see({ name: 'done', ...script('true') });
    await done.exit();
    done.command.leave();
    await until(() => at.local.bridges.size === 0);
    const next = await at.see({ name: 'next', ...script('cat') });
    assert.deepEqual(at.holders().includes('done'), false);
    await assert.rejects(at.see({ name: 'last', ...script('cat') }), isKeptError('unable', /as many commands/));
    next.command.cancel();
    await until(() => at.holders().length === 15);
  });

  test('cannot be kept without perl, nor where the folder is not ours alone', async (t) => {
    const without = await place(t, { PATH: '/none' });
    await assert.rejects(without.see(script('true')), isKeptError('unable', /it has no perl/));
    const at = await place(t);
    await writeFile(at.folder, 'a file');
    await assert.rejects(at.see(script('true')), isKeptError('unable', /no folder/));
  });

  test('is not taken for one by what something else in the container says', async (t) => {
    const at = await place(t);
    const speaks = (text: string) => {
      const run: typeof at.local.run = (id, _words, signal) => at.local.run(id, ['/bin/sh', '-c', text], signal);
      return seeCommand(keptCommands({ run }, at.folder), { start: { words: ['true'], terminal: undefined } });
    };
    const held = 'printf "troupe-command held\\n"';
    await assert.rejects(speaks('printf "welcome\\n"; cat >/dev/null'), isKeptError('unable', /something else/));
    await assert.rejects(speaks('head -c 5000 /dev/zero; cat >/dev/null'), isKeptError('unable', /something else/));
    await assert.rejects(speaks('true'), isKeptError('unable', /ended at once/));
    const begin = 'printf "B\\0\\0\\0\\0050 0 0"';
    await assert.rejects(
      speaks(`${held}; printf "B\\0\\0\\0\\003a b"; cat >/dev/null`),
      isKeptError('unable', /numbers/),
    );
    await assert.rejects(speaks(`${held}; printf "O\\377\\0\\0\\0"; cat >/dev/null`), isKeptError('unable', /bytes/));
    const huge = await speaks(`${held}; ${begin}; printf "O\\377\\0\\0\\0"; cat >/dev/null`);
    assert.equal(await huge.over(), 'lost');
    const twice = await speaks(
      `${held}; ${begin}; for code in 3 4; do printf "X\\0\\0\\0\\001$code"; done; printf "O\\0\\0\\0\\004\\001end"; cat >/dev/null`,
    );
    await until(() => twice.all() === 'end');
    assert.deepEqual([await twice.exit(), twice.exits()], [3, 1]);
    twice.command.leave();
    const deaf = await speaks(`${held}; ${begin}; exec sleep 1000`);
    for (let sent = 0; sent < 4 * RING; sent += 65_536) deaf.command.write(Buffer.alloc(65_536));
    assert.equal(await deaf.over(), 'full');
  });

  test('has at most the newest word of its client and a bounded input wait while nobody reads', async (t) => {
    const at = await place(t);
    const seen = await at.see(script('yes'), false);
    await until(() => seen.cursor() >= RING);
    const [bridge] = at.local.bridges;
    assert.ok(bridge?.stdin);
    const { stdin } = bridge;
    bridge.kill('SIGSTOP');
    for (let cursor = 1; cursor <= 500_000; cursor++) seen.command.acknowledge(cursor);
    for (let cols = 1; cols <= 100_000; cols++) seen.command.resize(1 + (cols % 200), 50);
    assert.ok(stdin.writableLength < 1000, `${stdin.writableLength} bytes wait`);
    assert.equal(seen.isFull(), false);
    bridge.kill('SIGCONT');
    await until(() => seen.cursor() === RING + 500_000, { what: 'the newest is known' });
    bridge.kill('SIGSTOP');
    seen.command.write(Buffer.alloc(RING));
    assert.equal(seen.isFull(), true);
    bridge.kill('SIGCONT');
    await until(() => !seen.isFull(), { what: 'there is room again' });
    bridge.kill('SIGSTOP');
    for (let n = 0; n < 10_000; n++) seen.command.write(Buffer.of(1));
    assert.equal(await seen.over(), 'full');
    bridge.kill('SIGKILL');
  });

  test('ends a connection that nobody reads, also when only ends of the input are said', async (t) => {
    const at = await place(t);
    const seen = await at.see(script('cat', { cols: 80, rows: 24 }));
    for (const bridge of at.local.bridges) bridge.kill('SIGSTOP');
    for (let n = 0; n < 10_000; n++) seen.command.endInput();
    assert.equal(await seen.over(), 'full');
    at.local.cut();
  });

  test('is not begun, and not waited for, once nobody asks for it any more', async (t) => {
    const at = await place(t);
    const request = { name: 'one', since: 0, lingerMs: 0, lifeMs: 0, ...script('true') };
    const asked = new AbortController();
    const waits: typeof at.local.run = (_id, _words, signal) =>
      new Promise((_, reject) => {
        signal.addEventListener('abort', () => reject(new EngineError('unavailable', 'Given up.')), { once: true });
      });
    const waiting = keptCommands({ run: waits }, at.folder).open('c1', request, asked.signal);
    asked.abort();
    await assert.rejects(waiting, { code: 'unavailable' });
    const late: typeof at.local.run = (id, words) => at.local.run(id, words, NEVER);
    await assert.rejects(keptCommands({ run: late }, at.folder).open('c1', request, asked.signal), {
      code: 'unavailable',
    });
    const askedAgain = new AbortController();
    const silent: typeof at.local.run = (id, _words, signal) => at.local.run(id, ['sleep', '1000'], signal);
    const opening = keptCommands({ run: silent }, at.folder).open('c1', request, askedAgain.signal);
    await until(() => at.local.bridges.size === 1);
    askedAgain.abort();
    await assert.rejects(opening, isKeptError('unable', /ended at once/));
    await until(() => at.local.bridges.size === 0);
    assert.deepEqual(at.holders(), []);
  });
});

describe('frames of a holder', () => {
  test('are whole however they are cut, and are not copied for each piece', (t) => {
    const frames = new HolderFrames();
    const sent = Buffer.alloc(40_000, 'abcdefg');
    const wire = Buffer.concat([holderFrame('O', sent), holderFrame('C', '1 2')]);
    let made = 0;
    const { concat, allocUnsafe } = Buffer;
    t.mock.method(Buffer, 'concat', (...given: Parameters<typeof concat>) => {
      const bytes = concat(...given);
      made += bytes.length;
      return bytes;
    });
    t.mock.method(Buffer, 'allocUnsafe', (size: number) => {
      made += size;
      return allocUnsafe(size);
    });
    const came: [string, Buffer][] = [];
    const push = (chunk: Buffer) => {
      frames.push(chunk);
      for (let next = frames.next(); next !== undefined; next = frames.next()) came.push([next.letter, next.data]);
    };
    for (let at = 0; at < wire.length; at++) push(wire.subarray(at, at + 1));
    t.mock.restoreAll();
    push(Buffer.concat([wire, wire.subarray(0, 7)]));
    push(wire.subarray(7));
    const one = [
      ['O', sent],
      ['C', Buffer.from('1 2')],
    ];
    assert.deepEqual(came, [...one, ...one, ...one]);
    assert.ok(made < 10 * wire.length, `${made} bytes for ${wire.length}`);
  });
});
