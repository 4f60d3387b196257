/** The login throttle through the service: who waits, who does not, and that it cannot be turned against a user. */

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { PlaceLimit } from '../../actors/auth/login/place-limit.ts';
import { passwordProver } from '../../actors/auth/login/prove-password.ts';
import { keyOf } from '../../actors/auth/login/throttle-rules.ts';
import { addUser, setPassword } from '../../actors/auth/users/users.ts';
import { changePassword } from '../../proto/auth/endpoints.ts';
import { clientNetworkOf, networkOf } from '../../proto/client-network.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { silentLog } from '../support/log.ts';
import { type AuthUnderTest, openAuth, PASSWORD, unblock } from '../support/service/auth.ts';
import { refused } from '../support/service/calls.ts';

failOnLeaks();

const HOME = '192.0.2.1';

async function fail(auth: AuthUnderTest, times: number, username = 'ann', address = HOME): Promise<void> {
  for (let i = 0; i < times; i++) await refused('invalid_credentials', auth.login(username, 'wrong', address));
}

/** As if so many failures had been counted under a key just now. */
async function counted(auth: AuthUnderTest, key: string, failures: number): Promise<void> {
  await auth.db.run(
    `insert into login_attempts (key, failures) values ($1, $2)
     on conflict (key) do update set failures = excluded.failures, last_at = now()`,
    [key, failures],
  );
}

/** How much is counted under a key, rounded up: a little is forgiven every moment. */
const failures = async (auth: AuthUnderTest, key: string) => {
  for (let n = 0; n <= 100; n++) {
    if ((await auth.db.run('select from login_attempts where key = $1 and failures > $2', [key, n])) === 0) return n;
  }
  return Number.POSITIVE_INFINITY;
};

