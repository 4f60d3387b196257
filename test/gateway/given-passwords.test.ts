/** The budgets of wrong passwords at guarded ports, by a clock of the test. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GivenPasswords } from '../../actors/gateway/guards/given-passwords.ts';
import { Refusal } from '../../proto/errors.ts';
import type { PortGuard } from '../../proto/gateway/port-guard.ts';
import { movableClock } from '../support/clock.ts';

const RIGHT = 'the right password';

function setting() {
  const clock = movableClock();
  let looks = 0;
  let isBusy = false;
  const verify = async (stored: string, password: string) => {
    looks++;
    if (isBusy) throw new Refusal('overloaded');
    return stored === `hash of ${password}`;
  };
  const given = new GivenPasswords({ verify }, clock);
  const guardOf = (rule: number): PortGuard => ({ containerId: 'a', port: 443, rule, hash: `hash of ${RIGHT}` });
  return {
    clock,
    looks: () => looks,
    setBusy: (value: boolean) => {
      isBusy = value;
    },
    give: async (password: string, address = '192.0.2.1', rule = 1) => {
      const found = await given.look(guardOf(rule), `hash of ${RIGHT}`, password, address);
      return typeof found === 'object' ? 'wait' : found;
    },
  };
}

const wrong = (n: number): string => `wrong password ${n}`;

test('a network has ten wrong ones, and one more each half minute; the right one costs nothing', async () => {
  const { give, clock, looks } = setting();
  for (let n = 0; n < 10; n++) {
    assert.equal(await give(RIGHT), 'right');
    assert.equal(await give(wrong(n)), 'wrong');
  }
  assert.equal(looks(), 11);
  assert.deepEqual([await give(RIGHT), await give(wrong(10))], ['wait', 'wait']);
  assert.equal(looks(), 11);
  // Of another network, and at another rule.
  assert.deepEqual([await give(RIGHT, '192.0.2.2'), await give(wrong(0), '192.0.2.1', 2)], ['right', 'wrong']);
  clock.advance(30_000);
  assert.deepEqual([await give(wrong(11)), await give(RIGHT)], ['wrong', 'wait']);
});

test('the networks of a site share a budget, and so do all that have not given the right one yet', async () => {
  const { give, clock } = setting();
  const inSite = (n: number): string => `2001:db8:1:${n.toString(16)}::1`;
  const answers: string[] = [];
  for (let n = 0; n < 41; n++) answers.push(await give(wrong(n), inSite(n)));
  assert.deepEqual([answers.indexOf('wait'), answers.length], [40, 41]);
  for (const known of ['198.51.100.1', '198.51.100.2']) assert.equal(await give(RIGHT, known), 'right');
  for (let n = 0; n < 60; n++) assert.equal(await give(wrong(n), `203.0.113.${n}`), 'wrong');
  assert.equal(await give(RIGHT, '203.0.113.200'), 'wait');
  // It gave the right one before, which nobody had to look at any more.
  assert.equal(await give(RIGHT, '198.51.100.2'), 'right');
  assert.equal(await give(RIGHT, '198.51.100.1'), 'right');
  assert.equal(await give(wrong(0), '198.51.100.1'), 'wrong');
  clock.advance(1000);
  assert.equal(await give(RIGHT, '203.0.113.200'), 'right');
});

test('what could not be looked at is no failure, and few are looked at together', async () => {
  const { give, setBusy } = setting();
  setBusy(true);
  for (let n = 0; n < 30; n++) assert.equal(await give(wrong(n)), 'busy');
  setBusy(false);
  const found = await Promise.all(Array.from({ length: 20 }, (_, n) => give(wrong(n), `203.0.113.${n}`)));
  assert.deepEqual(
    [found.filter((one) => one === 'wrong').length, found.filter((one) => one === 'busy').length],
    [8, 12],
  );
  assert.equal(await give(wrong(99)), 'wrong');
  assert.equal(await give('x'.repeat(1000)), 'wrong');
});
