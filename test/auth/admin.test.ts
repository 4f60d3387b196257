/** What the administrator does with users over HTTP's endpoints, and what nobody else can. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { addUser } from '../../actors/auth/users/users.ts';
import {
  adminAddUser,
  adminAudit,
  adminChangeUser,
  adminDisableUser,
  adminEnableUser,
  adminEndpoints,
  adminEndSessions,
  adminForgetKeys,
  adminListSessions,
  adminListUsers,
  adminRemoveUser,
  adminSetPassword,
} from '../../proto/auth/admin.ts';
import { untilSessions } from '../../storage/offboarding.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { openAuth, otherProcess, PASSWORD } from '../support/service/auth.ts';
import { refused } from '../support/service/calls.ts';
import { until } from '../support/until.ts';

failOnLeaks();

async function openWithAdmin(t: Parameters<typeof openAuth>[0]) {
  const auth = await openAuth(t);
  await addUser(auth.outside, 'admin', PASSWORD);
  const admin = await auth.enter('admin');
  assert.equal(admin.isAdmin, true);
  return { auth, admin };
}

test('all of it is for the login of the administrator alone', () => {
  for (const { access, path } of adminEndpoints) {
    assert.equal(access, 'admin', path);
    assert.ok(path.startsWith('/api/admin/'), path);
  }
});

test('users are listed by name in pages, and added with a given password or a made one', async (t) => {
  const { auth, admin } = await openWithAdmin(t);
  const made = await auth.call(adminAddUser, admin, { body: { username: 'cid' } });
  assert.equal((await auth.enter('cid', made.password ?? '')).username, 'cid');
  const given = await auth.call(adminAddUser, admin, { body: { username: 'bob', password: PASSWORD } });
  assert.equal(given.password, null);
  await refused('conflict', auth.call(adminAddUser, admin, { body: { username: 'bob' } }));
  await refused('invalid_request', auth.call(adminAddUser, admin, { body: { username: 'Bob' } }));
  await refused('invalid_request', auth.call(adminAddUser, admin, { body: { username: 'dan', password: 'short' } }));
  const names = async (query: Record<string, string>) =>
    (await auth.call(adminListUsers, admin, { query })).map(({ username }) => username);
  assert.deepEqual(await names({}), ['admin', 'ann', 'bob', 'cid']);
  assert.deepEqual(await names({ limit: '2' }), ['admin', 'ann']);
  assert.deepEqual(await names({ limit: '2', after: 'ann' }), ['bob', 'cid']);
  assert.deepEqual(await names({ prefix: 'a' }), ['admin', 'ann']);
  const [first] = await auth.call(adminListUsers, admin);
  assert.deepEqual([first?.is_admin, first?.state, first?.disabled_at], [true, 'active', null]);
  const [entry] = await auth.call(adminAudit, admin, { query: { action: 'user.add' } });
  assert.deepEqual(
    [entry?.username, entry?.user_id, entry?.target, entry?.address, entry?.detail],
    ['admin', admin.userId, given.id, '192.0.2.1', { username: 'bob' }],
  );
});

test('a user is disabled, enabled and removed; the administrator is not', async (t) => {
  const { auth, admin } = await openWithAdmin(t);
  const node = otherProcess(t, auth);
  const { token } = await auth.login('ann', PASSWORD);
  const ann = await auth.prove(token);
  assert.ok(ann);
  const params = { id: ann.userId };
  const disable = (stop: string) => auth.call(adminDisableUser, admin, { params, query: { stop } });
  assert.deepEqual(await disable('false'), { state: 'disabled', changed: true, containers: 0 });
  assert.equal((await disable('false')).changed, false);
  await until(async () => (await node.authenticate(token)) === undefined, { what: 'the session is out elsewhere' });
  await refused('forbidden', auth.login('ann', PASSWORD));
  assert.deepEqual(await auth.call(adminEnableUser, admin, { params }), { state: 'active', changed: true });
  await until(async () => (await untilSessions(auth.db, ann.userId)) === 0, { what: 'new sessions count' });
  await auth.login('ann', PASSWORD);

  const own = { params: { id: admin.userId } };
  await refused('conflict', auth.call(adminDisableUser, admin, { ...own, query: { stop: 'false' } }));
  await refused('conflict', auth.call(adminRemoveUser, admin, own));
  const gone = { params: { id: 'zzzzzzzzzzzz' } };
  await refused('not_found', auth.call(adminRemoveUser, admin, gone));
  await refused('not_found', auth.call(adminListSessions, admin, gone));

  assert.deepEqual(await auth.call(adminRemoveUser, admin, { params }), {
    state: 'leaving',
    containers: 0,
    mappings: 0,
  });
  await until(async () => !(await auth.call(adminListUsers, admin)).some(({ username }) => username === 'ann'), {
    what: 'ann is forgotten',
  });
});

test('sessions of a user are listed and ended, and a new password ends them, too', async (t) => {
  const { auth, admin } = await openWithAdmin(t);
  const node = otherProcess(t, auth);
  const tokens = [(await auth.login('ann', PASSWORD)).token, (await auth.login('ann', PASSWORD, '192.0.2.7')).token];
  const [first = '', second = ''] = tokens;
  const ann = await auth.prove(first);
  assert.ok(ann);
  const params = { id: ann.userId };
  const listed = await auth.call(adminListSessions, admin, { params });
  assert.deepEqual(
    listed.map(({ ip_address }) => ip_address),
    ['192.0.2.7', '192.0.2.1'],
  );
  assert.deepEqual(await auth.call(adminEndSessions, admin, { params }), { ended: 2 });
  for (const token of [first, second])
    await until(async () => (await node.authenticate(token)) === undefined, { what: 'a session is out' });
  assert.deepEqual(await auth.call(adminListSessions, admin, { params }), []);

  const { password, sessions_ended } = await auth.call(adminSetPassword, admin, { params });
  assert.equal(sessions_ended, 0);
  await refused('invalid_credentials', auth.login('ann', PASSWORD));
  await auth.login('ann', password);
  assert.deepEqual(await auth.call(adminForgetKeys, admin, { params }), { keys: 0 });
});

test('the audit trail is read newest first, in pages, by name, action and time', async (t) => {
  const { auth, admin } = await openWithAdmin(t);
  for (const username of ['bob', 'cid', 'dan']) await auth.call(adminAddUser, admin, { body: { username } });
  const added = (query: Record<string, string>) =>
    auth.call(adminAudit, admin, { query: { action: 'user', username: 'admin', ...query } });
  const all = await added({});
  assert.deepEqual(
    all.map(({ detail }) => detail.username),
    ['dan', 'cid', 'bob'],
  );
  const [newest, second, oldest] = all;
  assert.ok(newest && second && oldest);
  assert.deepEqual(await added({ limit: '1' }), [newest]);
  assert.deepEqual(await added({ before: String(second.id) }), [oldest]);
  assert.deepEqual(await added({ since: new Date(auth.clock.now() + 3_600_000).toISOString() }), []);
  await refused('invalid_request', (async () => added({ action: 'user add' }))());
  await refused('invalid_request', (async () => added({ since: 'yesterday' }))());
});

test('how much one user may have is changed by the administrator, and written down', async (t) => {
  const { auth, admin } = await openWithAdmin(t);
  const ann = await auth.enter('ann');
  const limit = (registry_limit_mb: unknown, id = ann.userId) =>
    auth.call(adminChangeUser, admin, { params: { id }, body: { registry_limit_mb } });
  assert.equal((await limit(512)).registry_limit_mb, 512);
  assert.equal((await limit(0)).registry_limit_mb, 0);
  assert.equal((await limit(0)).registry_limit_mb, 0);
  const listed = async () =>
    (await auth.call(adminListUsers, admin)).map(({ username, registry_limit_mb }) => [username, registry_limit_mb]);
  assert.deepEqual(await listed(), [
    ['admin', null],
    ['ann', 0],
  ]);
  const same = await auth.call(adminChangeUser, admin, { params: { id: ann.userId }, body: {} });
  assert.equal(same.registry_limit_mb, 0, 'what is not named stays');
  assert.equal((await limit(null)).registry_limit_mb, null);
  const entries = await auth.call(adminAudit, admin, { query: { action: 'user.registry_limit' } });
  assert.deepEqual(
    entries.map(({ username, target, detail }) => [username, target, detail]),
    [
      [0, null],
      [512, 0],
      [null, 512],
    ].map(([before, after]) => {
      return ['admin', ann.userId, { username: 'ann', registry_limit_mb: { before, after } }];
    }),
  );
  for (const wrong of [-1, 1.5, '5', 1_000_000_000, true])
    await refused('invalid_request', (async () => limit(wrong))());

  const limits = async (changes: unknown) =>
    (await auth.call(adminChangeUser, admin, { params: { id: ann.userId }, body: { limits: changes } })).limits;
  const asAll = await limits({});
  assert.ok(asAll && Object.values(asAll).every((most) => most === null));
  assert.deepEqual(await limits({ containers: 10, terminals: 0 }), { ...asAll, containers: 10, terminals: 0 });
  assert.deepEqual(await limits({ terminals: null }), { ...asAll, containers: 10 });
  const [, shown] = await auth.call(adminListUsers, admin);
  assert.equal(shown?.limits?.containers, 10);
  for (const wrong of [{ containers: -1 }, { containers: 1001 }, { ssh_keys: '5' }, { hostnames: 5 }])
    await refused('invalid_request', limits(wrong));
  assert.equal((await auth.call(adminAudit, admin, { query: { action: 'user.limits' } })).length, 2);
  const nothing = auth.call(adminChangeUser, admin, { params: { id: ann.userId }, body: { username: 'bob' } });
  await refused('invalid_request', (async () => nothing)());
  await refused('not_found', limit(5, 'zzzzzzzzzzzz'));
  const refusal = await refused('conflict', limit(5, admin.userId));
  assert.match(refusal.message, /admin is the administrator, whose images have no limit: name another user/);
});
