import assert from 'node:assert/strict';
import { test } from 'node:test';
import { imageOf, imageProblem, isOwnImage, ownImage } from '../../actors/compute/image-rules.ts';

const problem = (image: string, host: string | undefined = 'registry.example.com:5000') =>
  imageProblem(image, host, 'ann');

test('own repositories and the library are accepted', () => {
  for (const image of ['ann/app:1', 'ann/team/app:v1.2-rc_3', 'library/debian:12', 'ann/a__b:latest']) {
    assert.equal(problem(`registry.example.com:5000/${image}`), undefined, image);
  }
});

test("other users' repositories are refused", () => {
  for (const image of ['bob/app:1', 'annie/app:1', 'ann-x/app:1']) {
    assert.match(problem(`registry.example.com:5000/${image}`) ?? '', /must be in your own repositories/, image);
  }
});

test('anything but <registry>/<repo>:<tag> is refused', () => {
  const host = 'registry.example.com:5000';
  for (const image of [
    'debian',
    'debian:12',
    'docker.io/library/debian:12',
    `${host}/ann/app`,
    `${host}/ann/app:`,
    `${host}/ann/app:1@sha256:${'a'.repeat(64)}`,
    `${host}/ann/app@sha256:${'a'.repeat(64)}`,
    `${host}/ann/../bob/app:1`,
    `${host}/ann//app:1`,
    `${host}/Ann/app:1`,
    `${host}/ann/app:-v`,
    `${host}/ann/app:${'t'.repeat(129)}`,
    `${host}/ann/app:1 --privileged`,
    `http://${host}/ann/app:1`,
    `${host}/app:1`,
    `${host}.evil/ann/app:1`,
    '-v',
    '',
  ]) {
    assert.notEqual(problem(image), undefined, image);
  }
  assert.match(problem(`${host}/ann/${'a'.repeat(260)}:1`) ?? '', /255/);
});

test('without a registry no image can be named', () => {
  assert.match(imageProblem('x/ann/app:1', undefined, 'ann') ?? '', /no image registry/);
});

const HASH = '0123456789abcdef';
const platform = {
  defaultImage: `troupe.invalid/base:${HASH}`,
  engine: {
    baseImage: `troupe.invalid/base:${HASH}`,
    builtIns: ['node', 'postgres-15'].map((name) => {
      return { name, title: name, reference: `troupe.invalid/${name}:${HASH}` };
    }),
  },
};

test('an image of the platform is chosen by its name, or by a reference of whatever recipe, and its row keeps the name', () => {
  const older = 'f'.repeat(16);
  for (const given of ['node', 'troupe.invalid/node', `troupe.invalid/node:${HASH}`, `troupe.invalid/node:${older}`])
    assert.equal(ownImage(given, platform), 'troupe.invalid/node', given);
  for (const given of [undefined, platform.defaultImage, `troupe.invalid/base:${older}`])
    assert.equal(ownImage(given, platform), null, given);
  for (const given of ['', 'Node', 'node:18', 'postgres', 'postgres-16', 'docker.io/library/node:18', 'x/node'])
    assert.equal(ownImage(given, platform), undefined, given);
  // The operator gave another default image: the base image is none of those that can be named.
  assert.equal(ownImage(platform.defaultImage, { ...platform, defaultImage: 'x/y:1' }), undefined);
});

test('the image of a row is that of the recipe of today, and no other major of a database', () => {
  assert.equal(imageOf({ image: null }, platform), platform.defaultImage);
  assert.equal(imageOf({ image: 'troupe.invalid/node' }, platform), `troupe.invalid/node:${HASH}`);
  assert.equal(imageOf({ image: 'troupe.invalid/postgres-13' }, platform), 'troupe.invalid/postgres-13');
  assert.equal(imageOf({ image: 'r.example/a/b:1' }, platform), 'r.example/a/b:1');
  assert.deepEqual([null, 'troupe.invalid/node', 'troupe.invalid/postgres-13', 'r.example/a/b:1'].map(isOwnImage), [
    true,
    true,
    true,
    false,
  ]);
});

test('a refusal names the images of the platform', () => {
  const names = ['node', 'postgres-15'];
  assert.match(
    imageProblem('nod', 'r.example', 'ann', { names }) ?? '',
    /r\.example\/<user>\/<name>:<tag>, or one of node, p/,
  );
  assert.match(
    imageProblem('nod', undefined, 'ann', { names }) ?? '',
    /must be one of node, postgres-15: .*no image r/,
  );
});

test('a refusal names the command that brings the image, and repeats nothing but a reference', () => {
  for (const image of ['nginx:latest', 'postgres:16', 'ngnix', 'ghcr.io/a/b:v1.2-rc_3'])
    assert.ok(problem(image)?.includes(`\`troupe image import ${image}\` brings it`), image);
  for (const image of ['a b', 'x;`reboot`', '--to', `a@sha256:${'a'.repeat(64)}`, 'a'.repeat(101), '$(x)'])
    assert.ok(problem(image)?.includes('`troupe image import IMAGE` brings it'), image);
});
