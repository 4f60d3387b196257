/** The audit trail of the authentication service: what is in it, what is not, and that it stays. */

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { addUser, ensureAdmin, setPassword } from '../../actors/auth/users/users.ts';
import { openLog } from '../../cmd/observability/log.ts';
import { createServiceAccount, setServiceAccountScopes } from '../../proto/auth/api-tokens.ts';
import { changePassword, updateProfile } from '../../proto/auth/endpoints.ts';
import { type AuditRow, audit, auditGrowth, purgeAudit, readAudit } from '../../storage/audit.ts';
import { StorageError } from '../../storage/errors.ts';
import { exercise } from '../support/auth/every-endpoint.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { type AuthUnderTest, openAuth, PASSWORD } from '../support/service/auth.ts';
import { refused } from '../support/service/calls.ts';

failOnLeaks();

const entries = (auth: AuthUnderTest, action?: string) =>
  readAudit(auth.outside, { limit: 10_000, ...(action === undefined ? {} : { action }) });
const brief = ({ userId, username, action, target, address, detail }: AuditRow) => ({
  ...{ userId, username, action, target, address, detail },
});

/** The log as the platform writes it, everything from `debug` on. */
function written(auth: AuthUnderTest): string {
  const text: string[] = [];
  const log = openLog('debug', { write: (line) => void text.push(line) });
  for (const { level, fields, message } of auth.log.lines) {
    if (level === 'debug' || level === 'info' || level === 'warn' || level === 'error') log[level](fields, message);
  }
  return text.join('');
}

