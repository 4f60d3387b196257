import assert from 'node:assert/strict';
import { once } from 'node:events';
import { describe, type TestContext, test } from 'node:test';
import { sshElseEngine } from '../../actors/compute/terminal/shells.ts';
import { EngineError } from '../../proto/ports/engine.ts';
import type { Shells } from '../../proto/ports/shell.ts';
import { silentLog } from '../support/engine/docker-under-test.ts';
import { type FakeShells, fakeShells } from '../support/engine/fake-shells.ts';
import { type MemoryEngine, type MemoryEngineOptions, memoryEngine } from '../support/engine/memory-engine.ts';
import { memoryShell } from '../support/engine/memory-shell.ts';
import { failOnLeaks } from '../support/leaks.ts';

failOnLeaks();

const size = { cols: 80, rows: 24, term: 'xterm-256color' };

/** A running container, its SSH played by fake shells. */
async function container(
  t: TestContext,
  options: MemoryEngineOptions = {},
): Promise<{ engine: MemoryEngine; ssh: FakeShells; shells: Shells }> {
  const engine = memoryEngine(options);
  t.after(() => engine.close());
  await engine.ensureImage(engine.baseImage, { always: false });
  const spec = { id: 'a', userId: 'u', hostname: 'h', image: engine.baseImage, cpus: 1, memoryMb: 128, storageGb: 1 };
  await engine.create({ ...spec, mountPaths: [], authorizedKeys: [] });
  await engine.start('a', []);
  const ssh = fakeShells();
  return { engine, ssh, shells: sshElseEngine(ssh, engine, silentLog) };
}

describe('a shell in a container', () => {
  test('comes through SSH where there is SSH', async (t) => {
    const { engine, ssh, shells } = await container(t, { onExec: memoryShell });
    (await shells.open('a', size, new AbortController().signal)).close();
    assert.equal(ssh.opened.length, 1);
    assert.ok(!engine.calls.includes('exec a'));
  });

  for (const code of ['no_listener', 'refused'] as const) {
    test(`comes from the engine when SSH says ${code}`, async (t) => {
      const { ssh, shells } = await container(t, { onExec: memoryShell });
      ssh.fail(new EngineError(code, 'No way in.'));
      const shell = await shells.open('a', size, new AbortController().signal);
      shell.stream.write('stty size\n');
      const [echo] = await once(shell.stream, 'data');
      assert.match(String(echo), /stty size/);
      shell.stream.resume();
      shell.stream.write('exit 4\n');
      assert.deepEqual(await shell.ended, { code: 4, signal: null });
    });
  }

  test('that neither has says what is missing in both', async (t) => {
    const { ssh, shells } = await container(t);
    ssh.fail(new EngineError('no_listener', 'No SSH server.'));
    await assert.rejects(shells.open('a', size, new AbortController().signal), {
      code: 'refused',
      message: 'No SSH server. The image of this container has no shell.',
    });
  });

  test('is not asked of the engine when SSH may work in a moment, or nobody waits for it', async (t) => {
    const { engine, ssh, shells } = await container(t, { onExec: memoryShell });
    ssh.fail(new EngineError('unavailable', 'lost'));
    await assert.rejects(shells.open('a', size, new AbortController().signal), { code: 'unavailable' });
    ssh.fail(new EngineError('no_listener', 'gone'));
    await assert.rejects(shells.open('a', size, AbortSignal.abort()), { code: 'no_listener' });
    ssh.fail(new EngineError('no_listener', 'none'));
    await engine.stop('a', 1);
    await assert.rejects(shells.open('a', size, new AbortController().signal), { code: 'not_running' });
  });
});
