/** What is kept of a change that ended on what ran before: the reason, the check's last answers, the end of the log. */
import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { z } from 'zod';
import { listRevisions } from '../../proto/compute/revisions.ts';
import { updateContainer } from '../../proto/compute/settings.ts';
import type { MemoryEngine, MemoryEngineOptions } from '../support/engine/memory-engine.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { refused, someone } from '../support/service/calls.ts';
import { type ComputeUnderTest, openCompute, REGISTRY } from '../support/service/compute.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const ann = someone();
const bob = someone('bob');
const [ONE, SILENT, CRASHING] = ['1', 'silent', 'crash'].map((tag) => `${REGISTRY}/ann/app:${tag}`) as [
  string,
  string,
  string,
];
const health = { tcp: { port: 8080 }, grace: 600 };
const lines = Array.from({ length: 30 }, (_, at) => `line ${at + 1} of hunter2`);
const told = lines.slice(-20).map((line) => line.replace('hunter2', '***'));

/** All say 30 lines. SILENT listens at port 22 alone; CRASHING ends at once. */
function start(id: string, engine: MemoryEngine): void {
  const image = engine.specOf(id)?.image.split('@')[0];
  engine.print(id, image === ONE ? ['well'] : lines);
  if (image === CRASHING) {
    engine.crash(id, { exitCode: 3 });
    return;
  }
  engine.listen(id, 22, (stream) => void stream.on('error', () => undefined).write('SSH-2.0-memory\r\n'));
  if (image !== SILENT) engine.listen(id, 8080, (stream) => void stream.on('error', () => undefined));
}

const open = (t: TestContext, more: MemoryEngineOptions = {}) =>
  openCompute(t, { engine: { images: [ONE, SILENT, CRASHING], onStart: start, ...more } });
const change = (compute: ComputeUnderTest, id: string, body: object) =>
  compute.call(updateContainer, ann, { params: { id }, body });
const failedOf = async (compute: ComputeUnderTest, id: string) =>
  until(async () => (await compute.on(listRevisions, ann, id)).failed_change, {
    what: 'a change failed',
    timeoutMs: 60_000,
  });

describe('a change that ends on what ran before is kept', () => {
  for (const hasSuccessors of [true, false])
    test(`with the check's last answers, and the end of the log, ${hasSuccessors ? 'beside it' : 'after a restart'}`, async (t) => {
      const compute = await open(t, { hasSuccessors });
      const id = await compute.running(ann, { image: ONE, stateless: true, health, secrets: { PASSWORD: 'hunter2' } });
      await compute.healthBecomes(ann, id, 'healthy');
      assert.equal((await compute.on(listRevisions, ann, id)).failed_change, undefined);
      await change(compute, id, { image: SILENT, health: { ...health, grace: 2 } });
      const { at, image, reason, answers, log } = await failedOf(compute, id);
      assert.ok(Number.isFinite(Date.parse(at)));
      assert.equal(image, SILENT);
      assert.match(reason, /It was not healthy within 2 s: nothing answers on port 8080\./);
      assert.match(answers.join('\n'), /^(?:\d+ times: )?nothing answers on port 8080$/);
      assert.deepEqual(log, told);
      assert.equal((await compute.view(ann, id)).status_reason, reason);
    });

  test('when it ends by itself: a new one at once, one in the place of the other after some crashes', async (t) => {
    for (const hasSuccessors of [true, false]) {
      const compute = await open(t, { hasSuccessors });
      const id = await compute.running(ann, { image: ONE, stateless: true, health, secrets: { PASSWORD: 'hunter2' } });
      await compute.healthBecomes(ann, id, 'healthy');
      await change(compute, id, { image: CRASHING });
      const { reason, log } = await failedOf(compute, id);
      assert.match(reason, /[iI]t ended with exit code 3, and said last: .*line 30 of \*\*\*/);
      assert.deepEqual(log, told);
    }
  });

  test('for its owner alone', async (t) => {
    const compute = await open(t, { hasSuccessors: true });
    const id = await compute.running(ann, { image: ONE, stateless: true });
    await change(compute, id, { image: CRASHING });
    await failedOf(compute, id);
    await refused('not_found', compute.on(listRevisions, bob, id));
    const kept = await compute.db.many(
      z.object({ sealed: z.string() }),
      `select encode(failed_change, 'escape') as sealed from container_revisions where container_id = $1`,
      [id],
    );
    assert.ok(kept.length === 1 && !kept[0]?.sealed.includes('line'));
  });
});
