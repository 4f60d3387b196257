/** The parts of commands by SSH: what they may reach, the words of a line, the terminal, the menu. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { PassThrough, Writable } from 'node:stream';
import { describe, test } from 'node:test';
import type { Container } from '../../client/index.ts';
import { MenuKeys } from '../../cmd/client/account/menu-keys.ts';
import { drawMenu } from '../../cmd/client/account/menu-screen.ts';
import { runAccountCommand } from '../../cmd/client/account/run.ts';
import { AccountOutput, TerminalInput } from '../../cmd/client/account/terminal.ts';
import { wordsOf } from '../../cmd/client/account/words.ts';
import { Output } from '../../cmd/client/output.ts';
import type { CommandPlace } from '../../cmd/client/place.ts';
import { PlatformAccounts } from '../../cmd/node/accounts.ts';
import { movableClock } from '../support/clock.ts';
import { silentLog } from '../support/log.ts';
import { projectRoot } from '../support/project.ts';
import { until } from '../support/until.ts';

test('nothing that a command by SSH can load reads files, starts programs, or uses the process', () => {
  const waiting = readdirSync(join(projectRoot, 'cmd/client/account')).map((name) => join('cmd/client/account', name));
  const seen = new Set<string>();
  for (let file = waiting.pop(); file !== undefined; file = waiting.pop()) {
    if (seen.has(file) || !/^cmd\/(account|client)\//.test(file)) continue;
    seen.add(file);
    const source = readFileSync(join(projectRoot, file), 'utf8');
    const code = source.replaceAll(/^import type [^;]*;$/gm, '').replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, '');
    assert.doesNotMatch(code, /'(node:)?(fs|fs\/promises|child_process|os|net|worker_threads|vm)'/, file);
    assert.doesNotMatch(code, /\bprocess\.|\beval\(|new Function\b/, file);
    for (const [, specifier = ''] of code.matchAll(/(?:from|import\() ?'(\.[^']+)'/g))
      waiting.push(relative(projectRoot, join(projectRoot, dirname(file), specifier)));
  }
  assert.ok(seen.has('cmd/client/containers.ts') && seen.has('cmd/client/shell.ts'), [...seen].join(' '));
});

test('a line is split as a shell does, without anything else that a shell does', () => {
  for (const [text, words] of [
    ['', []],
    ['  ps   -q ', ['ps', '-q']],
    [`exec a -- sh -c 'echo "$HOME"; ls *'`, ['exec', 'a', '--', 'sh', '-c', 'echo "$HOME"; ls *']],
    [`a "b \\"c\\" \\d" e\\ f ''`, ['a', 'b "c" \\d', 'e f', '']],
    ['$(id) `id` | cat', ['$(id)', '`id`', '|', 'cat']],
  ] as const)
    assert.deepEqual(wordsOf(text), words, text);
  for (const text of ["'open", '"open', 'end\\', 'x'.repeat(32_769)]) assert.equal(wordsOf(text), undefined);
});

/** A session by SSH, and what it was told: on its terminal if it has one, else on standard error. */
function channelOf({ asked = 'ann', command = '', userId = 'a00000000000', isAtTerminal = false } = {}) {
  let said = '';
  const sink = (take: (text: string) => void) =>
    new Writable({
      write: (chunk, _encoding, done) => {
        take(String(chunk));
        done();
      },
    });
  const add = (text: string) => {
    said += text;
  };
  const account = { userId, username: 'ann', sessionsEpoch: 0, fingerprint: 'F', keyName: 'x', asked };
  const size = { name: 'xterm', cols: 80, rows: 24 };
  const input = new PassThrough();
  const channel = {
    ...{ account, address: '192.0.2.1', command, terminal: () => (isAtTerminal ? size : undefined), isPlain: true },
    ...{ input, output: sink(isAtTerminal ? add : () => {}), errors: sink(add) },
    ...{ onEvent: () => {}, gone: new AbortController().signal },
  };
  return { channel, input, said: () => said };
}

/** What a command without a terminal writes to standard error, for a login of ann by this name. */
async function saidTo(asked: string): Promise<string> {
  const { channel, said } = channelOf({ asked, command: 'version' });
  const unused = () => assert.fail('nothing is asked of the platform');
  const transport = { socketHeaders: true, send: unused, connect: unused };
  const onFault = (error: unknown) => assert.fail(String(error));
  const { code, ended } = runAccountCommand(channel, { domain: 'x.test', token: '', transport, onFault });
  assert.equal(await code, 0);
  await ended;
  return said();
}

