/** What is asked for in OCI scopes, and what is granted of it. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import {
  accessFor,
  askedFor,
  MAX_REPOSITORIES,
  type RegistryIdentity,
} from '../../actors/auth/registry/registry-rules.ts';
import { REPOSITORY_ACTIONS, type RepositoryAction } from '../../proto/auth/registry.ts';
import { isRepository } from '../../proto/repositories.ts';
import type { Scopes } from '../../proto/scopes.ts';

const UID = 'u1abcdefghij';
const ALL = ['pull', 'push', 'delete'];
const anybody: RegistryIdentity = { kind: 'anonymous' };
const ann: RegistryIdentity = { kind: 'user', username: 'ann', isAdmin: false };
const admin: RegistryIdentity = { kind: 'user', username: 'root', isAdmin: true };
const token = (scopes: Scopes, username = 'ann'): RegistryIdentity => ({
  kind: 'token',
  username,
  userId: UID,
  scopes,
});

const asked = (scope: string) =>
  Object.fromEntries([...askedFor(scope)].map(([name, actions]) => [name, [...actions]]));

/** What `who` gets of everything that can be asked for on `name`. */
function rights(who: RegistryIdentity, name: string, isPublic = false): readonly string[] {
  return accessFor(who, askedFor(`repository:${name}:*`), () => isPublic)[0]?.actions ?? [];
}

describe('a scope', () => {
  test('names a repository and actions', () => {
    assert.deepEqual(asked('repository:ann/app:pull'), { 'ann/app': ['pull'] });
    assert.deepEqual(asked('repository:ann/app:pull,push repository:library/x:pull'), {
      'ann/app': ['pull', 'push'],
      'library/x': ['pull'],
    });
    assert.deepEqual(asked('repository:a/b/c-d__e.f:delete'), { 'a/b/c-d__e.f': ['delete'] });
    assert.deepEqual(asked(''), {});
    assert.deepEqual(asked('   '), {});
  });

  test('with * asks for all actions', () => {
    assert.deepEqual(asked('repository:ann/app:*'), { 'ann/app': ALL });
    assert.deepEqual(asked('repository:ann/app:push,*'), { 'ann/app': ['push', 'pull', 'delete'] });
  });

  test('that comes twice counts once', () => {
    assert.deepEqual(asked('repository:a/b:pull repository:a/b:pull,pull repository:a/b:push'), {
      'a/b': ['pull', 'push'],
    });
  });

  test('of another type, class, case or name is passed over', () => {
    for (const scope of [
      ...['registry:catalog:*', 'repository(plugin):ann/app:pull', 'Repository:ann/app:pull', 'repository:ann/app'],
      ...['repository:Ann/app:pull', 'repository:ann/APP:pull', 'repository:a/../b:push', 'repository:../b:push'],
      ...['repository:/a/b:pull', 'repository:a/b/:pull', 'repository:a//b:pull', 'repository:a/./b:pull'],
      ...['repository:registry.test:5000/ann/app:pull', 'repository:ann/app:latest:pull', 'repository:ann/app:pull:'],
      ...['repository:ann/app:', 'repository:ann/app:PULL', 'repository:ann/app:read', 'repository:ann/app:pull\tpush'],
      ...['repository:ann/*:pull', 'repository:*:pull', 'repository::pull', ':ann/app:pull', 'repository', '::', ':::'],
      ...[
        'repository:ann/app%2fx:pull',
        'repository:ann/app\0:pull',
        'repository:änn/app:pull',
        'repository:-a/b:pull',
      ],
      ...['repository:a_-b/c:pull', 'repository:a/b-:pull', 'repository:a...b/c:pull', 'repository:a___b/c:pull'],
      ...[
        'repository:__proto__/x:pull',
        'offline_access',
        'repository:ann/app@sha256:pull',
        'repository:ann/app;x:pull',
      ],
    ]) {
      assert.deepEqual(asked(scope), {}, scope);
      assert.deepEqual(asked(`${scope} repository:ann/good:pull`), { 'ann/good': ['pull'] }, scope);
    }
  });

  test('with an unknown action keeps the others', () => {
    assert.deepEqual(asked('repository:ann/app:pull,admin,PUSH, push,'), { 'ann/app': ['pull'] });
  });

  test('may name 255 characters, not 256', () => {
    const name = (length: number) => `ann/${'a'.repeat(length - 4)}`;
    assert.deepEqual(Object.keys(asked(`repository:${name(255)}:pull`)), [name(255)]);
    assert.deepEqual(asked(`repository:${name(256)}:pull`), {});
    assert.deepEqual(asked(`repository:${name(100_000)}:pull`), {});
  });

  test('is one of a hundred repositories at most; those that are known may ask for more', () => {
    const scopes = Array.from({ length: 1000 }, (_, i) => `repository:ann/r${i}:pull`);
    const read = askedFor([...scopes, 'repository:ann/r7:push', 'repository:ann/r999:push'].join(' '));
    assert.equal(read.size, MAX_REPOSITORIES);
    assert.deepEqual([...(read.get('ann/r7') ?? [])], ['pull', 'push']);
    assert.equal(read.has('ann/r999'), false);
  });

  test('of any text is read without an error, and gives only names and actions that exist', () => {
    const nearly = fc
      .array(fc.constantFrom('repository', ':', 'ann/app', 'pull', ',', '*', ' ', '/', '..', 'A', '(plugin)', '%'))
      .map((parts) => parts.join(''));
    fc.assert(
      fc.property(fc.oneof(fc.string({ maxLength: 200 }), nearly), (text) => {
        for (const [name, actions] of askedFor(text)) {
          assert.ok(isRepository(name) && text.includes(`repository:${name}:`));
          assert.ok(actions.size > 0);
          for (const action of actions) assert.ok(REPOSITORY_ACTIONS.includes(action));
        }
      }),
    );
  });
});