describe('a name tried from one network', () => {
  test('after five failures waits, longer with each further one, up to a quarter of an hour', async (t) => {
    const auth = await openAuth(t);
    await fail(auth, 5);
    const waits: number[] = [];
    for (let i = 0; i < 12; i++) {
      const refusal = await refused('too_many_attempts', auth.login('ann', PASSWORD));
      waits.push(refusal.retryAfter ?? 0);
      await unblock(auth);
      await fail(auth, 1);
    }
    assert.deepEqual(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900]);
  });

  test('blocks neither another network nor another user', async (t) => {
    const auth = await openAuth(t);
    await addUser(auth.outside, 'bob', PASSWORD);
    await fail(auth, 5);
    await refused('too_many_attempts', auth.login('ann', PASSWORD));
    assert.equal((await auth.login('ann', PASSWORD, '2001:db8::1')).username, 'ann');
    assert.equal((await auth.login('bob', PASSWORD)).username, 'bob');
    await refused('too_many_attempts', auth.login('ann', PASSWORD));
  });

  test('counts all networks of an IPv6 site together once more, and not those of IPv4', async (t) => {
    const auth = await openAuth(t);
    await counted(auth, 'site:2001:db8:1::/48', 199);
    // Each from a network of its own, with a name of its own.
    await fail(auth, 1, 'bob', '2001:db8:1:1::1');
    const refusal = await refused('too_many_attempts', auth.login('eve', 'x', '2001:db8:1:2::1'));
    assert.ok((refusal.retryAfter ?? 0) >= 1);
    await fail(auth, 1, 'eve', '2001:db8:2:2::1');
    await fail(auth, 1, 'eve', '192.0.2.77');
    assert.equal(await auth.db.run(`select from login_attempts where key like 'site:%'`), 2);
    // Who is known there comes in, whatever the neighbours do.
    await unblock(auth);
    await auth.login('ann', PASSWORD, '2001:db8:1:3::1');
    await counted(auth, 'site:2001:db8:1::/48', 300);
    await unblock(auth);
    await fail(auth, 1, 'bob', '2001:db8:1:4::1');
    await auth.login('ann', PASSWORD, '2001:db8:1:3::2');
    await refused('too_many_attempts', auth.login('ann', PASSWORD, '2001:db8:1:5::1'));
  });

  test('is one for all addresses of an IPv6 network, and for IPv4 written as IPv6', async (t) => {
    const auth = await openAuth(t);
    for (let i = 1; i <= 5; i++) await fail(auth, 1, 'ann', `2001:db8:1:2:${i}::${i}`);
    await refused('too_many_attempts', auth.login('ann', PASSWORD, '2001:db8:1:2::ffff'));
    await auth.login('ann', PASSWORD, '2001:db8:1:3::ffff');
    await fail(auth, 5, 'bob', '::ffff:192.0.2.7');
    await refused('too_many_attempts', auth.login('bob', PASSWORD, '192.0.2.7'));
  });

  test('counts unknown names too, and all impossible ones as one; what was typed is not kept', async (t) => {
    const auth = await openAuth(t);
    await fail(auth, 5, 'hunter22');
    await refused('too_many_attempts', auth.login('hunter22', 'x'));
    for (let i = 0; i < 5; i++) await refused('invalid_credentials', auth.login(`Not A Name ${i}`, 'x'));
    await refused('too_many_attempts', auth.login('Another\0', 'x'));
    // Two names, each also by itself, and the network.
    assert.equal(await auth.db.run('select from login_attempts'), 5);
    const kept = [
      `select from login_attempts where key like '%hunter22%'`,
      `select from audit_log where audit_log::text like '%hunter22%'`,
    ];
    for (const query of kept) assert.equal(await auth.db.run(query), 0);
    assert.doesNotMatch(JSON.stringify(auth.log.lines), /hunter22|Not A Name/);
  });

  test('is not slipped through by twenty guesses at once, on one node or on three', async (t) => {
    const auth = await openAuth(t);
    const parts = { clock: auth.clock, log: silentLog };
    const nodes = [auth.db, auth.outside, auth.outside].map((db) => passwordProver({ ...parts, db }, new PlaceLimit()));
    const guess = (i: number) =>
      nodes[i % 3]?.prove({ username: 'ann', password: `${i}`, address: HOME, requestId: '', purpose: 'login' });
    for (const [username, one] of [
      ['ann', guess],
      ['bob', (i: number) => auth.login('bob', `guess ${i}`)],
    ] as const) {
      const began = performance.now();
      const results = await Promise.allSettled(Array.from({ length: 21 }, (_, i) => one(i)));
      const codes = results.map((result) => (result.status === 'rejected' ? String(result.reason.code) : 'in'));
      const lookedAt = codes.filter((code) => code === 'invalid_credentials').length;
      // Where all of this takes seconds, the waits of 1, 2, 4 ... s that pass meanwhile let one more in each.
      const waitsPassed = Math.floor(Math.log2(1 + (performance.now() - began) / 1000));
      assert.ok(lookedAt >= 5 && lookedAt <= 5 + waitsPassed, `${username}: ${codes}`);
      assert.equal(codes.filter((code) => code === 'too_many_attempts').length, 21 - lookedAt, username);
    }
  });

  test('lets any number of right passwords in at once', async (t) => {
    const auth = await openAuth(t);
    await Promise.all(Array.from({ length: 12 }, () => auth.enter('ann')));
  });

  test('forgets the failures after the right password', async (t) => {
    const auth = await openAuth(t);
    for (let i = 0; i < 3; i++) {
      await fail(auth, 4);
      await auth.enter('ann');
    }
  });

  test('forgets everything after a quiet hour', async (t) => {
    const auth = await openAuth(t);
    await fail(auth, 5);
    for (let i = 0; i < 5; i++) {
      await unblock(auth);
      await fail(auth, 1);
    }
    await unblock(auth);
    await auth.db.run(`update login_attempts set last_at = now() - interval '61 minutes'`);
    await fail(auth, 5);
    assert.equal((await refused('too_many_attempts', auth.login('ann', PASSWORD))).retryAfter, 1);
  });

  test('lets a user in whose wait is over by the clock of the database, although that of the node was set back', async (t) => {
    const auth = await openAuth(t);
    await fail(auth, 5);
    await refused('too_many_attempts', auth.login('ann', PASSWORD));
    auth.clock.advance(-3_600_000);
    await unblock(auth);
    await auth.login('ann', PASSWORD);
  });

  test('once blocked is refused without asking the database', async (t) => {
    const auth = await openAuth(t);
    await fail(auth, 5);
    await refused('too_many_attempts', auth.login('ann', 'wrong'));
    auth.db.failure = new Error('asked');
    await refused('too_many_attempts', auth.login('ann', 'wrong'));
  });
});

