/** What gateways keep of the answers that come by an ingress rule: said with it, shown, and changed. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { addIngress, changeIngress, deleteIngress, listIngress } from '../../proto/compute/settings.ts';
import { readAudit } from '../../storage/audit.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { refused, someone } from '../support/service/calls.ts';
import { openCompute } from '../support/service/compute.ts';

failOnLeaks();

const ann = someone();
const bob = someone('bob');

test('a rule says what gateways keep, where that is not the default, and it can be changed', async (t) => {
  const compute = await openCompute(t);
  const id = await compute.create(ann);
  const params = { id };
  const add = (body: object) => compute.call(addIngress, ann, { params, body });
  const change = (port: string, cache: string, who = ann) =>
    compute.call(changeIngress, who, { params: { id, port }, body: { cache } });
  const caches = async () => (await compute.on(listIngress, ann, id)).rules.map(({ port, cache }) => [port, cache]);

  const plain = await add({ port: 80 });
  assert.deepEqual(Object.keys(plain).sort(), ['created_at', 'id', 'port', 'target_port']);
  assert.equal((await add({ port: 443, tls: 'platform', cache: 'explicit' })).cache, 'explicit');
  assert.deepEqual((await readAudit(compute.db, { limit: 1 }))[0]?.detail, {
    ...{ port: 443, target_port: 443, tls: 'platform', cache: 'explicit' },
  });
  await refused('invalid_request', add({ port: 8000, cache: 'some' }));

  const changed = await change('80', 'off');
  assert.deepEqual(changed, { ...plain, cache: 'off' });
  const [entry] = await readAudit(compute.db, { limit: 1 });
  assert.deepEqual([entry?.action, entry?.detail], ['container.ingress.change', { port: 80, cache: 'off' }]);
  assert.deepEqual((await compute.view(ann, id)).ports, [
    { port: 80, target_port: 80, cache: 'off' },
    { port: 443, target_port: 443, tls: 'platform', cache: 'explicit' },
  ]);
  assert.deepEqual(await change('80', 'default'), plain);
  assert.deepEqual((await compute.view(ann, id)).ports?.[0], { port: 80, target_port: 80 });

  await refused('not_found', change('8000', 'off'));
  await refused('not_found', change('443', 'off', bob));
  await refused('invalid_request', change('443', 'some'));
  await compute.stop();
  await compute.start();
  assert.deepEqual(await caches(), [
    [80, undefined],
    [443, 'explicit'],
  ]);
  // A rule that is added anew begins anew.
  await compute.call(deleteIngress, ann, { params: { id, port: '443' } });
  assert.equal((await add({ port: 443, tls: 'platform' })).cache, undefined);
});
