import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { RunningCommand, Shell } from '../../../proto/ports/shell.ts';
import { rejectsWith, type Suite } from './conformance-suite.ts';
import { eventually } from './eventually.ts';

const terminal = { cols: 100, rows: 40, term: 'xterm-256color' };
const never = new AbortController().signal;

/** Collects what a shell prints, as it comes. */
function printed(shell: Shell): () => string {
  let text = '';
  shell.stream.on('data', (chunk: Buffer) => {
    text += chunk.toString();
  });
  shell.stream.on('error', () => undefined);
  return () => text.replaceAll('\r\n', '\n');
}

/** Collects both outputs of a command, as they come. */
function outputsOf(command: RunningCommand): { out: string; err: string } {
  const said = { out: '', err: '' };
  command.stdout.on('data', (chunk: Buffer) => {
    said.out += chunk.toString();
  });
  command.stderr.on('data', (chunk: Buffer) => {
    said.err += chunk.toString();
  });
  return said;
}

/** What `Engine.run` promises. */
export function runConformance(suite: () => Suite, isInputEndless: boolean): void {
  it('runs a command without a terminal: two outputs apart, and its exit code', async () => {
    const { engine } = suite();
    const id = await suite().started();
    const command = await engine.run(id, ['sh', '-c', 'echo one; echo two >&2; exit 3'], never);
    const said = outputsOf(command);
    assert.deepEqual(await command.ended, { code: 3, signal: null });
    assert.deepEqual(said, { out: 'one\n', err: 'two\n' });
    const missing = await engine.run(id, ['/none/such'], never);
    const complaint = outputsOf(missing);
    assert.equal((await missing.ended).code, 127);
    assert.match(complaint.err, /not found/);
    await engine.remove(id);
  });

  it('passes the input of a command byte for byte, and its end', async () => {
    const { engine } = suite();
    const id = await suite().started();
    const command = await engine.run(id, isInputEndless ? ['head', '-c', '300000'] : ['cat'], never);
    const parts: Buffer[] = [];
    command.stdout.on('data', (chunk: Buffer) => parts.push(chunk));
    command.stderr.resume();
    const sent = Buffer.alloc(
      300_000,
      Uint8Array.from({ length: 256 }, (_, at) => at),
    );
    for (let at = 0; at < sent.length; at += 50_000) command.stdin.write(sent.subarray(at, at + 50_000));
    command.stdin.end();
    assert.deepEqual(await command.ended, { code: 0, signal: null });
    assert.ok(Buffer.concat(parts).equals(sent));
    await engine.remove(id);
  });

  it('hangs up a command that is closed', async () => {
    const { engine, under } = suite();
    const id = await suite().started();
    const script = "trap 'echo > /root/dropped' HUP; echo ready; sleep 1000 & wait";
    const command = await engine.run(id, ['sh', '-c', script], never);
    const said = outputsOf(command);
    await eventually(() => assert.match(said.out, /ready/));
    command.close();
    assert.deepEqual(await command.ended, { code: null, signal: null });
    await eventually(async () => assert.notEqual(await under.readFile(id, '/root/dropped'), undefined));
    await engine.remove(id);
  });

  it('lets a command wait while nobody reads it', async () => {
    const { engine } = suite();
    const id = await suite().started();
    const command = await engine.run(id, ['sh', '-c', 'yes'], never);
    command.stdout.read(0);
    await eventually(() => assert.ok(command.stdout.readableLength > 0, 'nothing yet'));
    let read = 0;
    await new Promise<void>((resolve) => {
      command.stdout.on('data', (chunk: Buffer) => {
        assert.ok(command.stdout.readableLength < 2 * 1024 * 1024);
        read += chunk.length;
        if (read > 512 * 1024) resolve();
      });
    });
    command.close();
    await command.ended;
    await engine.remove(id);
  });

  it('ends the commands of a container that stops, and begins none there', async () => {
    const { engine } = suite();
    const id = await suite().started();
    const command = await engine.run(id, ['cat'], never);
    outputsOf(command);
    await engine.stop(id, 1);
    await command.ended;
    await rejectsWith(engine.run(id, ['cat'], never), 'not_running');
    await engine.remove(id);
    await rejectsWith(engine.run(id, ['cat'], never), 'not_found');
  });

  it('begins no command for somebody who has left', async () => {
    const { engine } = suite();
    const id = await suite().started();
    await rejectsWith(engine.run(id, ['cat'], AbortSignal.abort()), 'unavailable');
    await engine.remove(id);
  });
}