describe('one network that tries many names', () => {
  const network = keyOf('network', '', clientNetworkOf('203.0.113.5'));

  test('waits after fifty failures, longer and longer, whatever the name', async (t) => {
    const auth = await openAuth(t);
    await counted(auth, network, 48);
    await fail(auth, 1, 'one', '203.0.113.5');
    await fail(auth, 1, 'two', '203.0.113.5');
    await counted(auth, network, 50);
    const waits: number[] = [];
    for (let i = 0; i < 10; i++) {
      await unblock(auth);
      await fail(auth, 1, `name-${i}`, '203.0.113.5');
      waits.push((await refused('too_many_attempts', auth.login(`other-${i}`, 'x', '203.0.113.5'))).retryAfter ?? 0);
    }
    assert.deepEqual(waits, [2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
    // A refused attempt leaves nothing in the table.
    assert.equal(await auth.db.run(`select from login_attempts where key like 'pair:%'`), 12);
    await auth.login('ann', PASSWORD, '203.0.113.6');
  });

  test('does not keep those out who have logged in from there', async (t) => {
    const auth = await openAuth(t);
    await addUser(auth.outside, 'bob', PASSWORD);
    await auth.login('ann', PASSWORD, '203.0.113.5');
    await counted(auth, network, 60);
    await fail(auth, 1, 'nobody', '203.0.113.5');
    await refused('too_many_attempts', auth.login('bob', PASSWORD, '203.0.113.5'));
    await auth.login('ann', PASSWORD, '203.0.113.5');
    // Who is known is still counted by name.
    await fail(auth, 5, 'ann', '203.0.113.5');
    await refused('too_many_attempts', auth.login('ann', PASSWORD, '203.0.113.5'));
  });

  test('gets back what a right password had been counted for, and not more', async (t) => {
    const auth = await openAuth(t);
    await addUser(auth.outside, 'bob', PASSWORD);
    await fail(auth, 3, 'ann', '203.0.113.5');
    await auth.login('bob', PASSWORD, '203.0.113.5');
    assert.equal(await failures(auth, network), 3);
  });
});

describe('many networks that try one name', () => {
  const name = keyOf('name', 'ann', clientNetworkOf(''));

  test('get no more than a guess in ten seconds, all together', async (t) => {
    const auth = await openAuth(t);
    await counted(auth, name, 59);
    await auth.db.run(`update login_attempts set last_at = now() + interval '1 minute'`); // Nothing is forgiven meanwhile.
    const waits: number[] = [];
    for (let i = 0; i < 8; i++) {
      await fail(auth, 1, 'ann', `198.51.100.${i}`);
      waits.push((await refused('too_many_attempts', auth.login('ann', 'x', `198.51.101.${i}`))).retryAfter ?? 0);
      await unblock(auth);
    }
    assert.deepEqual(waits, [1, 2, 4, 8, 10, 10, 10, 10]);
  });

  test('never keep the user out where the user has been, and ask elsewhere for ten seconds at most', async (t) => {
    const auth = await openAuth(t);
    await auth.login('ann', PASSWORD, HOME);
    await counted(auth, name, 1000);
    await fail(auth, 1, 'ann', '198.51.100.1');
    await auth.login('ann', PASSWORD, HOME);
    const { retryAfter = 0 } = await refused('too_many_attempts', auth.login('ann', PASSWORD, '198.51.100.9'));
    assert.ok(retryAfter >= 1 && retryAfter <= 10, `${retryAfter}`);
    await unblock(auth);
    await auth.login('ann', PASSWORD, '198.51.100.9');
  });

  test('are told the same of a user that does not exist', async (t) => {
    const auth = await openAuth(t);
    const texts: string[] = [];
    for (const username of ['ann', 'nobody']) {
      await counted(auth, keyOf('name', username, clientNetworkOf('')), 1000);
      await fail(auth, 1, username, '198.51.100.1');
      const refusal = await refused('too_many_attempts', auth.login(username, 'x', '198.51.100.9'));
      texts.push(`${refusal.message} ${refusal.retryAfter}`);
    }
    assert.equal(texts[0], texts[1]);
  });

  test('are strangers again where a password was used that is changed now', async (t) => {
    const auth = await openAuth(t);
    const known = () => auth.db.run('select from login_networks');
    await auth.login('ann', PASSWORD, '198.51.100.1');
    const ann = await auth.enter('ann');
    assert.equal(await known(), 2);
    const body = { current_password: PASSWORD, new_password: 'another fine password' };
    await auth.call(changePassword, ann, { body });
    assert.equal(await known(), 1);
    assert.equal(await auth.db.run('select from login_networks where network = $1', [HOME]), 1);
    await setPassword(auth.outside, 'ann', PASSWORD);
    assert.equal(await known(), 0);
  });

  test('a user may come from: the latest hundred are remembered', async (t) => {
    const auth = await openAuth(t);
    await auth.enter('ann');
    await auth.db.run(
      `insert into login_networks select id, 'net ' || i, now() - make_interval(mins => i) from users, generate_series(1, 150) i`,
    );
    await auth.enter('ann');
    assert.equal(await auth.db.run('select from login_networks'), 100);
    assert.equal(await auth.db.run(`select from login_networks where network = 'net 99'`), 1);
    await auth.db.run(`update login_networks set last_at = now() - interval '91 days' where network = $1`, [HOME]);
    await counted(auth, name, 1000);
    await fail(auth, 1);
    await refused('too_many_attempts', auth.login('ann', PASSWORD));
  });
});

test('the network of an address', () => {
  const cases = {
    '192.0.2.1': '192.0.2.1',
    '::ffff:192.0.2.1': '192.0.2.1',
    '::FFFF:c000:201': '192.0.2.1',
    '0:0:0:0:0:ffff:192.0.2.1': '192.0.2.1',
    '2001:db8:1:2:3:4:5:6': '2001:db8:1:2::/64',
    '2001:0DB8:0001:0002::': '2001:db8:1:2::/64',
    '2001:db8::1': '2001:db8:0:0::/64',
    'fe80::1%eth0': 'fe80:0:0:0::/64',
    '::1': '0:0:0:0::/64',
    '::': '0:0:0:0::/64',
    '1:2:3:4:5:6:7:8:9': '1:2:3:4:5:6:7:8:9',
    '1::2::3': '1::2::3',
    '1:2:3:4:5:6:7::': '1:2:3:4::/64',
    '1:2:3:4:5:6:7::8': '1:2:3:4:5:6:7::8',
    '': '',
  };
  for (const [address, network] of Object.entries(cases)) assert.equal(networkOf(address), network, address);
});
