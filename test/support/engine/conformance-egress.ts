import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { Suite } from './conformance-suite.ts';

const listed = ['198.51.100.0/24', '203.0.113.7/32'];

/** What an engine promises of what a container may reach: it is told with the spec, and is so while it runs. */
export function egressConformance(suite: () => Suite): void {
  it('takes what a container may reach before its start and while it runs, and leaves it running', async () => {
    const { engine } = suite();
    const spec = suite().spec({ egress: [] });
    await engine.create(spec);
    assert.deepEqual((await engine.inspect(spec.id))?.egress, []);
    await engine.start(spec.id, []);
    // It is reached as ever.
    await suite().answers(spec.id);
    const began = await engine.inspect(spec.id);
    await engine.create({ ...spec, egress: listed });
    assert.deepEqual((await engine.inspect(spec.id))?.egress, listed);
    const { egress: _, ...open } = spec;
    await engine.create(open);
    const after = await engine.inspect(spec.id);
    assert.equal(after?.egress, 'any');
    assert.equal(after?.startedAt, began?.startedAt);
    assert.equal(after?.phase, 'running');
    await engine.create(spec);
    await suite().answers(spec.id);
    await engine.remove(spec.id);
  });

  it('takes it from an engine that knows nothing of it yet, as after a crash of the platform', async () => {
    const { engine, under } = suite();
    const closed = await suite().started({ egress: [] });
    const later = await under.again();
    try {
      const seen = (await later.inspect(closed))?.egress;
      assert.ok(seen === 'unknown' || seen?.length === 0, String(seen));
      await later.create(suite().again({ id: closed }));
      assert.equal((await later.inspect(closed))?.egress, 'any');
      await later.create(suite().again({ id: closed, egress: listed }));
      assert.deepEqual((await later.inspect(closed))?.egress, listed);
    } finally {
      if (later !== engine) await later.close();
    }
    await engine.remove(closed);
  });
}