/** What `Engine.exec` promises. */
export function execConformance(suite: () => Suite): void {
  it('opens a shell on a terminal that has its size, follows it and says how it ended', async () => {
    const { engine } = suite();
    const id = await suite().started();
    const shell = await engine.exec(id, terminal, never);
    const text = printed(shell);
    shell.stream.write('stty size\n');
    await eventually(() => assert.match(text(), /^40 100$/m));
    shell.stream.write('echo a-$TERM\n');
    await eventually(() => assert.match(text(), /^a-xterm-256color$/m));
    shell.resize(120, 50);
    await eventually(() => {
      shell.stream.write('stty size\n');
      assert.match(text(), /^50 120$/m);
    });
    const closed = new Promise((resolve) => shell.stream.once('close', resolve));
    shell.stream.write('exit 7\n');
    assert.deepEqual(await shell.ended, { code: 7, signal: null });
    await closed;
    shell.close();
    await engine.remove(id);
  });

  it('runs a command to its end', async () => {
    const { engine } = suite();
    const id = await suite().started();
    const shell = await engine.exec(id, { ...terminal, command: ['sh', '-c', 'echo one; exit 3'] }, never);
    const text = printed(shell);
    assert.deepEqual(await shell.ended, { code: 3, signal: null });
    assert.equal(text(), 'one\n');
    const missing = await engine.exec(id, { ...terminal, command: ['/none/such'] }, never);
    printed(missing);
    assert.equal((await missing.ended).code, 127);
    await engine.remove(id);
  });

  it('hangs up what runs in a shell that is closed', async () => {
    const { engine, under } = suite();
    const id = await suite().started();
    const command = ['sh', '-c', "trap 'echo > /root/hung' HUP; echo ready; read line"];
    const shell = await engine.exec(id, { ...terminal, command }, never);
    const text = printed(shell);
    await eventually(() => assert.match(text(), /ready/));
    shell.close();
    assert.deepEqual(await shell.ended, { code: null, signal: null });
    await eventually(async () => assert.notEqual(await under.readFile(id, '/root/hung'), undefined));
    await engine.remove(id);
  });

  it('lets a flood wait while nobody reads it', async () => {
    const { engine } = suite();
    const id = await suite().started();
    const shell = await engine.exec(id, { ...terminal, command: ['sh', '-c', 'yes'] }, never);
    shell.stream.on('error', () => undefined);
    shell.stream.read(0);
    await eventually(() => assert.ok(shell.stream.readableLength > 0, 'nothing yet'));
    let read = 0;
    await new Promise<void>((resolve) => {
      shell.stream.on('data', (chunk: Buffer) => {
        assert.ok(shell.stream.readableLength < 2 * 1024 * 1024);
        read += chunk.length;
        if (read > 512 * 1024) resolve();
      });
    });
    shell.close();
    await shell.ended;
    await engine.remove(id);
  });

  it('ends the shells of a container that stops', async () => {
    const { engine } = suite();
    const id = await suite().started();
    const shell = await engine.exec(id, terminal, never);
    printed(shell);
    await engine.stop(id, 1);
    await shell.ended;
    await rejectsWith(engine.exec(id, terminal, never), 'not_running');
    await engine.remove(id);
    await rejectsWith(engine.exec(id, terminal, never), 'not_found');
  });

  it('opens no shell for somebody who has left', async () => {
    const { engine } = suite();
    const id = await suite().started();
    await rejectsWith(engine.exec(id, terminal, AbortSignal.abort()), 'unavailable');
    await engine.remove(id);
  });
}
