/** The platform's own images on a cluster: which recipe a container keeps, and where its node finds it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ContainerSpec, EngineError } from '../../proto/ports/engine.ts';
import { catalogAt, sentImages } from '../../transports/engines/docker/image/sent-images.ts';
import { keptSpec, podManifest } from '../../transports/engines/kubernetes/manifests.ts';
import { kubeNaming } from '../../transports/engines/kubernetes/naming.ts';
import { keptImage, nodeImage, pullProblem } from '../../transports/engines/kubernetes/own-images.ts';

const [OLD, NEW] = ['0'.repeat(16), 'f'.repeat(16)];
const DIGEST = `sha256:${'a'.repeat(64)}`;
const node = (version: string) => `troupe.invalid/node${version}`;
const places = { baseImage: 'r.test/troupe/base:1', catalogImages: 'r.test/library/', catalogToday: [node(`:${NEW}`)] };

test('a container of the catalog keeps the recipe that it has, and no other image does', () => {
  assert.equal(keptImage(node(`:${NEW}`), undefined), node(`:${NEW}`));
  assert.equal(keptImage(node(`:${NEW}`), node(`:${OLD}`)), node(`:${OLD}`));
  assert.equal(keptImage(node(`:${NEW}`), `troupe.invalid/python:${OLD}`), node(`:${NEW}`));
  assert.equal(keptImage(node(`:${NEW}`), 'r.test/ann/app:1'), node(`:${NEW}`));
  // A revision names the very image, and who leaves that has the one of today.
  assert.equal(keptImage(node(`@${DIGEST}`), node(`:${OLD}`)), node(`@${DIGEST}`));
  assert.equal(keptImage(node(`:${NEW}`), node(`@${DIGEST}`)), node(`:${NEW}`));
  assert.equal(keptImage('r.test/ann/app:2', 'r.test/ann/app:1'), 'r.test/ann/app:2');
});

test('its node pulls it from where the operator says, and without that it is told what to do', () => {
  assert.equal(nodeImage(node(`:${OLD}`), places), `r.test/library/node:${OLD}`);
  assert.equal(nodeImage(node(`@${DIGEST}`), places), `r.test/library/node@${DIGEST}`);
  assert.equal(nodeImage('r.test/ann/app:1', {}), 'r.test/ann/app:1');
  for (const [image, where] of [
    [node(`:${OLD}`), {}],
    [node(''), places],
  ] as const)
    assert.throws(() => nodeImage(image, where), /image node .*`troupe image catalog`, and sets CATALOG_IMAGES/);
});

test('one that is not there is told with the command that sends it', () => {
  const absent = new EngineError('image_not_found', 'manifest unknown');
  const { code, message } = pullProblem(absent, node(`:${NEW}`), places);
  assert.equal(code, 'image_not_found');
  assert.match(
    message,
    /node of the catalog is not at r\.test\/library\/.*catalog --to r\.test\/library\/`\. manifest/,
  );
  // The command sends no recipe of before.
  for (const version of [`:${OLD}`, `@${DIGEST}`])
    assert.match(
      pullProblem(absent, node(version), places).message,
      /not at r\.test\/library\/, as this container has it\. Change its image to another one, start it, and change/,
    );
  assert.equal(pullProblem(absent, 'r.test/ann/app:1', places), absent);
  const away = new EngineError('unavailable', 'timed out');
  assert.equal(pullProblem(away, node(`:${OLD}`), places), away);
});

test('a command runs beside the SSH server of the default image and of the catalog, and of no other', () => {
  const naming = kubeNaming('test');
  const spec = (image: string): ContainerSpec => ({
    ...{ id: 'c1', userId: 'u1', hostname: 'box', image, cpus: 1, memoryMb: 128, storageGb: 1 },
    ...{ mountPaths: [], authorizedKeys: [] },
  });
  const run = (image: string, workload: object) => {
    const found = { namespace: 'n', pod: 'container-0', id: 'c1', userId: 'u1', spec: keptSpec(spec(image)) };
    const options = { prepares: false, hasPullSecret: false, keysHash: '', workload: { env: {}, ...workload } };
    const text = JSON.stringify(podManifest(naming, found, places, options));
    return { isBeside: text.includes('troupe-init'), image: /"image":"([^"]*)"/.exec(text)?.[1] };
  };
  const command = ['node', 'app.js'];
  assert.deepEqual(run(places.baseImage, { command }), { isBeside: true, image: places.baseImage });
  assert.deepEqual(run(node(`:${NEW}`), { command }), { isBeside: true, image: `r.test/library/node:${NEW}` });
  assert.equal(run(node(`:${NEW}`), {}).isBeside, false);
  // As a command that is run once is told, so that it runs alone.
  assert.equal(run(node(`:${NEW}`), { command, entrypoint: [] }).isBeside, false);
  assert.equal(run('r.test/ann/app:1', { command }).isBeside, false);
});

test('the catalog is listed with where each image is, under the hash that is sent', async () => {
  const [sent, listed] = [await sentImages(), await catalogAt(places.catalogImages)];
  assert.deepEqual(
    sent.slice(1).map(({ name, hash }) => [`troupe.invalid/${name}:${hash}`, `r.test/library/${name}`]),
    listed.map(({ reference, repository }) => [reference, repository]),
  );
  assert.equal(sent[0]?.name, 'base');
  for (const { hash } of sent) assert.match(hash, /^[0-9a-f]{16}$/);
});
