import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { Shell } from '../../../proto/ports/shell.ts';
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
