import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { grants, MAX_SCOPES, scopesProblem } from '../../proto/scopes.ts';

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

test('a repository with dots is one id: its parts grant nothing', () => {
  const key = 'storage.u1.registry.ann/app.v2';
  assert.ok(grants({ [key]: ['pull'] }, key, 'pull'));
  assert.ok(grants({ 'storage.u1.registry': ['pull'] }, key, 'pull'));
  for (const level of [
    'storage.u1.registry.ann/app',
    'storage.u1.registry.ann',
    'storage.u1.registry.ann/app.v',
    'storage',
  ])
    assert.equal(grants({ [level]: ['pull'] }, key, 'pull'), false, level);
});

describe('scopes that a user may give', () => {
  const uid = 'abcdefghijk1';
  const container = 'bcdefghijkl2';

  test('name the own id, a known resource and actions that it has', () => {
    const good = {
      [`compute.${uid}`]: ['create', 'read', 'update', 'delete', 'start', 'stop'],
      [`compute.${uid}.containers`]: ['start', 'stop', 'read'],
      [`compute.${uid}.containers.${container}`]: ['start'],
      [`compute.${uid}.keys`]: ['create', 'read', 'delete'],
      [`compute.${uid}.keys.7`]: ['read'],
      [`storage.${uid}`]: ['push', 'pull', 'delete'],
      [`storage.${uid}.registry`]: ['push', 'pull', 'delete'],
      [`storage.${uid}.registry.ann/app.v2`]: ['push'],
      [`networking.${uid}`]: ['read'],
      [`networking.${uid}.domains`]: ['create', 'read', 'delete'],
      [`networking.${uid}.domain-mappings.${container}`]: ['delete', 'read', 'create'],
    };
    assert.equal(scopesProblem(good, uid), undefined);
    assert.equal(scopesProblem({}, uid), undefined);
  });

  test('are refused when the key is anything else', () => {
    const bad = [
      ...['', '*', '.', '..', 'compute', 'storage', 'networking', 'compute.', 'compute.*', `compute.${uid}.`],
      ...[`compute.${uid}.*`, `compute.${uid} `, ` compute.${uid}`, `COMPUTE.${uid}`, `compute.${uid.toUpperCase()}`],
      ...[`compute.${uid}0`, `compute.${uid.slice(0, -1)}`, `compute.${container}`, `compute.${uid}.container`],
      ...[`compute.${uid}.containers.`, `compute.${uid}.containers.*`, `compute.${uid}.containers.${container}.x`],
      ...[
        `compute.${uid}.containers.${container}\n`,
        `compute.${uid}.keys.0`,
        `compute.${uid}.keys.x`,
        `compute.${uid}.keys.1.2`,
      ],
      ...[`compute..${uid}`, `.compute.${uid}`, `monitor.${uid}`, `auth.${uid}`, `notify.${uid}`, `constructor.${uid}`],
      ...[
        `compute.${uid}.constructor`,
        `compute.${uid}.__proto__`,
        `storage.${uid}.registry.Ann/App`,
        `storage.${uid}.files`,
      ],
      ...[
        `storage.${uid}.registry.a/../b`,
        `storage.${uid}.registry./a`,
        `networking.${uid}.domains.x`,
        `compute.${uid}.(.*)`,
      ],
      `storage.${uid}.registry.${'a'.repeat(400)}`,
    ];
    for (const key of bad) {
      const problem = scopesProblem({ [key]: ['read'] }, uid);
      assert.ok(problem !== undefined && problem.length < 400, key);
    }
    assert.ok(scopesProblem(JSON.parse('{"__proto__": ["read"]}'), uid));
  });

  test('are refused when an action is none of the key', () => {
    const bad: [string, string][] = [
      [`compute.${uid}`, 'push'],
      [`compute.${uid}.keys`, 'start'],
      [`storage.${uid}.registry`, 'read'],
      [`networking.${uid}.domains`, 'update'],
      [`compute.${uid}`, 'READ'],
      [`compute.${uid}`, ''],
      [`compute.${uid}`, '*'],
      [`compute.${uid}`, 'constructor'],
    ];
    for (const [key, action] of bad)
      assert.match(scopesProblem({ [key]: ['delete', action] }, uid) ?? '', /has no action/);
  });

  test('are bounded in number', () => {
    const many = Object.fromEntries(
      Array.from({ length: MAX_SCOPES + 1 }, (_, i) => [`compute.${uid}.keys.${i + 1}`, ['read']]),
    );
    assert.match(scopesProblem(many, uid) ?? '', /at most 100/);
  });

  test('that are accepted never grant anything of another user', () => {
    const service = fc.constantFrom('compute', 'storage', 'networking');
    const rest = fc.array(fc.constantFrom('containers', 'registry', 'domains', uid, container, '*', '', 'a.b', '1'), {
      maxLength: 3,
    });
    let accepted = 0;
    fc.assert(
      fc.property(service, fc.constantFrom(uid, container), rest, service, rest, (name, user, parts, other, asked) => {
        const key = [name, user, ...parts].join('.');
        if (scopesProblem({ [key]: ['delete'] }, uid) !== undefined) return;
        accepted++;
        assert.equal(grants({ [key]: ['delete'] }, [other, container, ...asked].join('.'), 'delete'), false);
      }),
      { numRuns: 2000 },
    );
    assert.ok(accepted > 100, `only ${accepted} were accepted`);
  });
});
