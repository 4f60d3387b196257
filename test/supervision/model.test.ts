import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { ActorError, dispatch, query, type Ref, spawn, start, stats, stop, stopped } from '../../supervision/index.ts';

/**
 * Random trees of counters, random messages, crashes and stops, against a model that is a plain object. Between commands
 * the system comes to rest, so that the model needs no notion of time.
 */
type Decision = 'resume' | 'reset' | 'stop' | 'escalate';

interface Model {
  readonly parent: number | undefined;
  readonly decision: Decision;
  count: number;
  alive: boolean;
}

type CounterMessage = 'add' | 'crash' | { readonly replyTo: Ref<number> };

type Command =
  | { readonly type: 'spawn'; readonly under: number; readonly decision: Decision }
  | { readonly type: 'add' | 'crash' | 'stop'; readonly at: number; readonly times: number };

const command: fc.Arbitrary<Command> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      type: fc.constant('spawn' as const),
      under: fc.nat(30),
      decision: fc.constantFrom<Decision>('resume', 'reset', 'stop', 'escalate'),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      type: fc.constantFrom('add' as const, 'add' as const, 'crash' as const, 'stop' as const),
      at: fc.nat(30),
      times: fc.integer({ min: 1, max: 300 }),
    }),
  },
);

/** What a crash of `i` does: climbs while actors escalate, then the decider resumes, is reset, or stops. */
function crash(models: Model[], i: number): void {
  const model = models[i];
  if (model === undefined) return;
  if (model.decision === 'escalate') {
    if (model.parent === undefined) end(models, i);
    else crash(models, model.parent);
  } else if (model.decision === 'stop') end(models, i);
  else if (model.decision === 'reset') {
    model.count = 0;
    endChildren(models, i);
  }
}

function end(models: Model[], i: number): void {
  const model = models[i];
  if (model === undefined || !model.alive) return;
  model.alive = false;
  endChildren(models, i);
}

function endChildren(models: Model[], parent: number): void {
  models.forEach((model, i) => {
    if (model.parent === parent) end(models, i);
  });
}

async function play(commands: readonly Command[]): Promise<void> {
  const system = start();
  const models: Model[] = [];
  const refs: Ref<CounterMessage>[] = [];
  let sent = 0;
  for (const step of commands) {
    if (step.type === 'spawn') {
      const under = step.under % (refs.length + 1);
      const parent = refs[under];
      const alive = parent === undefined || models[under]?.alive === true;
      const make = () =>
        spawn<number, CounterMessage>(
          parent ?? system,
          (n, msg) => {
            if (msg === 'crash') throw new Error('crash');
            if (msg === 'add') return n % 2 === 0 ? n + 1 : Promise.resolve(n + 1);
            dispatch(msg.replyTo, n);
            return n;
          },
          {
            initialState: 0,
            onCrash: (_msg, _error, ctx) => ctx[step.decision],
            intensity: { max: 1_000_000, withinMs: 1 },
          },
        );
      if (alive) {
        refs.push(make());
        models.push({
          parent: parent === undefined ? undefined : under,
          decision: step.decision,
          count: 0,
          alive: true,
        });
      } else assert.throws(make, ActorError);
    } else if (refs.length > 0) {
      const at = step.at % refs.length;
      const ref = refs[at];
      const model = models[at];
      assert.ok(ref !== undefined && model !== undefined);
      if (step.type === 'stop') {
        stop(ref);
        end(models, at);
      } else if (step.type === 'crash') {
        if (model.alive) {
          const before = stats(system).kinds.actor?.failed ?? 0;
          dispatch(ref, 'crash');
          while ((stats(system).kinds.actor?.failed ?? 0) === before)
            await new Promise((resolve) => setImmediate(resolve));
          crash(models, at);
        }
      } else {
        for (let i = 0; i < step.times; i++) dispatch(ref, 'add');
        if (model.alive) model.count += step.times;
        else sent += step.times;
      }
    }
    await agree(models, refs);
  }
  assert.equal(stats(system).deadLetters, sent);
  assert.equal(stats(system).kinds.actor?.alive, models.filter(({ alive }) => alive).length);
  stop(system);
  await stopped(system);
  assert.equal(stats(system).kinds.actor?.alive, 0);
}

/** Asks every actor; the ask is also how the system comes to rest. */
async function agree(models: readonly Model[], refs: readonly Ref<CounterMessage>[]): Promise<void> {
  const found = await Promise.all(
    refs.map((ref) =>
      query(ref, (replyTo: Ref<number>) => ({ replyTo }), 5000).catch((error: unknown) =>
        error instanceof ActorError ? error.code : 'unknown',
      ),
    ),
  );
  assert.deepEqual(
    found,
    models.map(({ alive, count }) => (alive ? count : 'stopped')),
  );
}

test('random trees, messages, crashes and stops do what the model says', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(command, { maxLength: 60, size: 'max' }), (commands) => play(commands)),
    { numRuns: 200 },
  );
});
