/** Users who are disabled, enabled and removed by the operator, as those meet it who hold their passwords, keys and tokens. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { beginRemoval, disableUser, enableUser, forgetUser } from '../../actors/auth/users/user-state.ts';
import { addUser, listUsers } from '../../actors/auth/users/users.ts';
import { checkToken, createToken } from '../../proto/auth/api-tokens.ts';
import { changePassword, session } from '../../proto/auth/endpoints.ts';
import { registryToken } from '../../proto/auth/registry.ts';
import { beginKeyLogin } from '../../proto/auth/security-keys.ts';
import type { Caller } from '../../proto/endpoint.ts';
import { Refusal } from '../../proto/errors.ts';
import { readAudit } from '../../storage/audit.ts';
import { offboardedUsers, untilSessions } from '../../storage/offboarding.ts';
import { authWithKey, beginLogin, challengedCaller, finishLogin } from '../support/auth/second-factor.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { openAuth, otherProcess, PASSWORD } from '../support/service/auth.ts';
import { refused } from '../support/service/calls.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const scopesOf = ({ userId }: Caller) => ({ [`compute.${userId}`]: ['read'] });

test('disabling ends sessions, tokens and open streams on every node, and enabling brings back the tokens alone', async (t) => {
  const auth = await openAuth(t);
  const nodes = [otherProcess(t, auth), otherProcess(t, auth)];
  const { token: sessionToken } = await auth.login('ann', PASSWORD);
  const ann = await auth.prove(sessionToken);
  assert.ok(ann);
  const { token, id } = await auth.call(createToken, ann, { body: { name: 'ci', scopes: scopesOf(ann) } });
  const ended: string[] = [];
  for (const { authenticate, streams } of nodes) {
    for (const text of [sessionToken, token]) {
      const caller = await authenticate(text);
      assert.ok(caller);
      const needed = caller.kind === 'session' ? undefined : { key: `compute.${ann.userId}`, action: 'read' };
      t.after(streams.watch(caller, needed, (reason) => ended.push(`${caller.kind}: ${reason}`)));
    }
  }
  const basic = { username: 'ann', password: token };
  const pull = () => auth.call(registryToken, undefined, { query: { service: 'r.test' }, basic });
  await pull();

  assert.equal((await disableUser(auth.outside, 'ann', { stop: false })).changed, true);
  await until(() => ended.length === 4, { what: 'what is open ends' });
  assert.deepEqual(ended.sort(), [
    ...['api_token: token revoked', 'api_token: token revoked', 'session: token revoked', 'session: token revoked'],
  ]);
  for (const { authenticate } of nodes)
    for (const text of [sessionToken, token]) assert.equal(await authenticate(text), undefined);
  await refused('not_found', auth.call(checkToken, undefined, { params: { id } }));
  assert.equal((await disableUser(auth.outside, 'ann', { stop: false })).changed, false);

  assert.equal((await enableUser(auth.outside, 'ann')).changed, true);
  assert.equal((await enableUser(auth.outside, 'ann')).changed, false);
  await until(async () => (await untilSessions(auth.db, ann.userId)) === 0, { what: 'new sessions count' });
  for (const { authenticate } of nodes) {
    assert.equal(await authenticate(sessionToken), undefined, 'a session that was ended does not come back');
    assert.equal((await authenticate(token))?.userId, ann.userId);
    assert.equal((await authenticate((await auth.login('ann', PASSWORD)).token))?.userId, ann.userId);
  }
  assert.deepEqual(await auth.call(checkToken, undefined, { params: { id } }), { status: 'valid' });
  const trail = await readAudit(auth.db, { username: 'operator', action: 'user', limit: 10 });
  assert.deepEqual(
    trail.map(({ action, target }) => [action, target === ann.userId]),
    [
      ['user.add', true],
      ['user.disable', true],
      ['user.enable', true],
    ],
  );
});

test('a disabled user is told so by the right password alone, wherever one is given', async (t) => {
  const auth = await openAuth(t);
  const ann = await auth.enter('ann');
  await disableUser(auth.outside, 'ann', { stop: false });
  await refused('invalid_credentials', auth.login('ann', 'a wrong one'));
  assert.match((await refused('forbidden', auth.login('ann', PASSWORD))).message, /disabled/);
  const basic = { username: 'ann', password: PASSWORD };
  await refused('forbidden', auth.call(registryToken, undefined, { query: { service: 'r.test' }, basic }));
  const body = { current_password: PASSWORD, new_password: 'another fine password' };
  await refused('forbidden', auth.call(changePassword, ann, { body }));
  // The right password is no failed attempt.
  for (let i = 0; i < 10; i++) await refused('forbidden', auth.login('ann', PASSWORD));
  const trail = await readAudit(auth.db, { action: 'login.refused', limit: 20 });
  assert.deepEqual(trail.at(-1)?.detail, { reason: 'disabled' });
  assert.equal(await auth.db.run('select from login_sessions'), 1);
});

test('a security key lets no disabled user in, at either step', async (t) => {
  const { auth, key } = await authWithKey(t);
  const { options, state } = await beginLogin(auth);
  const challenged = await challengedCaller(auth);
  await disableUser(auth.outside, 'ann', { stop: false });
  await refused('forbidden', auth.call(beginKeyLogin, challenged));
  await refused('forbidden', finishLogin(auth, state, key.get(options)));
});

test('a removal takes all that is a user’s, once, and leaves everybody else’s', async (t) => {
  const auth = await openAuth(t);
  await addUser(auth.outside, 'bob', PASSWORD);
  const [ann, bob] = [await auth.enter('ann'), await auth.enter('bob')];
  for (const who of [ann, bob]) {
    await auth.call(createToken, who, { body: { name: 'ci', scopes: scopesOf(who) } });
    const { userId, username } = who;
    await auth.db.run(
      `insert into ssh_keys (user_id, slot, name, public_key, fingerprint) values ($1, 1, 'k', 'k', 'k')`,
      [userId],
    );
    await auth.db.run(`insert into notification_mutes (user_id, category, scope) values ($1, 'compute', '')`, [userId]);
    await auth.db.run(
      `insert into notifications (user_id, event_id, title, message, link, category, scope, created_at) values ($1, 'e', 't', 'm', '', '', '', now())`,
      [userId],
    );
    await auth.db.run(`insert into owned_domains (id, user_id, token) values ($1, $2, '')`, [userId, userId]);
    await auth.db.run(`insert into public_repositories (name) values ($1)`, [`${username}/web`]);
  }
  // The name of one is the beginning of the other's.
  await auth.db.run(`insert into public_repositories (name) values ('annabel/web')`);
  await auth.call(session, ann);

  const { id } = await beginRemoval(auth.outside, 'ann', 'admin');
  assert.equal(id, ann.userId);
  await until(async () => (await offboardedUsers(auth.db)).length === 0, { what: 'the service forgets her' });
  const counted = [
    ...['api_tokens', 'login_sessions', 'login_networks', 'ssh_keys', 'notification_mutes', 'notifications'],
    'owned_domains',
  ];
  for (const table of counted) {
    assert.equal(await auth.db.run(`select from ${table} where user_id = $1`, [id]), 0, table);
    assert.equal(await auth.db.run(`select from ${table} where user_id = $1`, [bob.userId]), 1, table);
  }
  assert.equal(await auth.db.run('select from public_repositories'), 2);
  assert.deepEqual(
    (await listUsers(auth.db)).map(({ username }) => username),
    ['bob'],
  );
  // Her actor hears of it by the bus.
  await until(() =>
    auth.call(session, ann).then(
      () => false,
      (error: unknown) => error instanceof Refusal && error.code === 'unauthorized',
    ),
  );
  await refused('invalid_credentials', auth.login('ann', PASSWORD));

  assert.deepEqual(await beginRemoval(auth.outside, 'ann', 'admin'), { id, isGone: true });
  assert.equal(await forgetUser(auth.outside, id), undefined);
  const trail = await readAudit(auth.db, { username: 'operator', limit: 20 });
  assert.deepEqual(
    trail.filter(({ target }) => target === id).map(({ action }) => action),
    ['user.add', 'user.remove', 'user.removed'],
  );
  // Somebody new of the same name is somebody else.
  await addUser(auth.outside, 'ann', PASSWORD);
  assert.notEqual((await auth.enter('ann')).userId, id);
});

test('the administrator is not removed, nobody who is being removed comes back, and unknown names are said', async (t) => {
  const auth = await openAuth(t);
  await addUser(auth.outside, 'admin', PASSWORD);
  assert.match((await refused('conflict', beginRemoval(auth.db, 'admin', 'admin'))).message, /administrator/);
  await auth.enter('admin');
  const ann = await auth.enter('ann');
  await auth.db.run(
    `insert into domain_mappings (id, user_id, domain, container_id, target_port, status, verify_token, pending_since, next_check_at)
     values ('aaaaaaaaaaa1', $1, 'www.example.org', 'bbbbbbbbbbb2', 80, 'pending', 'x', now(), now())`,
    [ann.userId],
  );
  const { id } = await beginRemoval(auth.db, 'ann', 'admin');
  assert.deepEqual(await forgetUser(auth.db, id), { containers: 0, mappings: 1 });
  assert.match((await refused('conflict', enableUser(auth.db, 'ann'))).message, /being removed/);
  await disableUser(auth.db, 'ann', { stop: true });
  assert.deepEqual(
    (await listUsers(auth.db)).map(({ username, leaving }) => [username, leaving]),
    [
      ['admin', null],
      ['ann', 'remove'],
    ],
  );
  for (const work of [
    () => disableUser(auth.db, 'nobody', { stop: false }),
    () => enableUser(auth.db, 'nobody'),
    () => beginRemoval(auth.db, 'nobody', 'admin'),
  ])
    assert.equal((await refused('not_found', work())).message, 'There is no user nobody.');

  // The service looks again by itself.
  await auth.db.run('delete from domain_mappings');
  await until(async () => (await offboardedUsers(auth.db)).length === 0, { what: 'the service forgets her' });
  await until(async () => (await auth.db.run('select from entity_timers')) === 0, { what: 'no timer is left' });
});

test('whoever could push is forgotten once the registry has no images of theirs, however often that fails', async (t) => {
  const asked: string[] = [];
  let answer: 'away' | 'gone' | 'kept' = 'away';
  const auth = await openAuth(t, {
    registry: {
      removeImages: async (username) => {
        asked.push(username);
        if (answer === 'away') throw new Error('the registry is away');
        return answer;
      },
    },
  });
  const pushes = async (name: string, scope: string) => {
    if (name !== 'ann') await addUser(auth.outside, name, PASSWORD);
    const person = await auth.enter(name);
    const basic = { username: name, password: PASSWORD };
    await auth.call(registryToken, undefined, { query: { service: 'r.test', scope }, basic });
    return person.userId;
  };
  const [ann, bob, eve] = [
    await pushes('ann', 'repository:ann/app:pull,push'),
    await pushes('bob', 'repository:bob/app:pull'),
    await pushes('eve', 'repository:ann/app:push repository:eve/app:push'),
  ];
  const isGone = (id: string) => until(async () => (await forgetUser(auth.db, id)) === undefined, { what: 'gone' });
  for (const name of ['ann', 'bob']) await beginRemoval(auth.db, name, 'admin');
  // Who only pulled has none.
  await isGone(bob);
  await until(() => asked.length > 1, { what: 'it is tried again', timeoutMs: 60_000 });
  assert.deepEqual(await forgetUser(auth.db, ann), { containers: 0, mappings: 0, images: true });
  answer = 'gone';
  await isGone(ann);
  answer = 'kept';
  await beginRemoval(auth.db, 'eve', 'admin');
  await isGone(eve);
  assert.deepEqual([...new Set(asked)], ['ann', 'eve']);
});
