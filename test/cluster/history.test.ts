/** The judge of trials: whatever one careful owner at a time could have done passes, and every way to do worse is found. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  type Effect,
  type Fault,
  type History,
  judge,
  type Operation,
  percentile,
} from '../support/cluster/history.ts';

/** One call: when it began, how much later it had its effect, and how much later its client heard. */
const step = fc.record({
  entity: fc.constantFrom('ann', 'bob'),
  isWrite: fc.boolean(),
  called: fc.integer({ min: 0, max: 200 }),
  until: fc.integer({ min: 1, max: 50 }),
  back: fc.integer({ min: 1, max: 50 }),
  /** Of writes: answered, refused, without an answer and effect, without an answer. */
  fate: fc.constantFrom('ok', 'ok', 'ok', 'refused', 'nothing', 'unheard'),
  owner: fc.constantFrom('a', 'b', 'c'),
});

/** What one careful owner makes of the steps: each has its effect at one moment between call and return. */
function played(steps: readonly (typeof step extends fc.Arbitrary<infer T> ? T : never)[]): History {
  const initial = new Map([
    ['ann', 'ann-0'],
    ['bob', 'bob-0'],
  ]);
  const now = new Map(initial);
  const effects: Effect[] = [];
  const operations: Operation[] = [];
  const inOrder = steps
    .map((one, n) => ({ ...one, n, at: one.called + one.until }))
    .sort((x, y) => x.at - y.at || x.n - y.n);
  for (const { entity, isWrite, called, at, back, fate, owner, n } of inOrder) {
    const times = { called, returned: at + back };
    if (!isWrite) {
      operations.push({ entity, type: 'read', value: now.get(entity), ...times, outcome: 'ok' });
      continue;
    }
    const value = `${entity}-${n + 1}`;
    const outcome = fate === 'ok' || fate === 'refused' ? fate : 'unknown';
    operations.push({ entity, type: 'write', value, ...times, outcome });
    if (fate !== 'ok' && fate !== 'unheard') continue;
    now.set(entity, value);
    effects.push({ entity, value, writer: owner, owner });
  }
  const reigns = [1, 2, 3].map((epoch) => ({ shard: 7, epoch, owner: 'a' }));
  return { initial, operations, effects, reigns, final: now };
}

const histories = fc.array(step, { minLength: 5, maxLength: 60 }).map(played);

function faults(history: History): Set<Fault> {
  return new Set(judge(history).findings.map(({ fault }) => fault));
}

test('whatever one owner at a time did passes', () => {
  fc.assert(
    fc.property(histories, (history) => {
      assert.deepEqual(judge(history).findings, []);
    }),
    { numRuns: 500 },
  );
});

/** Breaks a history in one way, or leaves it when it has nothing to break. */
type Break = (history: History, pick: number) => History | undefined;

const acknowledged = ({ operations, effects }: History) => {
  const heard = new Set(
    operations.filter(({ type, outcome }) => type === 'write' && outcome === 'ok').map(({ value }) => value),
  );
  return effects.flatMap((effect, at) => (heard.has(effect.value) ? [at] : []));
};
const replaced = <T>(items: readonly T[], at: number, ...by: T[]): T[] => [
  ...items.slice(0, at),
  ...by,
  ...items.slice(at + 1),
];

