/** Whether time or words tell which users exist (A12), and what passwords and names may be made of (A11, A14). */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { addUser } from '../../actors/auth/users/users.ts';
import { changePassword, login } from '../../proto/auth/endpoints.ts';
import { differs } from '../support/auth/distributions.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { type House, openHouse, PASSWORD } from '../support/service/auth.ts';
import { refused } from '../support/service/compute.ts';

failOnLeaks();

const SAMPLES = 200;

/** How long refused logins took, ms: of two kinds in turn, each from a network of its own so that nothing is throttled. */
async function sample(house: House, names: readonly [string, string]): Promise<[number[], number[]]> {
  const times: [number[], number[]] = [[], []];
  const take = async (kind: 0 | 1, i: number) => {
    const started = performance.now();
    await refused('invalid_credentials', house.login(names[kind], 'wrong', `10.${kind}.${i >> 8}.${i & 255}`));
    return performance.now() - started;
  };
  for (let i = 0; i < SAMPLES + 10; i++) {
    // The counts by name are not what is measured, and the audit trail has room for both or for neither.
    if (i % 20 === 0) await house.db.run('delete from login_attempts');
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
  test('takes the same time for a user and for nobody (A12)', async (t) => {
    const house = await openHouse(t);
    const [someone, nobody] = await sample(house, ['ann', 'nobody']);

    assert.equal(differs(someone, nobody), false);
    // The same measurement sees a leak: a hash that verifies at once, as if the hash were skipped.
    await house.db.run(`update users set password_hash = 'none'`);
    const [skipped, hashed] = await sample(house, ['ann', 'nobody']);

    assert.equal(differs(skipped, hashed), true);
  });
});

describe('a password', () => {
  test('may be empty, have NUL, or be long in a login: it is a wrong one, or too long to be read (A11)', async (t) => {
    const house = await openHouse(t);
    const wrong = ['', '\0', `${PASSWORD}\0`, `\0${PASSWORD}`, PASSWORD.slice(0, -1), `${PASSWORD} `, 'x'.repeat(1024)];
    const texts = new Set<string>();
    for (const [i, password] of wrong.entries()) {
      texts.add((await refused('invalid_credentials', house.login('ann', password, `192.0.2.${i}`))).message);
    }
    assert.equal(texts.size, 1);
    for (const password of ['x'.repeat(1025), 'x'.repeat(2 ** 20)]) {
      await refused(
        'invalid_request',
        (async () => house.call(login, undefined, { body: { username: 'ann', password } }))(),
      );
    }
    assert.equal(await house.db.run(`select from login_attempts where key like 'pair:%'`), wrong.length);
  });

  test('counts to its last byte, beyond the 72nd and beyond what one character weighs (A11)', async (t) => {
    const house = await openHouse(t);
    const ann = await house.enter('ann');
    let current = PASSWORD;
    for (const base of ['a'.repeat(80), 'ä'.repeat(40), '🚀'.repeat(20)]) {
      const next = `${base}suffix`;
      await house.call(changePassword, ann, { body: { current_password: current, new_password: next } });
      for (const wrong of [base, `${base}suffiX`, `${base}suffix `])
        await refused('invalid_credentials', house.login('ann', wrong));
      await house.login('ann', next);
      current = next;
    }
  });

  test('is the same in both Unicode forms, whichever it was set in (A11)', async (t) => {
    const house = await openHouse(t);
    const text = 'Ångström é ﬁ 한글';
    for (const [i, form] of (['NFC', 'NFD'] as const).entries()) {
      await addUser(house.outside, `user-${i}`, text.normalize(form));
      await house.login(`user-${i}`, text.normalize('NFC'));
      await house.login(`user-${i}`, text.normalize('NFD'));
      // Compatibility forms are other passwords: nothing is folded that a person can see.
      await refused('invalid_credentials', house.login(`user-${i}`, text.normalize('NFKC')));
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

  test('has no twins in case or Unicode: none can be made, and none logs in as it (A14)', async (t) => {
    const house = await openHouse(t);
    for (const [i, twin] of TWINS.entries()) {
      await refused('invalid_request', addUser(house.outside, twin, PASSWORD));
      await refused('invalid_credentials', house.login(twin, PASSWORD, `192.0.2.${i}`));
    }
    // The database itself holds to it.
    for (const twin of TWINS) {
      await assert.rejects(
        house.db.run(
          `insert into users (id, username, display_name, password_hash) values ('abcdefghijkl', $1, 'x', 'x')`,
          [twin],
        ),
      );
    }
    assert.equal(await house.db.run('select from users'), 1);
  });

  test('asked for at once is given once (A14)', async (t) => {
    const house = await openHouse(t);
    const results = await Promise.allSettled(Array.from({ length: 8 }, () => addUser(house.outside, 'bob', PASSWORD)));
    assert.equal(results.filter(({ status }) => status === 'fulfilled').length, 1);
    assert.equal(
      await house.db.run(`select from audit_log where action = 'user.add' and detail->>'username' = 'bob'`),
      1,
    );
  });

  test('is never the one that the audit trail calls operators by', async (t) => {
    const house = await openHouse(t);
    await refused('invalid_request', addUser(house.outside, 'operator', PASSWORD));
  });
});
