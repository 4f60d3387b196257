/** Whose account a key opens by SSH according to the database, and that open logins end when that changes. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { GatewayControl } from '../../actors/gateway/service.ts';
import { readAudit } from '../../storage/audit.ts';
import { endSessions } from '../../storage/auth/sessions.ts';
import { computeNews, tellCompute } from '../../storage/compute/news.ts';
import { disable } from '../../storage/offboarding.ts';
import { start, stop, stopped } from '../../supervision/index.ts';
import { testDatabase } from '../support/database/database.ts';
import { withoutGuards } from '../support/gateway/guards.ts';
import { silentLog } from '../support/log.ts';
import { until } from '../support/until.ts';

const idOf = (name: string): string => name.padEnd(12, '0');

async function setup(t: TestContext) {
  const database = await testDatabase();
  t.after(() => database.close());
  const { db } = database;
  for (const id of ['ann', 'bob', 'eve'])
    await db.run(`insert into users (id, username, display_name, password_hash) values ($1, $2, $2, 'x')`, [
      idOf(id),
      id,
    ]);
  for (const [user, slot, fingerprint, login] of [
    ['ann', 1, 'F-ann', true],
    ['ann', 2, 'F-ordinary', false],
    ['ann', 3, 'F-shared', true],
    ['bob', 1, 'F-shared', true],
    ['eve', 1, 'F-of-bob', true],
    ['eve', 2, 'F-ordinary', false],
  ] as const)
    await db.run(
      `insert into ssh_keys (user_id, slot, name, public_key, fingerprint, login, login_epoch)
       values ($1, $2, $3, $3, $3, $4, 0)`,
      [idOf(user), slot, fingerprint, login],
    );
  const system = start({ name: 'ssh-accounts', log: silentLog });
  t.after(async () => {
    stop(system);
    await stopped(system);
  });
  const control = new GatewayControl({
    ...{
      db,
      log: silentLog,
      domain: 'x.test',
      containersDomain: 'compute.x.test',
      fileRoutes: [],
      fallback: undefined,
      gatewayToken: () => '',
      ...withoutGuards,
    },
    engine: { list: async () => [], inspect: async () => undefined },
    computeNews: computeNews(db),
    metrics: async () => '',
  });
  assert.equal((await control.sshAccounts.account({ user: 'ann', fingerprint: 'F-ann' })).kind, 'unavailable');
  await control.start(system, { ports: { http: 1, https: 2, ssh: 2222 }, listenOn: async () => {} });
  const ask = async (user: string, fingerprint: string): Promise<string> => {
    const answer = await control.sshAccounts.account({ user, fingerprint });
    if (answer.kind === 'enter') {
      assert.equal(answer.account.asked, user);
      return `enter ${answer.account.username}`;
    }
    return answer.kind === 'explain' ? answer.text : answer.kind;
  };
  const adopt = async (fingerprint = 'F-ann') => {
    const answer = await control.sshAccounts.account({ user: 'ann', fingerprint });
    assert.ok(answer.kind === 'enter');
    let reason: string | undefined;
    const end = (text: string) => {
      reason ??= text;
    };
    const release = await control.sshAccounts.adoptAccount({ ...answer.account, address: '192.0.2.1', end });
    t.after(() => (typeof release === 'string' ? undefined : release()));
    return { release, reason: () => reason };
  };
  return { db, ask, adopt };
}

test('a marked key opens the account of its owner under any name that is no other user’s', async (t) => {
  const { ask } = await setup(t);
  assert.equal(await ask('anything', 'F-ann'), 'enter ann');
  assert.match(await ask('eve', 'F-ann'), /There is a user eve, whose account this key does not open/);
  assert.match(await ask('ann', 'F-ordinary'), /opens containers, but no account.*troupe key login/);
  assert.equal(await ask('ann', 'F-unknown'), 'none');
});

test('a key that somebody else added and marked leads nobody into their account by its owner’s name', async (t) => {
  const { db, ask } = await setup(t);
  assert.match(await ask('bob', 'F-of-bob'), /There is a user bob, whose account this key does not open/);
  const owned = (login: boolean) =>
    db.run(
      `insert into ssh_keys (user_id, slot, name, public_key, fingerprint, login, login_epoch)
       values ($1, 2, 'own', 'own', 'F-of-bob', $2, 0)
       on conflict (user_id, slot) do update set login = excluded.login`,
      [idOf('bob'), login],
    );
  // Bob's own key, which opens containers alone: without his name nobody can say whose account is meant.
  await owned(false);
  assert.match(await ask('anything', 'F-of-bob'), /Several users have this key/);
  assert.match(await ask('bob', 'F-of-bob'), /There is a user bob/);
  await owned(true);
  assert.equal(await ask('bob', 'F-of-bob'), 'enter bob');
  await db.tx((tx) => disable(tx, idOf('bob'), null));
  assert.match(await ask('bob', 'F-of-bob'), /There is a user bob/);
  assert.equal(await ask('bob', 'F-unknown'), 'none', 'a strange key learns of no user');
});

test('the name leads to its account, however many others marked the key before', async (t) => {
  const { db, ask } = await setup(t);
  for (let at = 0; at < 30; at++) {
    const id = `a${String(at).padStart(11, '0')}`;
    await db.run(`insert into users (id, username, display_name, password_hash) values ($1, $1, $1, 'x')`, [id]);
    await db.run(
      `insert into ssh_keys (user_id, slot, name, public_key, fingerprint, login, login_epoch)
       values ($1, 1, 'x', 'x', 'F-ann', true, 0)`,
      [id],
    );
  }
  assert.equal(await ask('ann', 'F-ann'), 'enter ann');
  assert.match(await ask('anything', 'F-ann'), /Several users have this key/);
});

test('a mark ends with the sessions of its user', async (t) => {
  const { db, ask } = await setup(t);
  await db.tx((tx) => endSessions(tx, idOf('ann')));
  assert.match(await ask('ann', 'F-ann'), /opens containers, but no account/);
});

test('of several accounts the user name says which', async (t) => {
  const { db, ask } = await setup(t);
  assert.match(await ask('anything', 'F-shared'), /Several users have this key/);
  assert.equal(await ask('bob', 'F-shared'), 'enter bob');
  await db.tx((tx) => disable(tx, idOf('bob'), null));
  assert.match(await ask('bob', 'F-shared'), /There is a user bob/);
  assert.equal(await ask('anything', 'F-shared'), 'enter ann');
});

test('a login ends when its key is unmarked, its user is disabled, or the sessions of its user end', async (t) => {
  const { db, adopt } = await setup(t);
  const ended = ({ reason }: { readonly reason: () => string | undefined }) =>
    until(() => reason() !== undefined, { what: 'it ends' });
  const [first, shared] = [await adopt(), await adopt('F-shared')];
  await db.tx(async (tx) => {
    await tx.run("update ssh_keys set login = false where user_id = $1 and fingerprint = 'F-shared'", [idOf('ann')]);
    await tellCompute(tx, { kind: 'key', userId: idOf('ann'), fingerprint: 'F-shared' });
  });
  await ended(shared);
  assert.equal(first.reason(), undefined);
  await db.tx((tx) => endSessions(tx, idOf('ann')));
  await ended(first);
  // Marked anew.
  await db.run('update ssh_keys set login_epoch = 1 where user_id = $1', [idOf('ann')]);
  const second = await adopt();
  await db.tx((tx) => disable(tx, idOf('ann'), null));
  await ended(second);
});

test('a user has at most twenty logins, and the trail has one entry for a key and an address', async (t) => {
  const { db, adopt } = await setup(t);
  const logins = [];
  for (let login = 0; login < 20; login++) logins.push(await adopt());
  const { release } = await adopt();
  assert.equal(release, 'You have too many SSH logins: close one.');
  const entries = await readAudit(db, { username: 'ann', action: 'login', limit: 100 });
  assert.deepEqual(
    entries.map(({ detail, address }) => [detail, address]),
    [[{ factor: 'ssh_key', name: 'F-ann', fingerprint: 'F-ann' }, '192.0.2.1']],
  );
});
