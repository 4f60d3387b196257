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
    ['eve', 1, 'F-ann', false],
  ] as const)
    await db.run(
      'insert into ssh_keys (user_id, slot, name, public_key, fingerprint, login) values ($1, $2, $3, $3, $3, $4)',
      [idOf(user), slot, fingerprint, login],
    );
  const system = start({ name: 'ssh-accounts', log: silentLog });
  t.after(async () => {
    stop(system);
    await stopped(system);
  });
  const control = new GatewayControl({
    ...{ db, log: silentLog, domain: 'x.test', fileRoutes: [], fallback: undefined, gatewayToken: () => '' },
    engine: { list: async () => [], inspect: async () => undefined },
    computeNews: computeNews(db),
    metrics: async () => '',
  });
  assert.equal((await control.sshAccounts.account({ user: 'ann', fingerprint: 'F-ann' })).kind, 'unavailable');
  await control.start(system, { ports: { http: 1, https: 2, ssh: 2222 }, listenOn: async () => {} });
  const ask = async (user: string, fingerprint: string): Promise<string> => {
    const answer = await control.sshAccounts.account({ user, fingerprint });
    if (answer.kind === 'enter') return `enter ${answer.account.username}`;
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

test('a marked key opens the account of its owner under any name, also if another user added it', async (t) => {
  const { ask } = await setup(t);
  assert.equal(await ask('anything', 'F-ann'), 'enter ann');
  assert.equal(await ask('eve', 'F-ann'), 'enter ann');
  assert.match(await ask('ann', 'F-ordinary'), /opens containers, but no account.*troupe key login/);
  assert.equal(await ask('ann', 'F-unknown'), 'none');
});

test('of several accounts the user name says which', async (t) => {
  const { db, ask } = await setup(t);
  assert.match(await ask('anything', 'F-shared'), /several accounts/);
  assert.equal(await ask('bob', 'F-shared'), 'enter bob');
  await db.tx((tx) => disable(tx, idOf('bob'), null));
  assert.equal(await ask('bob', 'F-shared'), 'enter ann');
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
  await db.tx((tx) => endSessions(tx, idOf('ann'), null));
  await ended(first);
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