test('a command says whose account it is in where another name was given, and else nothing', async () => {
  assert.equal(await saidTo('anything'), 'account ann\n');
  assert.equal(await saidTo('ann'), '');
});

test('the menu is left after an hour without a key, and each key begins a new hour', async () => {
  const { channel, input, said } = channelOf({ isAtTerminal: true });
  const timers: { readonly ms: number; readonly work: () => void; isStopped: boolean }[] = [];
  const after = (ms: number, work: () => void) => {
    const timer = { ms, work, isStopped: false };
    timers.push(timer);
    return () => {
      timer.isStopped = true;
    };
  };
  const connect = () => ({ send() {}, close() {}, waitingBytes: 0 });
  const transport = { socketHeaders: true, send: () => assert.fail('nothing is asked'), connect };
  const onFault = (error: unknown) => assert.fail(String(error));
  const { code, ended } = runAccountCommand(channel, { domain: 'x.test', token: '', transport, onFault, after });
  await until(() => timers.length === 1, { what: 'the menu waits for a key' });
  input.write('j');
  await until(() => timers.length === 2, { what: 'the key was taken' });
  assert.deepEqual(
    timers.map(({ ms, isStopped }) => [ms, isStopped]),
    [
      [3_600_000, true],
      [3_600_000, false],
    ],
  );
  timers[1]?.work();
  assert.equal(await code, 0);
  await ended;
  // The screen of before is back.
  assert.ok(said().endsWith('\x1b[?1049l'), JSON.stringify(said().slice(-20)));
});

describe('commands by SSH that run at a time', () => {
  const TOO_MANY = 'troupe: Too many commands run by SSH: end one, or try again later.\n';
  const jwtSecret = 'the shared secret of this test, over 32 bytes';

  /** A command that reads until its input ends, and then is refused: no key has its form. */
  function begin(accounts: PlatformAccounts, userId: string) {
    const { channel, input, said } = channelOf({ userId, command: 'key add -' });
    return { code: accounts.run(channel), input, said };
  }
  const open = () => new PlatformAccounts({ domain: 'x.test', jwtSecret, clock: movableClock(), log: silentLog });

  test('are twenty of a user: one more is refused, until another has ended', async () => {
    const accounts = open();
    const running = Array.from({ length: 20 }, () => begin(accounts, 'a00000000000'));
    const refused = begin(accounts, 'a00000000000');
    assert.deepEqual([await refused.code, refused.said()], [7, TOO_MANY]);
    const other = begin(accounts, 'b00000000000');
    running[0]?.input.end();
    assert.notEqual(await running[0]?.code, 7);
    const next = begin(accounts, 'a00000000000');
    for (const { input } of [...running, other, next]) input.end();
    for (const { code, said } of [...running, other, next]) assert.notEqual(await code, 7, said());
  });

  test('are five hundred in all', async () => {
    const accounts = open();
    const running = Array.from({ length: 500 }, (_, at) => begin(accounts, `u${Math.floor(at / 20)}`));
    const refused = begin(accounts, 'another');
    assert.deepEqual([await refused.code, refused.said()], [7, TOO_MANY]);
    for (const { input } of running) input.end();
    for (const { code, said } of running) assert.notEqual(await code, 7, said());
    const next = begin(accounts, 'another');
    next.input.end();
    assert.notEqual(await next.code, 7);
  });
});

