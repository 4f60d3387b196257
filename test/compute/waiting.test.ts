/** Create and start with `wait=running`: the reply comes when the container has got somewhere. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createContainer, deleteContainer, startContainer, stopContainer } from '../../proto/compute/endpoints.ts';
import type { ContainerView } from '../../proto/compute/fields.ts';
import { EngineError } from '../../proto/ports/engine.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { callFrom, refused, someone } from '../support/service/calls.ts';
import { type ComputeUnderTest, openCompute } from '../support/service/compute.ts';
import { turns, until } from '../support/until.ts';

failOnLeaks();

const ann = someone();
const WAIT = { wait: 'running', timeout: '20' };

async function creating(compute: ComputeUnderTest, query: Record<string, string> = WAIT) {
  const body = { name: 'box', ssh_key_ids: [await compute.key(ann)] };
  return { reply: compute.call(createContainer, ann, { body, query }) };
}

const starting = (compute: ComputeUnderTest, id: string, query: Record<string, string> = WAIT) =>
  compute.call(startContainer, ann, { params: { id }, query });

/** The id of the one container, once it has a status. */
const becomes = (compute: ComputeUnderTest, status: ContainerView['status']) =>
  until(async () => (await compute.list(ann)).find((each) => each.status === status)?.id, { what: status });

async function stopped(compute: ComputeUnderTest): Promise<string> {
  const id = await compute.running(ann);
  await compute.on(stopContainer, ann, id);
  await until(async () => (await compute.engine.inspect(id))?.phase === 'exited');
  return id;
}

test('the reply is the whole container, once it runs; its actor answers meanwhile', async (t) => {
  const compute = await openCompute(t);
  const release = compute.engine.hold('start');
  t.after(release);
  const { reply } = await creating(compute);
  let isThere = false;
  void reply.then(() => {
    isThere = true;
  });
  const id = await becomes(compute, 'initializing');
  assert.equal((await compute.view(ann, id)).status, 'initializing');
  await turns(5);
  assert.equal(isThere, false);
  release();
  const made = await reply;
  assert.deepEqual([made.id, made.status], [id, 'running']);
  assert.deepEqual(Object.keys(made).sort(), Object.keys(await compute.view(ann, id)).sort());

  await compute.on(stopContainer, ann, id);
  assert.equal((await starting(compute, id)).status, 'running');
});

test('without it the reply comes at once', async (t) => {
  const compute = await openCompute(t);
  const made = await (await creating(compute, {})).reply;
  assert.equal(made.status, 'pending');
  assert.equal(made.memory_used_mb, undefined);
});

test('one that fails is the reply, with the reason', async (t) => {
  const compute = await openCompute(t);
  compute.engine.fail('ensureImage', new EngineError('image_not_found', 'no such image'), 100);
  const { status, status_reason } = await (await creating(compute)).reply;
  assert.equal(status, 'failed');
  assert.match(status_reason ?? '', /no such image/);
});

test('it is as it is when the time is over, or it is stopped; one that is deleted is not found', async (t) => {
  const compute = await openCompute(t);
  const id = await stopped(compute);
  const release = compute.engine.hold('start');
  t.after(release);
  const began = performance.now();
  const late = await starting(compute, id, { wait: 'running', timeout: '1' });
  assert.ok(performance.now() - began >= 990);
  assert.ok(['pending', 'initializing'].includes(late.status), late.status);
  await compute.on(stopContainer, ann, id);
  const reply = starting(compute, id);
  await becomes(compute, 'pending');
  await compute.on(stopContainer, ann, id);
  assert.equal((await reply).status, 'stopped');
  const again = starting(compute, id);
  await becomes(compute, 'pending');
  const gone = refused('not_found', again);
  await compute.on(deleteContainer, ann, id);
  await gone;
});

test('what is refused is refused at once, and so is a time that is too long', async (t) => {
  const compute = await openCompute(t);
  const id = await compute.running(ann);
  await refused('conflict', starting(compute, id));
  for (const query of [{ wait: 'stopped' }, { ...WAIT, timeout: '0' }, { ...WAIT, timeout: '51' }])
    assert.throws(() => callFrom(startContainer, ann, { params: { id }, query }), JSON.stringify(query));
});
