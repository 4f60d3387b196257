/** A delivery cursor against a model: whatever comes in whatever order, the client has a gapless beginning of what is stored, and in the end all. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { DeliveryCursor, type Frame } from '../../actors/notify/delivery-cursor.ts';

const PAGE = 3;
const frame = (id: number): Frame => ({ id, text: String(id) });

/** One thing that happens. `pick` chooses among what could happen next. */
type Step =
  | { readonly type: 'commit'; readonly rows: number }
  | { readonly type: 'deliver' | 'lose' | 'repeat' | 'answer' | 'fail' | 'drain' | 'look' }
  | { readonly type: 'block'; readonly after: number };

const steps: fc.Arbitrary<Step> = fc.oneof(
  { weight: 5, arbitrary: fc.record({ type: fc.constant('commit' as const), rows: fc.integer({ min: 1, max: 5 }) }) },
  {
    weight: 8,
    arbitrary: fc.record({ type: fc.constantFrom('deliver' as const, 'answer' as const, 'drain' as const) }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      type: fc.constantFrom('lose' as const, 'repeat' as const, 'fail' as const, 'look' as const),
    }),
  },
  { weight: 2, arbitrary: fc.record({ type: fc.constant('block' as const), after: fc.integer({ min: 0, max: 4 }) }) },
);

class Simulation {
  readonly sent: number[] = [];
  /** Ids in storage. */
  readonly stored: number[] = [];
  /** What the user's actor has sent and the cursor has not got yet, in order. */
  readonly mail: (() => void)[] = [];
  /** A read that is under way: it sees what is stored when it is answered, or what was when it was asked. */
  read: { readonly since: number; readonly seen: number } | undefined;
  /** Frames until the reader is slow. */
  room = Number.POSITIVE_INFINITY;
  /** The user's actor knows the socket: what is stored before that is told to nobody. */
  known = false;
  attached = false;
  readonly cursor: DeliveryCursor;

  constructor(stored: readonly number[], since: number) {
    this.stored.push(...stored);
    this.cursor = new DeliveryCursor(since, {
      read: (above) => {
        assert.equal(this.read, undefined, 'one read at a time');
        this.read = { since: above, seen: this.stored.length };
      },
      send: (frames) => {
        assert.ok(this.room > 0, 'nothing is sent to a reader that is slow');
        const taken = Math.min(frames.length, this.room);
        this.sent.push(...frames.slice(0, taken).map(({ id }) => id));
        this.room -= taken;
        return { taken, isReady: this.room > 0 };
      },
    });
  }

  run(step: Step, pick: (below: number) => number): void {
    switch (step.type) {
      case 'commit': {
        const after = this.stored.at(-1) ?? 0;
        const rows = Array.from(
          { length: step.rows },
          (_, index) => after + 1 + index + pick(3) * 10 * (index + 1),
        ).sort((a, b) => a - b);
        const fresh = [...new Set(rows)];
        this.stored.push(...fresh);
        if (this.known) this.mail.push(() => this.cursor.arrived(after, fresh.map(frame)));
        break;
      }
      case 'deliver':
        if (!this.known) {
          this.known = true;
          this.mail.push(() => {
            this.attached = true;
            this.cursor.attached();
          });
          break;
        }
        this.mail.shift()?.();
        break;
      case 'lose':
        // Never the first: who is not known to the user's actor is told nothing.
        if (this.attached) this.mail.shift();
        break;
      case 'repeat': {
        const [first] = this.mail;
        if (this.attached) first?.();
        break;
      }
      case 'answer': {
        if (this.read === undefined) break;
        const { since, seen } = this.read;
        this.read = undefined;
        const visible = this.stored.slice(0, seen + pick(this.stored.length - seen + 1));
        const rows = visible.filter((id) => id > since).slice(0, PAGE);
        this.cursor.page(rows.map(frame), rows.length < PAGE);
        break;
      }
      case 'fail':
        if (this.read === undefined) break;
        this.read = undefined;
        this.cursor.failed();
        break;
      case 'look':
        if (this.attached) this.cursor.look();
        break;
      case 'block':
        if (this.room > 0) this.room = step.after + 1;
        break;
      case 'drain':
        if (this.room > 0) break;
        this.room = Number.POSITIVE_INFINITY;
        this.cursor.drained();
        break;
    }
  }

  /** Lets everything that is on its way happen: reads come back late, with what was stored when they were asked. */
  settle(): void {
    for (let round = 0; !this.known || this.mail.length > 0 || this.read !== undefined || this.room <= 0; round++) {
      assert.ok(round < 10_000, 'it comes to rest');
      while (!this.known || this.mail.length > 0) this.run({ type: 'deliver' }, () => 0);
      for (const type of ['answer', 'drain'] as const) this.run({ type }, () => 0);
    }
  }
}

test('a client sees each id once, in order and without a gap, under any interleaving', () => {
  fc.assert(
    fc.property(
      fc.array(fc.integer({ min: 1, max: 50 }), { maxLength: 12 }),
      fc.integer({ min: 0, max: 60 }),
      fc.array(fc.tuple(steps, fc.nat()), { maxLength: 120 }),
      (before, wish, plan) => {
        const stored = [...new Set(before)].sort((a, b) => a - b);
        const simulation = new Simulation(stored, wish);
        // An id that was never given counts as the last that was, whenever the cursor hears of it.
        const since = Math.min(wish, stored.at(-1) ?? 0);
        simulation.cursor.endsAt(stored.at(-1) ?? 0);
        const wanted = () => simulation.stored.filter((id) => id > since);
        for (const [step, number] of plan) {
          simulation.run(step, (below) => number % below);
          assert.deepEqual(simulation.sent, wanted().slice(0, simulation.sent.length));
        }
        simulation.settle();
        // What was lost on the way is found at the next look, which the connection takes every 20 s.
        simulation.cursor.look();
        simulation.settle();
        assert.deepEqual(simulation.sent, wanted());
      },
    ),
    { numRuns: 3000 },
  );
});

test('without losses nothing has to be looked for', () => {
  fc.assert(
    fc.property(
      fc.array(
        fc.tuple(
          steps.filter(({ type }) => type !== 'lose' && type !== 'fail'),
          fc.nat(),
        ),
        { maxLength: 80 },
      ),
      (plan) => {
        const simulation = new Simulation([], 0);
        for (const [step, number] of plan) simulation.run(step, (below) => number % below);
        simulation.settle();
        assert.deepEqual(simulation.sent, simulation.stored);
      },
    ),
    { numRuns: 3000 },
  );
});

test('a live socket is pushed to without a read, however many come', () => {
  const simulation = new Simulation([1, 2], 2);
  simulation.run({ type: 'deliver' }, () => 0);
  simulation.run({ type: 'deliver' }, () => 0);
  simulation.run({ type: 'answer' }, () => 0);
  for (let round = 0; round < 50; round++) {
    simulation.run({ type: 'commit', rows: 2 }, () => 0);
    simulation.run({ type: 'deliver' }, () => 0);
    assert.equal(simulation.read, undefined);
  }
  assert.equal(simulation.sent.length, 100);
});