describe('the audit trail', () => {
  test('says nothing of what was so already: the same name, scopes and name of a key', async (t) => {
    const auth = await openAuth(t);
    const ann = await auth.enter('ann');
    const scopes = { [`compute.${ann.userId}`]: ['read'] };
    const { id } = await auth.call(createServiceAccount, ann, { body: { name: 'ci', scopes } });
    for (let i = 0; i < 3; i++) {
      await auth.call(updateProfile, ann, { body: { display_name: 'Ann' } });
      await auth.call(setServiceAccountScopes, ann, { params: { id }, body: { scopes } });
    }
    assert.equal((await entries(auth, 'profile.update')).length, 1);
    assert.equal((await entries(auth, 'service_account.set_scopes')).length, 0);
  });

  test('is counted by the hour, with the names that fill it', async (t) => {
    const auth = await openAuth(t);
    await auth.enter('ann');
    await auth.db.run(
      `insert into audit_log (username, action, at) select 'bob', 'x.y', now() - interval '50 minutes' from generate_series(1, 5)`,
    );
    await auth.db.run(`insert into audit_log (username, action, at) values ('eve', 'x.y', now() - interval '2 hours')`);
    const { entries: count, busiest } = await auditGrowth(auth.db);
    assert.equal(count, 7);
    assert.deepEqual(busiest[0], { username: 'bob', entries: 5 });
  });

  test('tells of logins, refused ones, and of changes of profile and password', async (t) => {
    const auth = await openAuth(t);
    const ann = await auth.enter('ann');
    const { userId } = ann;
    await refused('invalid_credentials', auth.login('ann', 'wrong', '2001:db8::1'));
    await refused('invalid_credentials', auth.login('whoever', 'wrong'));
    await auth.call(updateProfile, ann, { body: { display_name: 'Änn' } });
    await refused(
      'wrong_password',
      auth.call(changePassword, ann, { body: { current_password: 'wrong', new_password: PASSWORD } }),
    );
    await auth.call(changePassword, ann, { body: { current_password: PASSWORD, new_password: 'another password' } });
    const [home, who] = ['192.0.2.1', { userId, username: 'ann', target: userId }];
    const stranger = { ...who, userId: null };
    assert.deepEqual(
      (await entries(auth)).map(brief),
      [
        {
          userId: null,
          username: 'operator',
          action: 'user.add',
          target: userId,
          address: '',
          detail: { username: 'ann' },
        },
        { ...who, action: 'login', address: home, detail: { factor: 'password' } },
        { ...stranger, action: 'login.refused', address: '2001:db8::1', detail: {} },
        { userId: null, username: '', action: 'login.refused', target: '', address: home, detail: {} },
        { ...who, action: 'profile.update', address: home, detail: { display_name: 'Änn' }, target: '' },
        { ...stranger, action: 'password.refused', address: home, detail: {} },
        { ...who, action: 'password.change', address: home, detail: {} },
      ].map((entry) => (entry.action === 'profile.update' ? { ...entry, target: userId } : entry)),
    );
  });

  test('tells what operators did to users', async (t) => {
    const auth = await openAuth(t);
    const bob = await addUser(auth.outside, 'bob', PASSWORD);
    await setPassword(auth.outside, 'bob', 'another password');
    await ensureAdmin(auth.outside, 'admin', undefined);
    await refused('conflict', addUser(auth.outside, 'bob', PASSWORD));
    await refused('not_found', setPassword(auth.outside, 'nobody', PASSWORD));
    const operator = (await entries(auth, 'user')).filter(({ username }) => username === 'operator');
    assert.deepEqual(
      operator.map(({ action, target, detail }) => [action, detail.username, target === bob.id]),
      [
        ['user.add', 'ann', false],
        ['user.add', 'bob', true],
        ['user.password', 'bob', true],
        ['user.add', 'admin', false],
      ],
    );
  });

  test('tells of a block once, when it begins, and of refusals by it not at all', async (t) => {
    const auth = await openAuth(t);
    for (let i = 0; i < 5; i++) await refused('invalid_credentials', auth.login('ann', 'wrong'));
    for (let i = 0; i < 50; i++) await refused('too_many_attempts', auth.login('ann', 'wrong'));
    await auth.db.run('update login_attempts set blocked_until = now()');
    auth.clock.advance(1000);
    await refused('invalid_credentials', auth.login('ann', 'wrong'));
    assert.equal((await entries(auth, 'login.refused')).length, 6);
    const blocked = await entries(auth, 'login.blocked');
    assert.deepEqual(
      blocked.map(({ username, address, detail }) => ({ username, address, detail })),
      [{ username: 'ann', address: '192.0.2.1', detail: { counted: 'pair' } }],
    );
  });

  test('is not filled by a flood: what is left out is counted', async (t) => {
    const auth = await openAuth(t);
    const flood = async (from: number, count: number) => {
      for (let i = from; i < from + count; i++) {
        await refused('invalid_credentials', auth.login(`name-${i}`, 'wrong', `10.0.${i >> 8}.${i & 255}`));
      }
    };
    await flood(0, 130);
    const before = await entries(auth, 'login.refused');
    // A few may come back while it lasts.
    assert.ok(before.length >= 100 && before.length < 115, `${before.length}`);
    auth.clock.advance(7000);
    await flood(200, 1);
    const after = await entries(auth, 'login.refused');
    const omitted = after.reduce(
      (sum, { detail }) => sum + (typeof detail.omitted === 'number' ? detail.omitted : 0),
      0,
    );
    assert.equal(after.length + omitted, 131);
    assert.ok(omitted > 0);
    // Who comes in is always told.
    await auth.enter('ann');
    assert.equal((await entries(auth, 'login')).filter(({ action }) => action === 'login').length, 1);
  });

  test('is part of the change: without it nothing happens', async (t) => {
    const auth = await openAuth(t);
    const ann = await auth.enter('ann');
    await auth.outside.script(`alter table audit_log add constraint broken check (action = 'none') not valid`);
    await refused('internal', auth.call(updateProfile, ann, { body: { display_name: 'X' } }));
    await refused('internal', auth.login('ann', PASSWORD));
    assert.equal(await auth.outside.run(`select from users where display_name = 'X'`), 0);
    assert.equal(await auth.outside.run('select from login_sessions'), 1);
  });

  test('is only added to: the database refuses to change, delete or empty it; old entries may go', async (t) => {
    const auth = await openAuth(t);
    const { outside } = auth;
    const add = (days: number) =>
      outside.run(
        `insert into audit_log (at, username, action) values (now() - make_interval(days => $1), 'x', 'test')`,
        [days],
      );
    for (const days of [0, 89, 91, 300, 500]) await add(days);
    const refusedByDatabase = async (sql: string) =>
      assert.rejects(
        outside.run(sql),
        (error) => error instanceof StorageError && /append-only/.test(String(error.cause)),
      );
    await refusedByDatabase(`update audit_log set username = 'y'`);
    await refusedByDatabase(`update audit_log set at = now() - interval '1 year' where action = 'test'`);
    await refusedByDatabase('delete from audit_log');
    await refusedByDatabase(`delete from audit_log where at < now() - interval '80 days'`);
    await refusedByDatabase('truncate audit_log');
    await refusedByDatabase('truncate audit_log cascade');
    await refusedByDatabase(
      `insert into audit_log (id, username, action) overriding system value select id, 'y', 'y' from audit_log
       on conflict (id) do update set username = 'y'`,
    );
    assert.equal((await entries(auth, 'test')).length, 5);
    assert.equal(await purgeAudit(outside, 400), 1);
    assert.equal(await purgeAudit(outside, 1), 2);
    assert.equal((await entries(auth, 'test')).length, 2);
    await audit(outside, { userId: null, username: 'x', action: 'test' });
    assert.equal((await entries(auth, 'test')).length, 3);
  });

  test('and the log hold no password, no token and no secret, whatever was called', async (t) => {
    const auth = await openAuth(t);
    const secrets = await exercise(auth);
    assert.ok(secrets.length > 10);
    const kept = [
      ['audit', JSON.stringify(await entries(auth))],
      ['log', written(auth)],
    ] as const;
    assert.ok((await entries(auth)).length > 10 && auth.log.lines.length > 5);
    for (const [where, text] of kept) {
      for (const secret of secrets) assert.equal(text.includes(secret), false, `${secret} in the ${where}`);
      assert.doesNotMatch(text, /svc_|eyJ|Bearer|Basic |\$argon2/);
    }
  });
});
