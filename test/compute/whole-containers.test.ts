/** What `/compute/ws?v=2` tells: whole containers, deletions, and what they use. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  computeEventSchema,
  computeSocket,
  deleteContainer,
  getContainer,
  stopContainer,
} from '../../proto/compute/endpoints.ts';
import { addIngress, setSsh } from '../../proto/compute/settings.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { someone } from '../support/service/calls.ts';
import { openCompute } from '../support/service/compute.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const ann = someone('ann');

/** A connection of version 2 of ann's, and what it was told. */
async function follow(compute: Awaited<ReturnType<typeof openCompute>>) {
  const socket = await compute.connect(computeSocket, ann, { query: { v: '2' } });
  const events = () => socket.texts.map((text) => computeEventSchema.parse(JSON.parse(text)));
  await until(() => events()[0]?.type === 'containers', { what: 'the list' });
  /** The newest view of a container that it was told. */
  const view = (id: string) =>
    events()
      .flatMap((event) => (event.type === 'container' && event.data.id === id ? [event.data] : []))
      .at(-1);
  return { events, view };
}

test('a new container comes as a whole, each change of it, and its deletion; statuses alone do not', async (t) => {
  const compute = await openCompute(t);
  const { events, view } = await follow(compute);
  const id = await compute.running(ann);
  await until(() => view(id)?.status === 'running', { what: 'it runs' });
  await compute.call(addIngress, ann, { params: { id }, body: { port: 8080 } });
  await until(() => view(id)?.ports?.length === 1, { what: 'its port' });
  await compute.call(setSsh, ann, { params: { id }, body: { ssh_enabled: false } });
  await until(() => view(id)?.ssh_enabled === false, { what: 'SSH' });
  await compute.on(stopContainer, ann, id);
  await until(() => view(id)?.status === 'stopped', { what: 'it is stopped' });
  const asked = await compute.on(getContainer, ann, id);
  await until(() => JSON.stringify(view(id)) === JSON.stringify(asked), { what: 'the view that is answered' });
  await compute.on(deleteContainer, ann, id);
  await until(() => events().some(({ type }) => type === 'container_deleted'), { what: 'it is gone' });
  assert.deepEqual(events().at(-1), { type: 'container_deleted', data: { container_id: id } });
  assert.ok(!events().some(({ type }) => type === 'container_status'));
});

test('what containers use comes while they run, and again when it is another', async (t) => {
  const compute = await openCompute(t);
  const id = await compute.running(ann);
  const { events } = await follow(compute);
  const used = () => events().flatMap((event) => (event.type === 'usage' ? event.data : []));
  await until(() => used().length > 0, { what: 'what it uses' });
  assert.equal(used()[0]?.container_id, id);
});

test('a connection of version 1 beside it hears what it always heard', async (t) => {
  const compute = await openCompute(t);
  const old = await compute.updates(ann);
  const { events } = await follow(compute);
  await compute.running(ann);
  const types = () => new Set(old.texts.map((text) => computeEventSchema.parse(JSON.parse(text)).type));
  await until(() => old.texts.some((text) => text.includes('"running"')) && events().length > 2);
  assert.deepEqual([...types()], ['containers', 'container_status']);
});
