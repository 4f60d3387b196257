/** Shells that a holder keeps beside a real sshd: whatever becomes of connections, the shell stays, and nothing that it prints is lost. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { failOnLeaks } from '../support/leaks.ts';
import { gone, has, place, SIZE, shareSshd, skip, TIMES } from '../support/ssh/kept-shells.ts';
import { tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

failOnLeaks();
shareSshd();

describe('a shell that is kept', { skip, timeout: 230_000 }, () => {
  test('is a login shell on a terminal of the asked size, follows a resize, and tells its exit', async (t) => {
    const at = await place(t);
    const seen = await at.open({}, { cols: 91, rows: 33, term: 'vt220' });
    seen.type('echo "$(stty size) $TERM $0 $PWD" "<$SSH_USER_AUTH>"; tty; umask; test -t 0 && echo "$SSH_TTY"\n');
    await has(seen, /33 91 vt220 -\w+ \/root <>/);
    await has(seen, /(\/dev\/pts\/\d+)\r\n0022\r\n\1/);
    seen.shell.resize(120, 40);
    seen.type('stty size\n');
    await has(seen, '40 120');
    // What it leaves in the background goes on, and is not waited for.
    seen.type('sleep 1000 & echo "left"=$!; trap : INT; seq 1 3000; exit 7\n');
    assert.deepEqual(await seen.shell.ended, { code: 7, signal: null });
    process.kill(Number(/left=(\d+)/.exec(seen.text())?.[1]), 'SIGKILL');
    assert.match(seen.text(), /2999\r\n3000\r\n/);
    await gone(at);
    await until(() => seen.socket.destroyed);
  });

  test('tells the signal that ended it', async (t) => {
    const at = await place(t);
    const seen = await at.open();
    seen.type('kill -KILL $$\n');
    assert.deepEqual(await seen.shell.ended, { code: null, signal: 'SIGKILL' });
    await gone(at);
  });

  test('is the same after a lost connection, and after one that was left, and shows what was printed', async (t) => {
    const at = await place(t);
    const first = await at.open();
    first.type('marker=kept; echo begin""ning; sleep 0.3; echo mean""while\n');
    await has(first, 'beginning');
    first.socket.destroy();
    const second = await at.open();
    await has(second, /beginning[\s\S]*meanwhile/);
    second.type('echo "<$marker>"\n');
    await has(second, '<kept>');
    second.kept.leave();
    await until(() => second.socket.destroyed);
    const third = await at.open();
    await has(third, '<kept>');
    assert.deepEqual(await at.holders(), ['shell1']);
  });

  test('asks a terminal once: what is shown again has no questions, and what is new has', async (t) => {
    const at = await place(t);
    const folder = await tempDir(t);
    const first = await at.open();
    first.type("printf 'on''e\\033[6n'; seq 1 9000; printf 'tw''o\\033[6n'\n");
    await has(first, 'one\u001b[6n');
    await has(first, 'two\u001b[6n');
    first.kept.leave();
    const second = await at.open();
    await has(second, 'two');
    assert.ok(!second.text().includes('\u001b[6n'));
    // Past what may be unconfirmed, so that what was taken out counts as seen.
    second.type("yes | head -c 600000; printf 'thr''ee\\033[6n'\n");
    await has(second, 'three\u001b[6n');
    // Nobody was there to answer.
    const [go, over] = ['go', 'over'].map((name) => join(folder, name));
    second.type(`until [ -e ${go} ]; do sleep 0.05; done; printf 'fo''ur\\033[6n'; touch ${over}\n`);
    second.kept.leave();
    await until(() => second.socket.destroyed);
    writeFileSync(go ?? '', '');
    await until(() => existsSync(over ?? ''));
    const third = await at.open();
    await has(third, 'four\u001b[6n');
    assert.ok(!third.text().includes('three\u001b[6n'));
  });

  test('goes to the latest connection; the one before is told that it was taken', async (t) => {
    const at = await place(t);
    const first = await at.open();
    first.type('echo on""e\n');
    await has(first, 'one');
    const second = await at.open();
    await first.shell.ended;
    assert.equal(first.kept.isTaken, true);
    second.type('echo tw""o\n');
    await has(second, /one[\s\S]*two/);
    assert.ok(!first.text().includes('two'));
    assert.equal(second.kept.isTaken, false);
  });

  test('of two that are opened at once is one', async (t) => {
    const at = await place(t);
    const [one, two] = await Promise.all([at.open(), at.open()]);
    await until(() => one.kept.isTaken || two.kept.isTaken);
    const winner = one.kept.isTaken ? two : one;
    winner.type('echo he""re\n');
    await has(winner, 'here');
    assert.equal((await at.holders()).length, 1);
  });

  test('is another under another name', async (t) => {
    const at = await place(t);
    const [one, two] = [await at.open(), await at.open({ name: 'shell2' })];
    one.type('marker=mine; echo se""t\n');
    await has(one, 'set');
    two.type('echo "<$marker>"\n');
    await has(two, '<>');
    assert.deepEqual((await at.holders()).sort(), ['shell1', 'shell2']);
  });

  test('loses and repeats nothing of a flood over connections that break, are left and are taken over', async (t) => {
    const at = await place(t);
    const total = 400_000;
    let seen = await at.open();
    seen.type(`stty -echo -onlcr; PS1=; printf 'GO'; seq 1 ${total}; echo END\n`);
    let next = 0;
    for (let turn = 0; ; turn++) {
      await has(seen, turn === 0 ? 'GO' : /\n/);
      const from = seen.text().length;
      await until(() => seen.text().length > from + 100_000 || seen.text().includes('END\n'));
      if (turn % 3 === 0) seen.socket.destroy();
      else if (turn % 3 === 1) seen.kept.leave();
      const again = turn % 3 === 2 ? await at.open() : undefined;
      await seen.shell.ended;
      next = followed(seen.text(), next);
      if (seen.text().includes('END\n')) break;
      seen = again ?? (await at.open());
    }
    assert.equal(next, total);
  });

  test('shows at most the last 64 KiB again, from a whole character on', async (t) => {
    const at = await place(t);
    const first = await at.open();
    first.type(`stty -echo -onlcr; PS1=; printf '\\342\\202\\254%.0s' $(seq 1 60000); printf 'do''ne'\n`);
    await has(first, 'done');
    first.kept.leave();
    const second = await at.open();
    await has(second, 'done');
    const text = Buffer.from(second.text(), 'latin1').toString('utf8');
    assert.match(text, /^€+done/);
    assert.ok(
      second.text().length > 65_536 - 4 && second.text().indexOf('done') <= 65_536,
      `${second.text().length} bytes`,
    );
  });

  test('pauses when 32 KiB were printed and nobody looks, and goes on when somebody does', async (t) => {
    const at = await place(t);
    const file = join(at.folder, '..', 'printed');
    const begin = `stty -echo -onlcr; PS1=; printf rea""dy; read _; seq 1 100000; touch ${file}; echo EN""D\n`;
    const first = await at.open();
    first.type(begin);
    await has(first, 'ready');
    // It begins to print when nobody looks any more: all of it would fit into a moment before that.
    first.kept.wait();
    first.type('\n');
    const length = first.text().length;
    const other = await at.open({ name: 'shell2' });
    other.type('echo on""e\n');
    await has(other, 'one');
    assert.equal(existsSync(file), false);
    assert.ok(first.text().length - length < 300_000, 'nothing comes for who does not look');
    first.kept.look(TIMES);
    await has(first, 'END\n');
    assert.equal(existsSync(file), true);
    const second = await at.open();
    await has(second, 'END\n');
    assert.match(second.text(), /\n99999\n100000\nEND\n/);
  });

  test('pauses for a client that does not say what was seen, in bounded memory, and nothing of it is lost', async (t) => {
    const at = await place(t);
    const file = join(at.folder, '..', 'printed');
    const first = await at.open({}, SIZE, false);
    first.type(`stty -echo -onlcr; PS1=; printf GO; seq 1 200000; touch ${file}; echo END\n`);
    await until(() => first.text().length > 200_000);
    const second = await at.open({ name: 'shell2' });
    second.type('echo on""e\n');
    await has(second, 'one');
    assert.ok(first.text().length <= 300_000, `${first.text().length} bytes came`);
    assert.equal(existsSync(file), false);
    const third = await at.open();
    await has(third, 'END\n');
    assert.match(third.text(), /GO/);
    assert.equal(followed(third.text(), 0), 200_000);
  });

  test('takes a large piece of input when it reads, and is resized and hung up when it does not', async (t) => {
    const at = await place(t);
    const seen = await at.open();
    seen.type('stty raw -echo; printf "rea""dy"; sleep 1; head -c 1048576 | wc -c; stty sane; cat\n');
    await has(seen, 'ready');
    const block = Buffer.alloc(65_536, 'x');
    let refused = 0;
    for (let sent = 0; sent < 1_048_576; sent += block.length) {
      if (seen.shell.stream.write(block)) continue;
      refused++;
      await new Promise((resolve) => seen.shell.stream.once('drain', resolve));
    }
    await has(seen, '1048576');
    assert.ok(refused > 0);
    const stuck = await at.open({ name: 'stuck' });
    stuck.type('stty raw -echo; printf "rea""dy"; exec sleep 1000\n');
    await has(stuck, 'ready');
    for (let i = 0; i < 8; i++) stuck.shell.stream.write(block);
    stuck.shell.close();
    await until(async () => !(await at.holders()).includes('stuck'), { what: 'the stuck shell is gone' });
  });

  test('is hung up when it is closed: what runs in it ends', async (t) => {
    const at = await place(t);
    const seen = await at.open();
    seen.type('echo pid=$$; exec sleep 4321\n');
    await has(seen, /pid=(\d+)/);
    const pid = /pid=(\d+)/.exec(seen.text())?.[1] ?? '';
    await until(() => existsSync(`/proc/${pid}`) && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('sleep'));
    seen.shell.close();
    assert.deepEqual(await seen.shell.ended, { code: null, signal: null });
    await until(() => !existsSync(`/proc/${pid}`), { what: 'the process has ended' });
    await gone(at);
    await until(() => seen.socket.destroyed);
    const again = await at.open();
    again.type('echo fre""sh\n');
    await has(again, 'fresh');
    assert.ok(!again.text().includes('pid='));
  });

  for (const how of ['lost', 'left', 'waiting'] as const) {
    test(`ends when nobody looks for its time, its connection ${how}`, async (t) => {
      const at = await place(t);
      const seen = await at.open({ lingerMs: 300 });
      seen.type('echo he""re\n');
      await has(seen, 'here');
      if (how === 'lost') seen.socket.destroy();
      else if (how === 'left') seen.kept.leave();
      else seen.kept.wait();
      await gone(at);
      await until(() => seen.socket.destroyed);
    });
  }

  test('ends when its life is over, although somebody looks', async (t) => {
    const at = await place(t);
    const seen = await at.open({ lifeMs: 500 });
    await gone(at);
    await seen.shell.ended;
    assert.equal(seen.kept.isTaken, false);
  });

  test('lives on for who comes with a longer life', async (t) => {
    const at = await place(t);
    const first = await at.open({ lifeMs: 60_000 });
    first.kept.look({ lingerMs: 30_000, lifeMs: 400 });
    first.kept.look(TIMES);
    first.type('sleep 0.8; echo al""ive\n');
    await has(first, 'alive');
  });

  test('shows what was printed last again to who looks anew, and nothing of before in between', async (t) => {
    const at = await place(t);
    const seen = await at.open();
    seen.type('stty -echo -onlcr; PS1=; printf rea""dy; read _; seq 1 20000; echo END\n');
    await has(seen, 'ready');
    seen.shell.stream.pause();
    seen.type('\n');
    await until(() => seen.shell.stream.readableLength > 0);
    const before = seen.text().length;
    let isBetween = true;
    let between = 0;
    seen.shell.stream.on('data', (chunk: Buffer) => {
      if (isBetween) between += chunk.length;
    });
    seen.kept.look(TIMES);
    isBetween = false;
    assert.ok(between > 0);
    seen.shell.stream.resume();
    const again = () => seen.text().slice(before + between);
    await until(() => again().includes('END\n'));
    assert.match(again(), /ready1\n2\n[\s\S]*\n20000\nEND\n/);
  });
});

/** The last number of `text`, which counts on from `last`: its first complete line may say again what was seen. */
function followed(text: string, last: number): number {
  const lines = text
    .replace(/^[\s\S]*GO/, '\n')
    .split('\n')
    .slice(1, -1)
    .filter((line) => line !== 'END');
  let next = Number(lines[0]);
  if (!Number.isInteger(next)) return last;
  assert.ok(next <= last + 1, `${next} follows ${last}: something was lost`);
  for (const line of lines) assert.equal(Number(line), next++);
  return Math.max(last, next - 1);
}