describe('what is granted', () => {
  test('to anybody is the pull of what is public', () => {
    assert.deepEqual(rights(anybody, 'ann/app', true), ['pull']);
    assert.deepEqual(rights(anybody, 'ann/app'), []);
    assert.deepEqual(rights(anybody, 'library/debian'), ['pull']);
    assert.deepEqual(rights(anybody, 'library/a/b'), ['pull']);
  });

  test('to a user is that, and everything on their own', () => {
    assert.deepEqual(rights(ann, 'ann/app'), ALL);
    assert.deepEqual(rights(ann, 'ann/a/b'), ALL);
    assert.deepEqual(rights(ann, 'ann/app', true), ALL);
    assert.deepEqual(rights(ann, 'bob/app'), []);
    assert.deepEqual(rights(ann, 'bob/app', true), ['pull']);
    assert.deepEqual(rights(ann, 'library/debian'), ['pull']);
    for (const near of ['anna/app', 'an/app', 'ann', 'ann2/app', 'ann.x/app', 'ann-x/app', 'x/ann/app', 'ann__x/app'])
      assert.deepEqual(rights(ann, near), [], near);
  });

  test('to the administrator is library as well, and nobody else’s', () => {
    assert.deepEqual(rights(admin, 'library/debian'), ALL);
    assert.deepEqual(rights(admin, 'root/app'), ALL);
    assert.deepEqual(rights(admin, 'ann/app'), []);
    assert.deepEqual(rights(admin, 'ann/app', true), ['pull']);
    for (const near of ['libraryx/a', 'library', 'my/library/a']) assert.deepEqual(rights(admin, near), [], near);
  });

  test('to a user with the name library is no more than to others', () => {
    const named: RegistryIdentity = { kind: 'user', username: 'library', isAdmin: false };
    assert.deepEqual(rights(named, 'library/debian'), ['pull']);
    assert.deepEqual(rights(token({ [`storage.${UID}.registry`]: ALL }, 'library'), 'library/debian'), ['pull']);
  });

  test('of a name without an owner is nothing', () => {
    for (const who of [anybody, ann, admin, token({ [`storage.${UID}`]: ALL })])
      assert.deepEqual(rights(who, 'app', true), []);
  });

  test('only what was asked for', () => {
    assert.deepEqual(
      accessFor(ann, askedFor('repository:ann/app:push repository:bob/x:push,pull repository:bob/y:push'), (name) =>
        name.startsWith('bob'),
      ),
      [
        { type: 'repository', name: 'ann/app', actions: ['push'] },
        { type: 'repository', name: 'bob/x', actions: ['pull'] },
      ],
    );
    assert.deepEqual(
      accessFor(ann, askedFor(''), () => true),
      [],
    );
  });
});

