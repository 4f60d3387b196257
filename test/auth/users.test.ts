import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, mock, test } from 'node:test';
import { addUser, ensureAdmin, generatePassword, listUsers, setPassword } from '../../actors/auth/users/users.ts';
import { changePassword, listSessions, session, updateProfile, userChanged } from '../../proto/auth/endpoints.ts';
import { recordLogin } from '../../storage/auth/sessions.ts';
import { StorageError } from '../../storage/errors.ts';
import { append } from '../../storage/outbox.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { type AuthUnderTest, openAuth, PASSWORD } from '../support/service/auth.ts';
import { refused } from '../support/service/calls.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const NEW = 'another fine password';
const body = (current_password: string, new_password = NEW) => ({ body: { current_password, new_password } });

describe('the profile', () => {
  test('is read and changed, and stays changed', async (t) => {
    const auth = await openAuth(t);
    const ann = await auth.enter('ann');
    const shown = { username: 'ann', display_name: 'ann', user_id: ann.userId, is_admin: false };
    const expires_at = new Date(ann.expiresAt * 1000).toISOString();
    assert.deepEqual(await auth.call(session, ann), { ...shown, expires_at });
    assert.deepEqual(await auth.call(updateProfile, ann, { body: { display_name: '  Änn 🚀 ' } }), {
      ...{ username: 'ann', display_name: 'Änn 🚀', user_id: ann.userId },
    });
    assert.equal((await auth.call(session, ann)).display_name, 'Änn 🚀');
    assert.equal((await auth.login('ann', PASSWORD)).display_name, 'Änn 🚀');
  });

  test('takes no name that is empty, too long or has control characters', async (t) => {
    const auth = await openAuth(t);
    const ann = await auth.enter('ann');
    for (const display_name of ['', '   ', 'a'.repeat(129), 'a\nb', 'a\0', '\u009b31m', 7, null]) {
      await refused('invalid_request', (async () => auth.call(updateProfile, ann, { body: { display_name } }))());
    }
    assert.equal((await auth.call(session, ann)).display_name, 'ann');
  });
});

describe('the password', () => {
  test('is changed by who knows the present one; the old one opens no more, the token that asked still does', async (t) => {
    const auth = await openAuth(t);
    const ann = await auth.enter('ann');
    assert.equal(await auth.call(changePassword, ann, body(PASSWORD)), undefined);
    await refused('invalid_credentials', auth.login('ann', PASSWORD));
    await auth.enter('ann', NEW);
    assert.equal((await auth.call(session, ann)).username, 'ann');
  });

  test('is not changed with a wrong present one, and guessing it is throttled like a login', async (t) => {
    const auth = await openAuth(t);
    const ann = await auth.enter('ann');
    for (let i = 0; i < 5; i++) await refused('wrong_password', auth.call(changePassword, ann, body('wrong')));
    const refusal = await refused('too_many_attempts', auth.call(changePassword, ann, body(PASSWORD)));
    assert.equal(refusal.retryAfter, 1);
    await refused('too_many_attempts', auth.login('ann', PASSWORD));
    await auth.login('ann', PASSWORD, '192.0.2.9');
  });

  test('must have 8 to 256 characters, counted as people count them', async (t) => {
    const auth = await openAuth(t);
    const ann = await auth.enter('ann');
    for (const text of ['', '1234567', '🚀'.repeat(7), 'a'.repeat(257), 'abcdefgh\0']) {
      await refused('invalid_request', (async () => auth.call(changePassword, ann, body(PASSWORD, text)))());
    }
    await auth.call(changePassword, ann, body(PASSWORD, '🚀'.repeat(256)));
    await auth.enter('ann', '🚀'.repeat(256));
  });

  test('that an operator just replaced changes nothing any more, even before the news has come', async (t) => {
    const auth = await openAuth(t);
    await addUser(auth.outside, 'bob', NEW);
    const ann = await auth.enter('ann');
    await auth.call(session, ann);
    await auth.outside.run(
      `update users set password_hash = (select password_hash from users where username = 'bob') where username = 'ann'`,
    );
    await refused('wrong_password', auth.call(changePassword, ann, body(PASSWORD, 'mine for ever')));
    await auth.enter('ann', NEW);
  });
});

