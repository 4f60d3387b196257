/** What takes its time by design. */

import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { startContainer, stopContainer } from '../../proto/compute/endpoints.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { refused, someone } from '../support/service/calls.ts';
import { openCompute } from '../support/service/compute.ts';
import { until } from '../support/until.ts';

failOnLeaks();

/** By now everybody has said again that they are there. */
function later(t: TestContext): void {
  const { now } = performance;
  t.mock.method(performance, 'now', () => now.call(performance) + 20_000);
}

describe('patience', () => {
  test('a workload that ends again and again is started five times more, with growing pauses, then it has failed', async (t) => {
    const ann = someone();
    const starts: number[] = [];
    let crashing = true;
    const compute = await openCompute(t, {
      // So that a busy machine does not blur them.
      pace: 10,
      engine: {
        onStart: (id, engine) => {
          starts.push(performance.now());
          engine.listen(id, 22, (stream) => void stream.write('SSH-2.0-x\r\n'));
          if (crashing) engine.print(id, ['starting', '\u001b[31mmissing DATABASE_URL\u001b[0m\r', 'key hunter2-2']);
          if (crashing) queueMicrotask(() => engine.crash(id, { exitCode: 1 }));
        },
      },
    });
    const id = await compute.create(ann, { secrets: { KEY: 'hunter2-2' } });
    await compute.reaches(ann, id, 'failed', 60_000);
    const lines = 'missing DATABASE_URL | key *** | starting | missing DATABASE_URL | key ***';
    const why = `it keeps crashing: it ended with exit code 1, and said last: ${lines}`;
    assert.equal(await compute.reason(id), why);
    assert.equal((await compute.notices(ann.userId)).at(-1), `Container stopped: "box": ${why}.`);
    const refusal = await refused('not_running', compute.logs(ann, id));
    assert.match(refusal.message, /^The container has failed: its "status_reason" says why/);
    assert.equal(starts.length, 6);
    const pauses = starts.slice(1).map((at, i) => at - (starts[i] ?? 0));
    for (let i = 2; i < pauses.length; i++) assert.ok((pauses[i] ?? 0) > (pauses[i - 1] ?? 0), pauses.join(' '));
    crashing = false;
    await compute.on(startContainer, ann, id);
    await compute.reaches(ann, id, 'running');
  });

  test('updates outlive a crash of their user’s actor: the whole list comes again', async (t) => {
    const ann = someone();
    const compute = await openCompute(t);
    const socket = await compute.updates(ann);
    compute.db.failure = new TypeError('a defect');
    await assert.rejects(compute.list(ann), { code: 'internal' });
    compute.db.failure = undefined;
    later(t);
    await until(() => socket.texts.length === 2);
    await compute.create(ann);
    await until(() => socket.texts.length > 2);
  });

  test('a terminal outlives a crash of its container’s actor, and is closed by the next one', async (t) => {
    const ann = someone();
    const compute = await openCompute(t);
    const id = await compute.running(ann);
    const socket = await compute.terminal(ann, id);
    compute.db.failure = new TypeError('a defect');
    await assert.rejects(compute.on(stopContainer, ann, id), { code: 'internal' });
    compute.db.failure = undefined;
    assert.equal(socket.closed, undefined);
    // It says again that it is there.
    later(t);
    const handled = compute.handled('compute/terminal-session');
    await until(() => compute.handled('compute/terminal-session') > handled);
    await compute.on(stopContainer, ann, id);
    assert.deepEqual(await socket.end(), { code: 1000, reason: 'container stopped' });
  });
});