describe('the scopes of a token', () => {
  const on = (key: string, actions = ALL) => token({ [key]: actions });
  const registry = `storage.${UID}.registry`;

  test('give what they name, on the owner’s repositories', () => {
    assert.deepEqual(rights(on(registry), 'ann/app'), ALL);
    assert.deepEqual(rights(on(registry, ['pull']), 'ann/app'), ['pull']);
    assert.deepEqual(rights(on(registry, ['push']), 'ann/a/b'), ['push']);
    assert.deepEqual(rights(on(`storage.${UID}`), 'ann/app'), ALL);
    assert.deepEqual(rights(on(registry, ['create', 'read', 'update', '*']), 'ann/app'), []);
    assert.deepEqual(rights(token({}), 'ann/app'), []);
  });

  test('give nothing on others’ repositories, and nothing more on library', () => {
    for (const key of [registry, `storage.${UID}`, `${registry}.bob/app`, `${registry}.library/debian`]) {
      assert.deepEqual(rights(on(key), 'bob/app'), [], key);
      assert.deepEqual(rights(on(key), 'bob/app', true), ['pull'], key);
      assert.deepEqual(rights(on(key), 'library/debian'), ['pull'], key);
    }
  });

  test('name one repository, with or without the owner', () => {
    const cases: [repo: string, covers: string][] = [
      ['app', 'ann/app'],
      ['ann/app', 'ann/app'],
      ['app.v2', 'ann/app.v2'],
      ['a/b.c/d', 'ann/a/b.c/d'],
      ['ann', 'ann/ann'],
      ['anna/app', 'ann/anna/app'],
      ['ann/ann/app', 'ann/ann/app'],
      ['ann/ann', 'ann/ann'],
      ['bob/app', 'ann/bob/app'],
    ];
    const near = [
      'ann/app',
      'ann/app2',
      'ann/app.v2',
      'ann/app/v2',
      'ann/ap',
      'anna/app',
      'ann/anna/app',
      'ann/ann/app',
    ];
    const names = new Set([...near, ...cases.map(([, covers]) => covers), 'bob/app', 'app', 'ann', 'ann/ann/ann/app']);
    for (const [repo, covers] of cases) {
      for (const name of names)
        assert.deepEqual(rights(on(`${registry}.${repo}`), name), name === covers ? ALL : [], `${repo} on ${name}`);
    }
  });

  test('of another user, service or resource give nothing', () => {
    for (const key of [
      ...['storage', 'storage.', `storage.${UID}x.registry`, 'storage.u1.registry', `compute.${UID}.registry`],
      ...[`storage.${UID}.registryx`, `storage.${UID}.registry.`, `storage.${UID}.*`, `Storage.${UID}.registry`],
      ...[`storage.${UID}.containers.app`, `storage.${UID}.registry.*`, `storage.${UID}.registry.APP`],
    ])
      assert.deepEqual(rights(on(key), 'ann/app'), [], key);
  });

  test('hold for a name with dots', () => {
    const who = token({ [`${registry}.a.b/x.y`]: ['push'] }, 'a.b');
    assert.deepEqual(rights(who, 'a.b/x.y'), ['push']);
    assert.deepEqual(rights(who, 'a/x.y'), []);
    assert.deepEqual(rights(token({ [`${registry}.x.y`]: ['push'] }, 'a.b'), 'a.b/x.y'), ['push']);
  });
});

test('nothing is ever granted that the table forbids', () => {
  const part = fc.constantFrom('ann', 'anna', 'bob', 'library', 'root', 'app', 'app2', 'app.v2', 'a');
  const name = fc.array(part, { minLength: 1, maxLength: 4 }).map((parts) => parts.join('/'));
  const actions = fc.subarray([...REPOSITORY_ACTIONS]);
  const key = fc.oneof(
    ...['storage', `storage.${UID}`, `storage.${UID}.registry`, 'storage.u2.registry'].map((text) => fc.constant(text)),
    name.map((repo) => `storage.${UID}.registry.${repo}`),
  );
  const username = fc.constantFrom('ann', 'bob', 'library', 'root', 'anna');
  const who: fc.Arbitrary<RegistryIdentity> = fc.oneof(
    fc.constant(anybody),
    username.map((username): RegistryIdentity => ({ kind: 'user', username, isAdmin: username === 'root' })),
    fc
      .tuple(username, fc.dictionary(key, actions, { maxKeys: 4 }))
      .map(([username, scopes]): RegistryIdentity => token(scopes, username)),
    fc
      .tuple(username, name)
      .map(([username, repository]): RegistryIdentity => ({ kind: 'pull', username, repository })),
  );
  /** The table again, written in another way. */
  const mayHave = (who: RegistryIdentity, name: string, action: RepositoryAction, open: boolean): boolean => {
    const [owner = '', ...rest] = name.split('/');
    if (rest.length === 0) return false;
    if (who.kind === 'pull')
      return action === 'pull' && name === who.repository && (open || owner === 'library' || owner === who.username);
    if (owner === 'library') return action === 'pull' || (who.kind === 'user' && who.isAdmin);
    if (open && action === 'pull') return true;
    if (who.kind === 'anonymous' || who.username !== owner) return false;
    if (who.kind === 'user') return true;
    return Object.entries(who.scopes).some(([key, list]) => {
      if (!list.includes(action)) return false;
      if (key === `storage.${UID}` || key === `storage.${UID}.registry`) return true;
      const [, repo] = key.split(`storage.${UID}.registry.`);
      if (repo === undefined) return false;
      return (repo.startsWith(`${owner}/`) ? repo : `${owner}/${repo}`) === name;
    });
  };
  const wish = fc.tuple(name, fc.subarray([...REPOSITORY_ACTIONS, '*', 'admin'], { minLength: 1 }));
  fc.assert(
    fc.property(who, fc.array(wish, { maxLength: 6 }), fc.array(name), (identity, wishes, open) => {
      const scope = wishes.map(([name, list]) => `repository:${name}:${list.join(',')}`).join(' ');
      const wanted = askedFor(scope);
      const access = accessFor(identity, wanted, (name) => open.includes(name));
      assert.equal(new Set(access.map(({ name }) => name)).size, access.length);
      for (const [name, list] of wanted) {
        const granted = access.find((entry) => entry.name === name)?.actions ?? [];
        for (const action of REPOSITORY_ACTIONS) {
          assert.equal(
            granted.includes(action),
            list.has(action) && mayHave(identity, name, action, open.includes(name)),
            `${JSON.stringify(identity)} ${action} ${name}`,
          );
        }
      }
      assert.ok(access.every(({ name, actions }) => wanted.has(name) && actions.length > 0));
    }),
    { numRuns: 500 },
  );
});
