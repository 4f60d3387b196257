import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { grants } from '../../proto/scopes.ts';

const id = fc.stringMatching(/^[a-z][a-z0-9]{0,11}$/);

test('a grant at the key itself or at a broader level of the same user is enough', () => {
  const key = 'compute.u1.containers.c1';
  for (const level of ['compute.u1', 'compute.u1.containers', key]) {
    assert.ok(grants({ [level]: ['read'] }, key, 'read'), level);
  }
});

test('a bare service root grants nothing', () => {
  assert.equal(grants({ compute: ['read'] }, 'compute.u1.containers', 'read'), false);
});

test('near misses grant nothing', () => {
  const key = 'compute.u1.containers.c1';
  for (const level of [
    'compute.u10',
    'compute.u',
    'compute.u1.container',
    'compute.u1.containers.c10',
    'compute.u1.containers.c1.x',
    'COMPUTE.u1',
    'compute.u1.',
    'compute.*',
    '*',
    '',
    'storage.u1',
  ]) {
    assert.equal(grants({ [level]: ['read'] }, key, 'read'), false, level);
  }
});

test('another action, an inherited property and an empty list grant nothing', () => {
  assert.equal(grants({ 'compute.u1': ['create'] }, 'compute.u1.keys', 'read'), false);
  assert.equal(grants({ 'compute.u1': [] }, 'compute.u1.keys', 'read'), false);
  const inherited: Record<string, readonly string[]> = Object.create({ 'compute.u1': ['read'] });
  assert.equal(grants(inherited, 'compute.u1.keys', 'read'), false);
});

test('no grant of one user ever covers another', () => {
  fc.assert(
    fc.property(id, id, id, (mine, yours, container) => {
      fc.pre(mine !== yours);
      const scopes = { [`compute.${mine}`]: ['read'], [`compute.${mine}.containers`]: ['read'] };
      assert.equal(grants(scopes, `compute.${yours}.containers.${container}`, 'read'), false);
      assert.equal(grants(scopes, `compute.${mine}.containers.${container}`, 'read'), true);
    }),
  );
});
