/** Whose certificate is ordered next: no user's names use up what all have. */
import assert from 'node:assert/strict';
import { createSecretKey } from 'node:crypto';
import { type TestContext, test } from 'node:test';
import { registrableOf } from '../../actors/network/hostname-rules.ts';
import { newId } from '../../proto/ids.ts';
import type { Db } from '../../storage/db.ts';
import { accountBudget, addAcmeAccount, DAILY_SHARE, KEPT_FOR_RENEWALS } from '../../storage/network/acme.ts';
import { dueHostnames, hastenOrder, postponeOrder, startOrder } from '../../storage/network/certificate-orders.ts';
import { testDatabase } from '../support/database/database.ts';
import { failOnLeaks } from '../support/leaks.ts';

failOnLeaks();

const DIRECTORY = 'https://ca.test/directory';
const sealKey = createSecretKey(Buffer.alloc(32, 7));
const [ANN, BOB, EVE] = ['aaaaaaaaaaaa', 'bbbbbbbbbbbb', 'eeeeeeeeeeee'];

async function open(t: TestContext): Promise<Db> {
  const database = await testDatabase();
  t.after(() => database.close());
  await addAcmeAccount(database.db, DIRECTORY, sealKey, 'a key');
  return database.db;
}

/** Verified mappings of a user; with `endsIn` days their certificates are due for renewal. */
async function map(db: Db, userId: string, names: readonly string[], endsIn?: number): Promise<void> {
  for (const name of names) {
    await db.run(
      `insert into domain_mappings (id, user_id, domain, container_id, target_port, status, verify_token, pending_since, verified_at)
       values ($1, $2, $3, 'cccccccccccc', 80, 'verified', 'x', now(), clock_timestamp())`,
      [newId(), userId, name],
    );
    if (endsIn !== undefined)
      await db.run(
        `insert into certificates (hostname, chain, key_sealed, serial, not_after, renew_at)
         values ($1, 'chain', 'key', 1, now() + $2 * interval '1 day', now() - interval '1 hour')`,
        [name, endsIn],
      );
  }
}

const order = (db: Db, hostname: string) =>
  startOrder(db, hostname, { directoryUrl: DIRECTORY, leaseMs: 1, sealKey, registrable: registrableOf(hostname) });

test('renewals come first, the soonest end before others; new names follow, one of each user in turn', async (t) => {
  const db = await open(t);
  await map(db, EVE, ['a1.eve.example', 'a2.eve.example', 'a3.eve.example', 'a4.eve.example']);
  await map(db, ANN, ['www.ann.example', 'shop.ann.example']);
  await map(db, BOB, ['later.bob.example'], 20);
  await map(db, BOB, ['sooner.bob.example'], 3);
  await map(db, BOB, ['new.bob.example']);
  const due = await dueHostnames(db, 100);
  assert.deepEqual(due.slice(0, 2), ['sooner.bob.example', 'later.bob.example']);
  assert.deepEqual(due.slice(2, 5).sort(), ['a1.eve.example', 'new.bob.example', 'www.ann.example']);
  assert.deepEqual(due.slice(5, 7).sort(), ['a2.eve.example', 'shop.ann.example']);
  // Who has had some today waits for those who have not.
  for (const name of ['a1.eve.example', 'a2.eve.example']) assert.equal(typeof (await order(db, name)), 'object');
  assert.deepEqual((await dueHostnames(db, 100)).slice(-2), ['a3.eve.example', 'a4.eve.example']);
});

test('a user has a daily share of new names below a registrable domain; renewals and other users do not count', async (t) => {
  const db = await open(t);
  await map(db, EVE, ['one.zone.co.uk', 'www.other.example']);
  await map(db, EVE, ['old.zone.co.uk'], 3);
  await map(db, ANN, ['two.zone.co.uk']);
  await db.run(`insert into acme_shares values ($1, 'zone.co.uk', (now() at time zone 'UTC')::date, $2)`, [
    EVE,
    DAILY_SHARE.ofDomain,
  ]);
  assert.equal(await order(db, 'one.zone.co.uk'), 'no_share');
  for (const name of ['old.zone.co.uk', 'two.zone.co.uk', 'www.other.example'])
    assert.equal(typeof (await order(db, name)), 'object', name);
  // What waits for the next day is not brought forward by asking.
  assert.equal(await postponeOrder(db, 'one.zone.co.uk', { inMs: 3_600_000, code: 'daily_share', text: 'x' }), true);
  assert.equal(await hastenOrder(db, 'one.zone.co.uk', 0), false);
  await db.run(`update acme_shares set day = day - 1`);
  await db.run('update certificates set next_try = null');
  assert.equal(typeof (await order(db, 'one.zone.co.uk')), 'object', 'the next day');
});

test('new names leave some of the account’s budget to renewals', async (t) => {
  const db = await open(t);
  await map(db, EVE, ['new.eve.example']);
  await map(db, BOB, ['old.bob.example'], 3);
  await db.run('update acme_accounts set budget = $1, budget_at = clock_timestamp()', [KEPT_FOR_RENEWALS]);
  assert.equal(await order(db, 'new.eve.example'), 'no_budget');
  assert.equal(typeof (await order(db, 'old.bob.example')), 'object');
  assert.equal((await accountBudget(db, DIRECTORY)).left, KEPT_FOR_RENEWALS - 1);
});
