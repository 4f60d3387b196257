import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import {
  BUDGETS,
  type BudgetKind,
  type Count,
  charged,
  refunded,
  waitFor,
} from '../../actors/auth/login/throttle-rules.ts';

const NOTHING: Count = { failures: 0, lastAt: 0, blockedUntil: 0 };
const DAY = 86_400;
/** Guesses a day that each budget allows at most, whether one stays below it or goes over it and then is silent. */
const A_DAY: Readonly<Record<BudgetKind, number>> = { pair: 300, network: 7300, site: 29_200, name: 9100, device: 300 };
const KINDS = ['pair', 'network', 'site', 'name', 'device'] as const;

/** Guesses that get through in a day when the next one comes `gap` seconds after the last, or as soon as it may. */
function guesses(kind: BudgetKind, gaps: Iterable<number>): number {
  let [count, now, through] = [NOTHING, 1e9, 0];
  const end = now + DAY;
  for (const gap of gaps) {
    now += Math.max(gap, waitFor(count, now));
    if (now > end) break;
    count = charged(kind, count, now);
    through++;
  }
  return through;
}

function* forever(values: readonly number[]): Generator<number> {
  for (let i = 0; i < 20_000; i++) yield values[i % values.length] ?? 0;
}

describe('the rules of the throttle', () => {
  test('allow a bounded number of guesses a day, however they are spread', () => {
    for (const kind of KINDS) {
      const { free, windowSeconds, quietSeconds } = BUDGETS[kind];
      const bursts = Array.from({ length: 16 }, (_, over) => [quietSeconds, ...new Array<number>(free + over).fill(0)]);
      for (const gaps of [[0], [windowSeconds / free], ...bursts]) {
        const count = guesses(kind, forever(gaps));
        assert.ok(count <= A_DAY[kind], `${kind}: ${count} by ${gaps.length}`);
      }
      fc.assert(
        fc.property(
          fc.array(fc.double({ min: 0, max: 4000, noNaN: true }), { minLength: 1, maxLength: 70 }),
          (gaps) => {
            return guesses(kind, forever(gaps)) <= A_DAY[kind];
          },
        ),
        { numRuns: 50 },
      );
    }
  });

  test('ask for no longer a wait than their bound, and only past the free failures', () => {
    for (const kind of KINDS) {
      let count = NOTHING;
      const crossings: number[] = [];
      for (let i = 1; i <= 300; i++) {
        const next = charged(kind, count, 1e9);
        if (next.crossed) crossings.push(i);
        count = next;
        const wait = waitFor(count, 1e9);
        assert.equal(wait > 0, i >= BUDGETS[kind].free);
        assert.ok(wait <= BUDGETS[kind].maxWaitSeconds);
        assert.equal(waitFor(count, 1e9 + wait), 0);
      }
      assert.deepEqual(crossings, [BUDGETS[kind].free]);
    }
  });

  test('take back exactly what an attempt was charged, with the block it brought', () => {
    for (const kind of KINDS) {
      fc.assert(
        fc.property(fc.integer({ min: 0, max: 100 }), (failures) => {
          const before: Count = { failures, lastAt: 1e9, blockedUntil: 0 };
          const after = refunded(kind, charged(kind, before, 1e9));
          return after.failures === failures && (failures >= BUDGETS[kind].free || after.blockedUntil === 0);
        }),
      );
      assert.equal(refunded(kind, NOTHING).failures, 0);
    }
  });

  test('forgive everything after a silence that is longer than any wait', () => {
    for (const kind of KINDS) {
      const { quietSeconds, maxWaitSeconds } = BUDGETS[kind];
      assert.ok(quietSeconds > maxWaitSeconds);
      const over: Count = { failures: 1000, lastAt: 1e9, blockedUntil: 0 };
      assert.equal(charged(kind, over, 1e9 + quietSeconds - 1).failures, 1001);
      assert.equal(charged(kind, over, 1e9 + quietSeconds).failures, 1);
    }
  });
});
