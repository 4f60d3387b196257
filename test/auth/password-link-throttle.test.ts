/** What wrong password links cost those who send them, and nobody else. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { MAX_PER_NETWORK } from '../../actors/auth/login/place-limit.ts';
import { holdAttempts } from '../../storage/auth/attempts.ts';
import { NEW, setting } from '../support/auth/password-links.ts';
import { entries } from '../support/auth/second-factor.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { PASSWORD, unblock } from '../support/service/auth.ts';
import { refused } from '../support/service/calls.ts';
import { until } from '../support/until.ts';

failOnLeaks();

/** Like a token, and none. */
const wrong = () => randomBytes(32).toString('base64url');

test('wrong tokens count with the wrong passwords of their network, and right ones do not', async (t) => {
  const { auth, make, show, use } = await setting(t);
  const token = await make();
  for (let look = 0; look < 60; look++) {
    assert.equal((await show(token)).username, 'ann');
    await refused('not_found', show(token.slice(1)));
  }
  const counted = `select from login_attempts where key = 'network:198.51.100.7'`;
  assert.equal(await auth.db.run(counted), 0, 'neither a link that holds nor what can be none is counted');
  const blocks = async () => (await entries(auth, 'login.blocked')).map(({ target, detail }) => [target, detail]);
  /** Wrong tokens until a block begins, each from the next address; how many. What is forgiven meanwhile makes more. */
  const guess = async (from: (nth: number) => string): Promise<number> => {
    const before = (await blocks()).length;
    let made = 0;
    while ((await blocks()).length === before) {
      assert.ok(made < 1000, 'no block begins');
      await refused('not_found', show(wrong(), from(made)));
      made++;
    }
    // The first waits last a second.
    await auth.db.run(
      `update login_attempts set blocked_until = now() + interval '5 minutes' where blocked_until > '2000-01-01'`,
    );
    return made;
  };
  const made = await guess(() => '198.51.100.7');
  assert.ok(made >= 50 && made < 200, `${made}`);
  assert.deepEqual(await blocks(), [['198.51.100.7', { counted: 'network' }]]);
  const refusal = await refused('too_many_attempts', use(wrong()));
  assert.ok((refusal.retryAfter ?? 0) >= 1);
  assert.equal((await show(token)).username, 'ann', 'whoever has a link is not held up by the others of a network');
  await refused('too_many_attempts', auth.login('nobody', PASSWORD, '198.51.100.7'));
  assert.equal((await show(token, '203.0.113.5')).username, 'ann', 'others go on');
  // All networks of a site count together.
  await guess((nth) => `2001:db8:0:${Math.floor(nth / 20).toString(16)}::1`);
  assert.deepEqual((await blocks()).at(-1)?.[1], { counted: 'site' });
  await refused('too_many_attempts', show(wrong(), '2001:db8:0:ffff::1'));
  await use(token, NEW, '2001:db8:0:ffff::1');
  await unblock(auth);
  await refused('not_found', show(token));
});

test('a link that holds waits for nobody who tries wrong ones, and those take one connection', async (t) => {
  const { auth, make, show } = await setting(t);
  const token = await make();
  const waiting = () =>
    auth.outside.run(`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`);
  let misses: Promise<PromiseSettledResult<unknown>[]> | undefined;
  await auth.outside.tx(async (tx) => {
    await holdAttempts(tx, ['network:198.51.100.7']);
    misses = Promise.allSettled(Array.from({ length: 30 }, () => show(wrong())));
    await until(waiting, { what: 'one waits to be counted' });
    for (let look = 0; look < 30; look++) assert.equal((await show(token)).username, 'ann');
    assert.equal(await waiting(), 1);
  });
  await misses;
});

test('one network that brings more than its share is refused as overloaded, and others go on', async (t) => {
  const { make, show } = await setting(t);
  const token = await make();
  const settled = Promise.allSettled(Array.from({ length: MAX_PER_NETWORK * 2 }, () => show(token)));
  assert.equal((await show(token, '2001:db8::1')).username, 'ann');
  const codes = (await settled).map((result) => (result.status === 'rejected' ? String(result.reason.code) : 'shown'));
  assert.deepEqual([...new Set(codes)].sort(), ['overloaded', 'shown']);
  assert.equal((await show(token)).username, 'ann');
});
