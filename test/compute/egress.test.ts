/** What a container may reach: said at its creation and later, by its owner, and told to the engine. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { createContainer } from '../../proto/compute/endpoints.ts';
import { updateContainer } from '../../proto/compute/settings.ts';
import { EngineError } from '../../proto/ports/engine.ts';
import { readAudit } from '../../storage/audit.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { refused, someone } from '../support/service/calls.ts';
import { type ComputeUnderTest, openCompute } from '../support/service/compute.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const ann = someone();
const bob = someone('bob');
type Egress = 'any' | 'none' | string[];
const change = (compute: ComputeUnderTest, id: string, egress: Egress, who = ann) =>
  compute.call(updateContainer, who, { params: { id }, body: { egress } });
const isIn = (compute: ComputeUnderTest, id: string, egress: readonly string[] | undefined) =>
  until(async () => isDeepStrictEqual((await compute.engine.inspect(id))?.egress, egress ?? 'any'), {
    what: `it reaches ${String(egress)}`,
  });

test('a container reaches all unless its owner says otherwise, and is told so before its start', async (t) => {
  const compute = await openCompute(t);
  const plain = await compute.running(ann);
  assert.equal('egress' in (await compute.view(ann, plain)), false);
  assert.equal(compute.engine.specOf(plain)?.egress, undefined);
  const closed = await compute.create(ann, { egress: 'none' });
  const view = await compute.reaches(ann, closed, 'running');
  assert.equal(view.egress, 'none');
  const listed = await compute.create(ann, { egress: ['203.0.113.7', '198.51.100.0/24', '203.0.113.7/32'] });
  assert.deepEqual((await compute.reaches(ann, listed, 'running')).egress, ['198.51.100.0/24', '203.0.113.7/32']);
  for (const [id, egress] of [
    [closed, []],
    [listed, ['198.51.100.0/24', '203.0.113.7/32']],
  ] as const) {
    assert.deepEqual(compute.engine.specOf(id)?.egress, egress);
    const calls = compute.engine.calls.filter((call) => call === `create ${id}` || call === `start ${id}`);
    assert.deepEqual(calls, [`create ${id}`, `start ${id}`]);
  }
});

test('what a container reaches is changed while it runs, without a restart, and stands in the audit trail', async (t) => {
  const compute = await openCompute(t);
  const id = await compute.running(ann);
  const { started_at } = await compute.view(ann, id);
  assert.equal((await change(compute, id, 'none')).egress, 'none');
  await isIn(compute, id, []);
  assert.deepEqual((await change(compute, id, ['203.0.113.0/24'])).egress, ['203.0.113.0/24']);
  await isIn(compute, id, ['203.0.113.0/24']);
  const entry = (await readAudit(compute.db, { action: 'container.update', limit: 10 })).at(-1);
  assert.deepEqual(entry?.detail, { egress: { before: 'none', after: ['203.0.113.0/24'] }, restarted: false });
  assert.equal((await change(compute, id, 'any')).egress, undefined);
  await isIn(compute, id, undefined);
  const before = compute.engine.calls.length;
  await change(compute, id, 'any');
  assert.equal(compute.engine.calls.slice(before).includes(`create ${id}`), false);
  const view = await compute.view(ann, id);
  assert.deepEqual([view.status, view.started_at], ['running', started_at]);
  assert.deepEqual(compute.engine.gracesOf(id), []);
});

test('an engine that cannot limit what it reaches is asked again, and one that forgot is told', async (t) => {
  const compute = await openCompute(t);
  const id = await compute.running(ann);
  compute.engine.fail('create', new EngineError('unavailable', 'no firewall'), 2);
  await change(compute, id, 'none');
  await isIn(compute, id, []);
  for (const egress of ['any', 'unknown'] as const) {
    compute.engine.edit(id, { egress });
    await until(async () => Array.isArray((await compute.engine.inspect(id))?.egress), {
      what: `it is not ${egress}`,
    });
  }
});

test('a network that is none is refused with a sentence, at creation and later, and so is another user', async (t) => {
  const compute = await openCompute(t);
  const id = await compute.running(ann);
  const many = Array.from({ length: 33 }, (_, at) => `203.0.113.${at}`);
  for (const egress of [
    'all',
    [],
    ['any'],
    ['203.0.113.1/24'],
    ['203.0.113.0/33'],
    ['fd00::/8'],
    ['10.0.0'],
    many,
    null,
  ])
    for (const parsed of [
      createContainer.body?.safeParse({ name: 'box', ssh_key_ids: [1], egress }),
      updateContainer.body?.safeParse({ egress }),
    ]) {
      assert.equal(parsed?.success, false, JSON.stringify(egress));
      assert.match(
        parsed?.error?.issues[0]?.message ?? '',
        /^must be ("any", "none", or 1 to 32 networks|a network) of IPv4/,
      );
    }
  await refused('not_found', change(compute, id, 'none', bob));
  assert.equal(compute.engine.specOf(id)?.egress, undefined);
});
