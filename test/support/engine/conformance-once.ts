import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { OnceOutcome, PrivateNetwork, RunOnceOptions } from '../../../proto/ports/engine.ts';
import { rejectsWith, type Suite, textOfLine } from './conformance-suite.ts';

/** What an engine promises of a command that runs once in a container of its own. */
export function onceConformance(suite: () => Suite): void {
  const run = (
    id: string,
    script: string,
    options: Partial<RunOnceOptions> = {},
    network?: PrivateNetwork,
  ): Promise<OnceOutcome> =>
    suite().engine.runOnce(
      suite().again({ id, mountPaths: [] }),
      { env: { REVISION: 'next' }, command: ['/bin/sh', '-c', script] },
      network,
      { timeoutMs: 60_000, signal: new AbortController().signal, ...options },
    );

  it('runs a command once beside a container, says how it ended and what it said last, and leaves nothing', async () => {
    const { engine } = suite();
    const id = await suite().started({ mountPaths: [] });
    const before = await engine.inspect(id);
    const said = await run(id, 'i=1; while [ $i -le 30 ]; do echo "$i $REVISION"; i=$((i+1)); done; exit 7');
    assert.deepEqual([said.exitCode, said.oomKilled], [7, false]);
    const expected = Array.from({ length: 20 }, (_, at) => `${at + 11} next`);
    assert.deepEqual(said.lines.map(textOfLine), expected);
    assert.equal((await run(id, 'true')).exitCode, 0);
    assert.deepEqual(await engine.inspect(id), before);
    assert.equal((await engine.list()).filter((one) => one.id.startsWith(id)).length, 1);
    await engine.remove(id);
  });

  it('runs it for a container that is not there, or does not run, and ends it when it is given up', async () => {
    const { engine } = suite();
    const spec = suite().spec({ mountPaths: [] });
    assert.equal((await run(spec.id, 'exit 3')).exitCode, 3);
    assert.equal(await engine.inspect(spec.id), undefined);
    const giveUp = new AbortController();
    const running = run(spec.id, 'sleep 60', { signal: giveUp.signal });
    setTimeout(() => giveUp.abort(new Error('enough')), 300);
    await assert.rejects(running, /enough|aborted/);
    await engine.remove(spec.id);
  });

  it('refuses an image that is not there', async () => {
    const image = suite().under.missingImage ?? 'registry.test/never/pulled:1';
    const spec = suite().spec({ image, mountPaths: [] });
    const options = { timeoutMs: 1000, signal: new AbortController().signal };
    const running = suite().engine.runOnce(spec, { env: {}, command: ['true'] }, undefined, options);
    await rejectsWith(running, 'image_not_found');
  });
}
