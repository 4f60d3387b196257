/** The images that the platform builds beside the default one: listed, chosen by name, kept by name. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { startContainer, stopContainer } from '../../proto/compute/endpoints.ts';
import { listImages } from '../../proto/compute/images.ts';
import { updateContainer } from '../../proto/compute/settings.ts';
import { EngineError } from '../../proto/ports/engine.ts';
import { readAudit } from '../../storage/audit.ts';
import { containerById } from '../../storage/compute/containers.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { refused, someone } from '../support/service/calls.ts';
import { openCompute, REGISTRY } from '../support/service/compute.ts';
import { turns, until } from '../support/until.ts';

failOnLeaks();

const ann = someone();
const HASH = '0123456789abcdef';
const builtIns = ['node', 'postgres-15'].map((name) => ({
  ...{ name, title: `${name} for people`, reference: `troupe.invalid/${name}:${HASH}` },
}));
const [node] = builtIns;
const NODE = node?.reference ?? '';
const images = { engine: { builtIns } };

describe('images of the catalog', () => {
  test('are listed after the default one, also without a registry, and say whether they are built', async (t) => {
    const compute = await openCompute(t, { ...images, registryHost: undefined });
    await compute.engine.ensureImage(NODE, { always: false });
    const [first, ...others] = await compute.call(listImages, ann);
    assert.equal(first?.image, compute.engine.baseImage);
    const entry = { source: 'builtin' };
    assert.deepEqual(others, [
      { ...entry, name: 'node for people', image: NODE, alias: 'node', built: true },
      { ...entry, name: 'postgres-15 for people', image: builtIns[1]?.reference, alias: 'postgres-15', built: false },
    ]);
    compute.engine.fail('isBuilt', new EngineError('unavailable', 'away'), 2);
    const silent = await compute.call(listImages, ann);
    assert.deepEqual(
      silent.map(({ alias, built }) => [alias, built]),
      [
        [undefined, undefined],
        ['node', undefined],
        ['postgres-15', undefined],
      ],
    );
  });

  test('are chosen by the name or as they are listed; the row has a name that stays', async (t) => {
    const compute = await openCompute(t, images);
    for (const image of ['node', NODE, `troupe.invalid/node:${'f'.repeat(16)}`]) {
      const id = await compute.running(ann, { image });
      assert.equal((await compute.view(ann, id)).image, NODE);
      assert.equal((await containerById(compute.db, id))?.image, 'troupe.invalid/node');
      assert.equal(compute.engine.specOf(id)?.image, NODE);
      const [made] = await readAudit(compute.db, { action: 'container.create', limit: 1 });
      assert.equal(made?.detail?.image, 'troupe.invalid/node');
    }
  });

  test('are not pulled, and their containers not made anew, whatever the pull policy', async (t) => {
    const compute = await openCompute(t, images);
    const id = await compute.running(ann, { image: 'node', pull_policy: 'Always' });
    const made = compute.engine.files(id);
    made?.set('/usr/local/bin/installed', 'by its owner');
    compute.engine.publish(NODE);
    await compute.on(stopContainer, ann, id);
    await compute.reaches(ann, id, 'stopped');
    await compute.on(startContainer, ann, id);
    await compute.reaches(ann, id, 'running');
    assert.equal(compute.engine.files(id)?.get('/usr/local/bin/installed'), 'by its owner');
  });

  test('have their names in what is said of a change that could not be made', async (t) => {
    const compute = await openCompute(t, images);
    const id = await compute.running(ann, { image: 'node' });
    compute.engine.fail('ensureImage', new EngineError('image_not_found', 'No space is left.'), 1);
    await compute.call(updateContainer, ann, { params: { id }, body: { image: 'postgres-15' } });
    const said: string[] = [];
    const view = await until(async () => {
      const now = await compute.view(ann, id);
      said.push(now.status_reason ?? '');
      return now.next_image === undefined ? now : undefined;
    });
    assert.ok(!said.some((text) => text.includes('troupe.invalid')), said.join('\n'));
    assert.match(view.status_reason ?? '', /not changed to postgres-15\. .* runs on with node\./);
  });

  test('may be built for longer than a start may take, and the container has its time after that', async (t) => {
    const compute = await openCompute(t, images);
    const release = compute.engine.hold('ensureImage');
    t.after(release);
    const id = await compute.create(ann, { image: 'node' });
    await until(() => compute.engine.calls.includes(`ensureImage ${NODE}`));
    // Handled after what the work has told so far.
    await compute.view(ann, id);
    compute.clock.advance(25 * 60_000);
    const looks = compute.engine.calls.length;
    compute.engine.reconnect();
    await until(() => compute.engine.calls.indexOf('list', looks) >= 0);
    await turns();
    assert.equal((await compute.view(ann, id)).status, 'pending');
    release();
    await compute.reaches(ann, id, 'running');
  });

  test('are named when another image is refused', async (t) => {
    const compute = await openCompute(t, images);
    const wrong = (image: string) => compute.create(ann, { image });
    const there = `${REGISTRY}/<user>/<name>:<tag>, or one of node, postgres-15`;
    for (const image of ['nod', 'postgres-16', 'troupe.invalid/other', 'docker.io/library/node:18'])
      assert.ok((await refused('invalid_request', wrong(image))).message.includes(there), image);
    const alone = await openCompute(t, { ...images, registryHost: undefined });
    const refusal = await refused('invalid_request', alone.create(ann, { image: 'nod' }));
    assert.match(refusal.message, /must be one of node, postgres-15: this platform has no image registry/);
  });

  test('run a command beside their SSH server, and nothing in its place', async (t) => {
    const compute = await openCompute(t, images);
    const id = await compute.running(ann, { image: 'node', command: ['node', 'app.js'] });
    assert.deepEqual(compute.engine.workloadOf(id)?.command, ['node', 'app.js']);
    const change = compute.call(updateContainer, ann, { params: { id }, body: { entrypoint: ['node'] } });
    const { message } = await refused('invalid_request', change);
    assert.match(message, /"entrypoint" .* run "command", or an executable file \/root\/\.troupe\/start beside/);
  });
});
