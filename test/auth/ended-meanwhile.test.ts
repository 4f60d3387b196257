/** Calls that were proven before their session ended, and write after it: they change nothing. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { hash } from '@node-rs/argon2';
import { newPasswordLink } from '../../actors/auth/users/password-links.ts';
import { disableUser, enableUser } from '../../actors/auth/users/user-state.ts';
import { addUser, setPassword } from '../../actors/auth/users/users.ts';
import { adminEndSessions } from '../../proto/auth/admin.ts';
import { approveDevice, beginDevice, deviceToken } from '../../proto/auth/device.ts';
import {
  changePassword,
  endOtherSessions,
  endSession,
  listSessions,
  usePasswordLink,
} from '../../proto/auth/endpoints.ts';
import { holdUser, setPasswordHash, userByName } from '../../storage/auth/users.ts';
import type { Tx } from '../../storage/db.ts';
import { untilSessions } from '../../storage/offboarding.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { openAuth, otherProcess, PASSWORD } from '../support/service/auth.ts';
import { refused } from '../support/service/calls.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const NEW = 'another fine password';
const THEIRS = 'what the thief chose';
const settle = (work: Promise<unknown>) => Promise.allSettled([work]).then(([outcome]) => outcome);

/** Ann has a session that somebody stole, and a password link. */
async function setting(t: TestContext) {
  const auth = await openAuth(t);
  const { token: stolen } = await auth.login('ann', PASSWORD);
  const thief = await auth.prove(stolen);
  assert.ok(thief);
  const { userId } = thief;
  const { url } = await newPasswordLink(auth.outside, 'ann', { origin: 'https://troupe.test', expiresIn: '24h' });
  const [, linkToken = ''] = url.split('#');
  const useLink = () => auth.call(usePasswordLink, undefined, { body: { token: linkToken, new_password: NEW } });
  const endOthers = () => auth.call(endOtherSessions, thief);
  const change = () => auth.call(changePassword, thief, { body: { current_password: PASSWORD, new_password: THEIRS } });
  const onlyTheirs = async (token: string) => {
    // A process that has not seen either.
    const { authenticate } = otherProcess(t, auth);
    assert.equal(await authenticate(stolen), undefined, 'the stolen session is over');
    assert.equal((await authenticate(token))?.userId, userId, 'the session of the user goes on');
  };
  /** How many statements wait for what others hold. */
  const waiting = () =>
    auth.outside.run(`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`);
  /** Runs the works so that one after the other waits for the user's row; `first` is done by who has the row. */
  const inOrder = async (works: readonly (() => Promise<unknown>)[], first?: (tx: Tx) => Promise<unknown>) => {
    const outcomes: ReturnType<typeof settle>[] = [];
    await auth.outside.tx(async (tx) => {
      await holdUser(tx, userId);
      for (const work of works) {
        outcomes.push(settle(work()));
        await until(async () => (await waiting()) === outcomes.length, { what: 'it waits for the row' });
      }
      await first?.(tx);
    });
    return Promise.all(outcomes);
  };
  return { auth, thief, userId, useLink, endOthers, change, onlyTheirs, inOrder };
}

for (const which of ['endOthers', 'change'] as const)
  test(`a password link outdoes a call of an older session that waits behind it: ${which}`, async (t) => {
    const opened = await setting(t);
    const { auth, useLink, onlyTheirs, inOrder } = opened;
    const [used, late] = await inOrder([useLink, opened[which]]);
    assert.equal(used?.status, 'fulfilled');
    assert.ok(late?.status === 'rejected');
    await refused('unauthorized', Promise.reject(late.reason));
    await refused('invalid_credentials', auth.login('ann', THEIRS));
    await onlyTheirs((await auth.login('ann', NEW)).token);
  });

test('a session that was ended ends no others and sets no password, however it ended', async (t) => {
  const { auth, userId } = await setting(t);
  await addUser(auth.outside, 'admin', PASSWORD);
  const admin = await auth.enter('admin');
  const ways: Readonly<Record<string, () => Promise<unknown>>> = {
    'by the administrator': () => auth.call(adminEndSessions, admin, { params: { id: userId } }),
    'by the operator': () => setPassword(auth.outside, 'ann', PASSWORD),
    'by disabling the user, who is enabled again': async () => {
      await disableUser(auth.outside, 'ann', { stop: false });
      await enableUser(auth.outside, 'ann');
      await until(async () => (await untilSessions(auth.db, userId)) === 0, { what: 'new sessions count' });
    },
    'by the user, alone': async () => {
      const ann = await auth.enter('ann');
      const [, { id = 0 } = {}] = await auth.call(listSessions, ann);
      await auth.call(endSession, ann, { params: { id: String(id) } });
    },
    'by the user, with all others': async () => auth.call(endOtherSessions, await auth.enter('ann')),
  };
  for (const [how, end] of Object.entries(ways)) {
    const { token: stolen } = await auth.login('ann', PASSWORD);
    const thief = await auth.prove(stolen);
    assert.ok(thief, how);
    await end();
    const { token: theirs } = await auth.login('ann', PASSWORD);
    const { authenticate } = otherProcess(t, auth);
    await refused('unauthorized', auth.call(endOtherSessions, thief));
    const body = { current_password: PASSWORD, new_password: THEIRS };
    await refused('unauthorized', auth.call(changePassword, thief, { body }));
    assert.equal(await authenticate(stolen), undefined, how);
    assert.equal((await authenticate(theirs))?.userId, userId, how);
    await auth.login('ann', PASSWORD);
  }
});

test('a session that was ended approves no login of a program', async (t) => {
  const { auth, thief, useLink } = await setting(t);
  const { device_code, user_code } = await auth.call(beginDevice, undefined, { body: { name: 'theirs' } });
  await useLink();
  await refused('unauthorized', auth.call(approveDevice, thief, { body: { user_code, decision: 'approve' } }));
  assert.equal((await auth.call(deviceToken, undefined, { body: { device_code } })).status, 'pending');
});

test('a new password is refused when another was set since the former was proven', async (t) => {
  const { auth, userId, change, inOrder } = await setting(t);
  const other = await hash(NEW, { memoryCost: 19_456, timeCost: 2, parallelism: 1 });
  const [late] = await inOrder([change], (tx) => setPasswordHash(tx, userId, other, null));
  assert.ok(late?.status === 'rejected');
  await refused('wrong_password', Promise.reject(late.reason));
  assert.equal((await userByName(auth.db, 'ann'))?.passwordHash, other);
});

test('a password whose hash is renewed by the proof is changed', async (t) => {
  const { auth, userId, change } = await setting(t);
  const old = await hash(PASSWORD, { memoryCost: 4096, timeCost: 1, parallelism: 1 });
  await auth.db.run('update users set password_hash = $2 where id = $1', [userId, old]);
  await change();
  await auth.login('ann', THEIRS);
});