describe('the list of sessions', () => {
  test('shows each login that has not expired, newest first, and which one is asking', async (t) => {
    const auth = await openAuth(t);
    const first = await auth.enter('ann');
    const { token } = await auth.login('ann', PASSWORD, '2001:db8::7');
    const second = await auth.prove(token);
    const list = await auth.call(listSessions, first);
    assert.deepEqual(
      list.map(({ ip_address, is_current }) => [ip_address, is_current]),
      [
        ['2001:db8::7', false],
        ['192.0.2.1', true],
      ],
    );
    const fields = ['created_at', 'id', 'ip_address', 'is_current', 'last_seen_at', 'user_agent'];
    assert.deepEqual(Object.keys(list[0] ?? {}).sort(), fields);
    assert.ok(Math.abs((list[0]?.created_at ?? 0) - Date.now() / 1000) < 3600);
    assert.deepEqual(
      (await auth.call(listSessions, second)).map(({ is_current }) => is_current),
      [true, false],
    );
  });

  test('drops what has expired, and keeps the newest two hundred', async (t) => {
    const auth = await openAuth(t);
    const ann = await auth.enter('ann');
    const add = (i: number, inMs: number) => {
      const expiresAt = new Date(Date.now() + inMs);
      return recordLogin(auth.db, {
        ...{ tokenId: `t${i}`, userId: ann.userId, username: 'ann', expiresAt, requestId: '' },
        ...{ address: `10.0.0.${i}`, userAgent: '', network: `10.0.0.${i}`, forgives: null, detail: {} },
      });
    };
    await add(0, -1000);
    assert.equal((await auth.call(listSessions, ann)).length, 1);
    for (let i = 1; i <= 205; i++) await add(i, 3600_000);
    const list = await auth.call(listSessions, ann);
    assert.equal(list.length, 200);
    assert.equal(list[0]?.ip_address, '10.0.0.205');
    assert.equal(await auth.db.run('select from login_sessions'), 200);
  });

  test('is everybody’s own', async (t) => {
    const auth = await openAuth(t);
    await addUser(auth.outside, 'bob', PASSWORD);
    const [ann, bob] = [await auth.enter('ann'), await auth.enter('bob')];
    assert.equal((await auth.call(listSessions, ann)).length, 1);
    assert.equal((await auth.call(listSessions, bob)).length, 1);
  });
});

describe('users changed from the command line', () => {
  const forget = async (auth: AuthUnderTest, userId: string) => {
    await auth.outside.tx(async (tx) => {
      await tx.run('delete from users where id = $1', [userId]);
      await append(tx, { msgId: randomUUID(), subject: userChanged.subject(userId), data: new Uint8Array() });
    });
  };

  test('a new password is known to the running service', async (t) => {
    const auth = await openAuth(t);
    const ann = await auth.enter('ann');
    assert.equal((await auth.call(session, ann)).display_name, 'ann');
    await auth.outside.run(`update users set display_name = 'Ann of old' where username = 'ann'`);
    assert.equal((await auth.call(session, ann)).display_name, 'ann');
    await setPassword(auth.outside, 'ann', NEW);
    // The news makes it read the whole row again.
    await until(async () => (await auth.call(session, ann)).display_name === 'Ann of old');
    await auth.call(changePassword, await auth.enter('ann', NEW), body(NEW, PASSWORD));
    await auth.enter('ann');
  });

  test('a user who is gone is logged in no more', async (t) => {
    const auth = await openAuth(t);
    const ann = await auth.enter('ann');
    assert.equal((await auth.call(session, ann)).username, 'ann');
    await forget(auth, ann.userId);
    await until(async () => {
      try {
        await auth.call(session, ann);
        return false;
      } catch (error) {
        return error instanceof Error && 'code' in error && error.code === 'unauthorized';
      }
    });
    for (const endpoint of [session, listSessions]) await refused('unauthorized', auth.call(endpoint, ann));
    await refused('unauthorized', auth.call(updateProfile, ann, { body: { display_name: 'x' } }));
    await refused('invalid_credentials', auth.login('ann', PASSWORD));
  });

  test('a user who is gone is found out by the next change, without any news', async (t) => {
    const auth = await openAuth(t);
    const ann = await auth.enter('ann');
    await auth.call(session, ann);
    await auth.outside.run('delete from users where id = $1', [ann.userId]);
    await refused('unauthorized', auth.call(updateProfile, ann, { body: { display_name: 'x' } }));
    await refused('unauthorized', auth.call(changePassword, ann, body(PASSWORD)));
  });

  test('who asks while the news is looked into is told of the end, too', async (t) => {
    const auth = await openAuth(t);
    const ann = await auth.enter('ann');
    assert.equal((await auth.call(session, ann)).username, 'ann');
    const one = auth.db.one.bind(auth.db);
    const asked: Promise<unknown>[] = [];
    auth.db.one = (schema, text, values) => {
      if (text.includes('from users where id')) {
        for (let i = 0; i < 10; i++) asked.push(refused('unauthorized', auth.call(session, ann)));
      }
      return one(schema, text, values);
    };
    await forget(auth, ann.userId);
    await until(() => asked.length >= 10);
    auth.db.one = one;
    await Promise.all(asked);
  });

  test('names are 1 to 63 of a-z, 0-9, ".", "_" and "-", and taken once', async (t) => {
    const auth = await openAuth(t);
    const bad = ['', 'Ann', 'ann ', ' ann', '.ann', '-ann', '_ann', 'a b', 'änn', 'a/b', '../a', 'a\0', 'a'.repeat(64)];
    for (const name of bad) {
      await refused('invalid_request', addUser(auth.outside, name, PASSWORD));
    }
    for (const name of ['a', '0', 'a.b_c-d', 'a'.repeat(63)]) await addUser(auth.outside, name, PASSWORD);
    assert.match((await refused('conflict', addUser(auth.outside, 'ann', PASSWORD))).message, /ann/);
    for (const password of ['short', 'a'.repeat(257), 'abcdefgh\0']) {
      await refused('invalid_request', addUser(auth.outside, 'new', password));
      await refused('invalid_request', setPassword(auth.outside, 'ann', password));
    }
    await refused('not_found', setPassword(auth.outside, 'nobody', PASSWORD));
    const users = await listUsers(auth.outside);
    assert.deepEqual(
      users.map(({ username }) => username),
      ['0', 'a', 'a'.repeat(63), 'a.b_c-d', 'ann'].sort(),
    );
    assert.equal('passwordHash' in (users[0] ?? {}), false);
  });

  test('one name asked for by many at once is given to one', async (t) => {
    const auth = await openAuth(t);
    const results = await Promise.allSettled(Array.from({ length: 5 }, () => addUser(auth.outside, 'bob', PASSWORD)));
    assert.equal(results.filter(({ status }) => status === 'fulfilled').length, 1);
  });
});