const BREAKS: Readonly<Record<string, { readonly fault: Fault; readonly make: Break }>> = {
  'an acknowledged write is not there': {
    fault: 'lost',
    make: (history, pick) => {
      const found = acknowledged(history);
      const at = found[pick % found.length];
      return at === undefined ? undefined : { ...history, effects: replaced(history.effects, at) };
    },
  },
  'a write took effect twice': {
    fault: 'duplicated',
    make: (history, pick) => {
      const { effects } = history;
      const effect = effects[pick % effects.length];
      return effect === undefined ? undefined : { ...history, effects: [...effects, effect] };
    },
  },
  'a write was taken of a former owner': {
    fault: 'fenced',
    make: (history, pick) => {
      const { effects } = history;
      const at = pick % effects.length;
      const effect = effects[at];
      return effect && { ...history, effects: replaced(effects, at, { ...effect, owner: 'somebody else' }) };
    },
  },
  'a refused write took effect': {
    fault: 'phantom',
    make: (history) => {
      const refused = history.operations.find(({ type, outcome }) => type === 'write' && outcome === 'refused');
      if (refused?.value === undefined) return undefined;
      const effect = { entity: refused.entity, value: refused.value, writer: 'a', owner: 'a' };
      return { ...history, effects: [...history.effects, effect] };
    },
  },
  'a write that nobody made': {
    fault: 'phantom',
    make: (history) => ({
      ...history,
      effects: [...history.effects, { entity: 'ann', value: 'from nowhere', writer: 'a', owner: 'a' }],
    }),
  },
  'a read told of the past': {
    fault: 'stale',
    make: (history) => {
      const first = history.effects.find(({ value }) =>
        history.operations.some((one) => one.type === 'write' && one.outcome === 'ok' && one.value === value),
      );
      if (first === undefined) return undefined;
      const late = {
        entity: first.entity,
        type: 'read',
        value: `${first.entity}-0`,
        called: 1000,
        returned: 1001,
        outcome: 'ok',
      } as const;
      return { ...history, operations: [...history.operations, late] };
    },
  },
  'a read told of the future': {
    fault: 'unborn',
    make: (history) => {
      const [effect] = history.effects;
      if (effect === undefined) return undefined;
      const early = {
        entity: effect.entity,
        type: 'read',
        value: effect.value,
        called: -2,
        returned: -1,
        outcome: 'ok',
      } as const;
      return { ...history, operations: [...history.operations, early] };
    },
  },
  'a read told what never was': {
    fault: 'unborn',
    make: (history) => {
      const odd = { entity: 'ann', type: 'read', value: 'nonsense', called: 1, returned: 2, outcome: 'ok' } as const;
      return { ...history, operations: [...history.operations, odd] };
    },
  },
  'the last write is gone at the end': {
    fault: 'forgotten',
    make: (history) => {
      const last = history.effects.at(-1);
      return last && { ...history, final: new Map(history.final).set(last.entity, 'something else') };
    },
  },
  'an epoch begins twice': {
    fault: 'overthrown',
    make: (history) => ({ ...history, reigns: [...history.reigns, { shard: 7, epoch: 3, owner: 'b' }] }),
  },
};

for (const [what, { fault, make }] of Object.entries(BREAKS)) {
  test(`${what}: ${fault}`, () => {
    let broken = 0;
    fc.assert(
      fc.property(histories, fc.nat(), (history, pick) => {
        const worse = make(history, pick);
        if (worse === undefined) return;
        broken += 1;
        assert.ok(faults(worse).has(fault), `found ${[...faults(worse)].join(', ') || 'nothing'}`);
      }),
      { numRuns: 200 },
    );
    assert.ok(broken > 50, 'most histories could be broken');
  });
}

test('two writes one after the other that lie in storage the other way round: disordered', () => {
  const write = (value: string, called: number): Operation => {
    return { entity: 'ann', type: 'write', value, called, returned: called + 1, outcome: 'ok' };
  };
  const effect = (value: string): Effect => ({ entity: 'ann', value, writer: 'a', owner: 'a' });
  const history = (order: readonly string[]): History => ({
    ...{ initial: new Map([['ann', '']]), operations: [write('x', 1), write('y', 5)], effects: order.map(effect) },
    ...{ reigns: [], final: new Map([['ann', order.at(-1) ?? '']]) },
  });
  assert.deepEqual(faults(history(['x', 'y'])), new Set());
  assert.deepEqual(faults(history(['y', 'x'])), new Set(['disordered']));
});

test('a percentile is a value that was there', () => {
  assert.deepEqual([percentile([], 0.5), percentile([3], 0.99)], [0, 3]);
  const hundred = Array.from({ length: 100 }, (_, n) => 100 - n);
  assert.deepEqual([percentile(hundred, 0.5), percentile(hundred, 0.99), percentile(hundred, 1)], [50, 99, 100]);
});