function terminal() {
  const source = new PassThrough();
  let echoed = '';
  let interrupts = 0;
  const input = new TerminalInput(source, {
    echo: (bytes) => (echoed += Buffer.from(bytes).toString('utf8')),
    interrupt: () => interrupts++,
  });
  const type = async (text: string) => {
    source.write(text);
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { input, type, source, echoed: () => echoed, interrupts: () => interrupts };
}

describe('a terminal by SSH', () => {
  test('a line can be corrected before it is read', async () => {
    const { input, type, echoed } = terminal();
    const line = input.readLine();
    await type('nö\x7f\x7fwrong\x15right\r');
    assert.equal(await line, 'right');
    assert.match(echoed(), /right\r\n$/);
    assert.ok(echoed().startsWith('nö\b \b\b \bwrong'));
  });

  test('Ctrl-C ends a question, or interrupts; Ctrl-D and the end of the input end a question', async () => {
    const { input, type, source, interrupts } = terminal();
    const first = input.readLine();
    await type('half\x03');
    assert.equal(await first, undefined);
    assert.equal(interrupts(), 0);
    await type('\x03');
    assert.equal(interrupts(), 1);
    const second = input.readLine();
    await type('\x04');
    assert.equal(await second, undefined);
    const third = input.readLine();
    source.end();
    assert.equal(await third, undefined);
    assert.equal(await input.readLine(), undefined);
  });

  test('raw input comes as it is, also after a question in the same piece', async () => {
    const { input, type, interrupts } = terminal();
    const chunks: string[] = [];
    input.on('data', (chunk: Buffer) => chunks.push(chunk.toString('latin1')));
    input.setRawMode(true);
    await type('\x03a\r');
    assert.deepEqual([chunks.join(''), interrupts()], ['\x03a\r', 0]);
  });

  test('what nobody reads does not pile up', async () => {
    const { input, type } = terminal();
    input.pause();
    for (let line = 0; line < 200; line++) await type(`${'x'.repeat(4000)}\r`);
    assert.ok(input.readableLength < 80_000, `${input.readableLength}`);
    const line = input.readLine();
    await type(`${'y'.repeat(100_000)}\r`);
    assert.equal((await line)?.length, 4095);
  });

  test('lines end with a return, once', async () => {
    let written = '';
    const target = new Writable({
      write(chunk, _encoding, done) {
        written += chunk;
        done();
      },
    });
    const output = new AccountOutput(target, () => ({ cols: 10, rows: 5 }));
    for (const text of ['a\nb\r\nc\r', '\nd\n\n', 'e']) output.write(text);
    await new Promise((resolve) => output.end(resolve));
    assert.equal(written, 'a\r\nb\r\nc\r\nd\r\n\r\ne');
    assert.deepEqual([output.columns, output.rows, output.isTTY], [10, 5, true]);
  });
});

describe('the menu', () => {
  test('finds keys in whatever pieces they come', () => {
    const keys = new MenuKeys();
    const take = (text: string) => keys.take(Buffer.from(text, 'latin1'));
    assert.deepEqual(take('\x1b[Aj3'), ['up', 'down', 3]);
    assert.deepEqual(take('\x1b'), []);
    assert.deepEqual(take('[B'), ['down']);
    assert.deepEqual(take('\x1b[1;5C\x1bOAq'), ['up', 'quit']);
    assert.equal(take('s'.repeat(100)).length, 16);
  });

  test('fits its window, whatever names and reasons hold', () => {
    const place: Pick<CommandPlace, 'stdout' | 'environment'> = {
      stdout: Object.assign(new PassThrough(), { isTTY: true }),
      environment: { TERM: 'xterm' },
    };
    const out = new Output({ place: Object.assign(Object.create(null), place) });
    const container = (name: string, status: Container['status']): Container =>
      Object.assign(Object.create(null), {
        ...{ id: name, name, status, instance_type: 'nano', memory_used_mb: 1, memory_mb: 512 },
        ...{ created_at: new Date().toISOString(), status_reason: 'the image\n\x1b[2Jis missing '.repeat(20) },
      });
    const containers = [container('web', 'running'), container('\x1b[31mred\x07'.repeat(9), 'failed')];
    for (const [columns, rows] of [
      [80, 24],
      [30, 8],
      [200, 60],
    ] as const) {
      const view = { containers, chosen: containers[1]?.id ?? '', message: '', who: 'ann@x', columns, rows };
      const lines = drawMenu(out, view).split('\r\n');
      assert.ok(lines.length <= rows);
      for (const line of lines) {
        const shown = line.replaceAll(/\p{Cc}\[[0-9;]*[A-Za-z]/gu, '');
        assert.ok(shown.length < columns, `${columns}: ${shown.length} ${shown}`);
        assert.doesNotMatch(shown, /\p{Cc}/u);
      }
      assert.equal(drawMenu(out, view).split('\x1b[2J').length, 1);
    }
  });
});