describe('the first administrator', () => {
  test('is made once, with a password that is told once', async (t) => {
    const auth = await openAuth(t);
    const made = await ensureAdmin(auth.outside, 'admin', undefined);
    assert.match(made.generated ?? '', /^[A-Za-z2-9]{20}$/);
    assert.equal((await auth.login('admin', made.generated ?? '')).is_admin, true);
    assert.deepEqual(await ensureAdmin(auth.outside, 'admin', undefined), { created: false, generated: null });
    assert.deepEqual(await ensureAdmin(auth.outside, 'admin', NEW), { created: false, generated: null });
    await refused('invalid_credentials', auth.login('admin', NEW));
  });

  test('is one, when several processes make it at once', async (t) => {
    const auth = await openAuth(t);
    const made = await Promise.all(Array.from({ length: 4 }, () => ensureAdmin(auth.outside, 'admin', undefined)));
    const [winner, ...others] = made.filter(({ created }) => created);
    assert.equal(others.length, 0);
    assert.equal(made.filter(({ generated }) => generated !== null).length, 1);
    await auth.enter('admin', winner?.generated ?? '');
  });

  test('has the given password, which must be a good one', async (t) => {
    const auth = await openAuth(t);
    await refused('invalid_request', ensureAdmin(auth.outside, 'admin', 'short'));
    assert.deepEqual(await ensureAdmin(auth.outside, 'admin', NEW), { created: true, generated: null });
    await auth.enter('admin', NEW);
  });

  test('a generated password is another one each time', () => {
    assert.equal(new Set(Array.from({ length: 100 }, generatePassword)).size, 100);
  });
});

test('attempts that the throttle has forgotten are thrown away every hour, also after an hour it could not', async (t) => {
  mock.timers.enable({ apis: ['setInterval'] });
  t.after(() => mock.timers.reset());
  const auth = await openAuth(t);
  const failures = () => auth.log.lines.filter(({ message }) => message.includes('could not be purged')).length;
  auth.db.failure = new StorageError('unavailable', 'gone');
  // The first time is at the start, which may be over or not.
  const before = failures();
  await auth.outside.run(
    `insert into login_attempts (key, last_at) values
       ('old', now() - interval '61 minutes'), ('new', now() - interval '59 minutes')`,
  );
  const left = () => auth.outside.run('select from login_attempts');
  mock.timers.tick(3_600_000);
  await until(() => failures() > before);
  auth.db.failure = undefined;
  assert.equal(await left(), 2);
  mock.timers.tick(3_600_000);
  await until(async () => (await left()) === 1);
});
