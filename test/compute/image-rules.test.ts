import assert from 'node:assert/strict';
import { test } from 'node:test';
import { imageProblem } from '../../actors/compute/image-rules.ts';

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
