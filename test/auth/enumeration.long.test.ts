/** Whether time or words tell which users exist, and what passwords and names may be made of. */

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { addUser } from '../../actors/auth/users/users.ts';
import { changePassword, login } from '../../proto/auth/endpoints.ts';
import { differs } from '../support/auth/distributions.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { type AuthUnderTest, openAuth, PASSWORD } from '../support/service/auth.ts';
import { refused } from '../support/service/calls.ts';

failOnLeaks();

/** How long refused logins took, ms: of two kinds in turn, each from a network of its own so that nothing is throttled. */
async function sample(
  auth: AuthUnderTest,
  names: readonly [string, string],
  count: number,
): Promise<[number[], number[]]> {
  const times: [number[], number[]] = [[], []];
  const take = async (kind: 0 | 1, i: number) => {
    const started = performance.now();
    await refused('invalid_credentials', auth.login(names[kind], 'wrong', `10.${kind}.${i >> 8}.${i & 255}`));
    return performance.now() - started;
  };
  for (let i = 0; i < count + 10; i++) {
    // The counts by name are not what is measured, and the audit trail has room for both or for neither.
    if (i % 20 === 0) await auth.db.run('delete from login_attempts');
    // Who is first takes turns, too.
    const order = i % 2 === 0 ? ([0, 1] as const) : ([1, 0] as const);
    for (const kind of order) {
      const took = await take(kind, i);
      if (i >= 10) times[kind].push(took);
    }
  }
  return times;
}

describe('a refused login', () => {
  test('takes the same time for a user and for nobody', async (t) => {
    const auth = await openAuth(t);
    const [someone, nobody] = await sample(auth, ['ann', 'nobody'], 100);

    assert.equal(differs(someone, nobody), false);
    // The same measurement sees a leak: a hash that verifies at once, as if the hash were skipped.
    await auth.db.run(`update users set password_hash = 'none'`);
    const [skipped, hashed] = await sample(auth, ['ann', 'nobody'], 40);

    assert.equal(differs(skipped, hashed), true);
  });
});

describe('a password', () => {
  test('may be empty, have NUL, or be long in a login: it is a wrong one, or too long to be read', async (t) => {
    const auth = await openAuth(t);
    const wrong = ['', '\0', `${PASSWORD}\0`, `\0${PASSWORD}`, PASSWORD.slice(0, -1), `${PASSWORD} `, 'x'.repeat(1024)];
    const texts = new Set<string>();
    for (const [i, password] of wrong.entries()) {
      texts.add((await refused('invalid_credentials', auth.login('ann', password, `192.0.2.${i}`))).message);
    }
    assert.equal(texts.size, 1);
    for (const password of ['x'.repeat(1025), 'x'.repeat(2 ** 20)]) {
      await refused(
        'invalid_request',
        (async () => auth.call(login, undefined, { body: { username: 'ann', password } }))(),
      );
    }
    assert.equal(await auth.db.run(`select from login_attempts where key like 'pair:%'`), wrong.length);
  });

  test('counts to its last byte, beyond the 72nd and beyond what one character weighs', async (t) => {
    const auth = await openAuth(t);
    const ann = await auth.enter('ann');
    let current = PASSWORD;
    for (const base of ['a'.repeat(80), 'ä'.repeat(40), '🚀'.repeat(20)]) {
      const next = `${base}suffix`;
      await auth.call(changePassword, ann, { body: { current_password: current, new_password: next } });
      for (const wrong of [base, `${base}suffiX`, `${base}suffix `])
        await refused('invalid_credentials', auth.login('ann', wrong));
      await auth.login('ann', next);
      current = next;
    }
  });

  test('is the same in both Unicode forms, whichever it was set in', async (t) => {
    const auth = await openAuth(t);
    const text = 'Ångström é ﬁ 한글';
    for (const [i, form] of (['NFC', 'NFD'] as const).entries()) {
      await addUser(auth.outside, `user-${i}`, text.normalize(form));
      await auth.login(`user-${i}`, text.normalize('NFC'));
      await auth.login(`user-${i}`, text.normalize('NFD'));
      // Compatibility forms are other passwords: nothing is folded that a person can see.
      await refused('invalid_credentials', auth.login(`user-${i}`, text.normalize('NFKC')));
    }
  });
});

describe('a user name', () => {
  const TWINS = [
    'Ann',
    'ANN',
    'ann ',
    ' ann',
    'ann\u200b',
    'аnn',
    'ａｎｎ',
    'ann\u0301',
    'ann\0',
    'ann\n',
    'aｎn',
    'ánn',
  ];

  test('has no twins in case or Unicode: none can be made, and none logs in as it', async (t) => {
    const auth = await openAuth(t);
    for (const [i, twin] of TWINS.entries()) {
      await refused('invalid_request', addUser(auth.outside, twin, PASSWORD));
      await refused('invalid_credentials', auth.login(twin, PASSWORD, `192.0.2.${i}`));
    }
    // The database itself holds to it.
    for (const twin of TWINS) {
      await assert.rejects(
        auth.db.run(
          `insert into users (id, username, display_name, password_hash) values ('abcdefghijkl', $1, 'x', 'x')`,
          [twin],
        ),
      );
    }
    assert.equal(await auth.db.run('select from users'), 1);
  });

  test('asked for at once is given once', async (t) => {
    const auth = await openAuth(t);
    const results = await Promise.allSettled(Array.from({ length: 8 }, () => addUser(auth.outside, 'bob', PASSWORD)));
    assert.equal(results.filter(({ status }) => status === 'fulfilled').length, 1);
    assert.equal(
      await auth.db.run(`select from audit_log where action = 'user.add' and detail->>'username' = 'bob'`),
      1,
    );
  });

  test('is never the one that the audit trail calls operators by', async (t) => {
    const auth = await openAuth(t);
    await refused('invalid_request', addUser(auth.outside, 'operator', PASSWORD));
  });
});
