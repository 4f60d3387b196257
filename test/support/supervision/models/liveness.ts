import assert from 'node:assert/strict';
import fc from 'fast-check';
import {
  ActorError,
  type AnyRef,
  type Context,
  type CrashContext,
  type Decision,
  deleteChild,
  dispatch,
  type Entities,
  entities,
  type MailboxPolicy,
  query,
  type Ref,
  restartChild,
  SpawnError,
  type Strategy,
  type SupervisorRef,
  spawn,
  startSupervisor,
  stats,
  stop,
  terminateChild,
  tree,
  whichChildren,
} from '../../../../supervision/index.ts';
import { TestSystem } from '../../../../supervision/testing/index.ts';
import { gate, openAsks } from '../system.ts';
import type { DecisionName } from './tree-model.ts';

/** How a handler, the making of a state, a decision or an end goes about its work. */
type Manner = 'at once' | 'later' | 'throws' | 'rejects' | 'held';

interface LivePlan {
  readonly decision: DecisionName;
  readonly deciding: Manner;
  readonly making: Manner;
  readonly ending: Manner;
  readonly capacity: number;
  readonly policy: MailboxPolicy;
  readonly backoffMs: number;
  readonly shutdownMs: number;
  readonly idleMs: number | undefined;
}

/** Steps that do anything with anyone, on virtual time. `at` chooses among the actors there are. */
export type LiveProgram = readonly (
  | { readonly type: 'spawn' | 'entities'; readonly at: number; readonly plan: LivePlan }
  | { readonly type: 'dig'; readonly at: number; readonly levels: number; readonly plan: LivePlan }
  | {
      readonly type: 'supervise';
      readonly at: number;
      readonly strategy: Strategy;
      readonly plans: readonly LivePlan[];
    }
  | { readonly type: 'terminate' | 'restart' | 'delete'; readonly at: number; readonly child: number }
  | { readonly type: 'tell' | 'ask'; readonly at: number; readonly manner: Manner; readonly times: number }
  | { readonly type: 'wake' | 'release'; readonly at: number; readonly id: number; readonly manner: Manner }
  | { readonly type: 'watch' | 'unwatch'; readonly at: number; readonly target: number }
  | { readonly type: 'timer' | 'stop' | 'open'; readonly at: number }
  | { readonly type: 'pass'; readonly ms: number }
)[];

const manner = fc.constantFrom<Manner>('at once', 'at once', 'at once', 'later', 'throws', 'rejects', 'held');
const plan: fc.Arbitrary<LivePlan> = fc.record({
  decision: fc.constantFrom<DecisionName>(
    ...(['stop', 'stopAll', 'stopChild', 'stopAllChildren', 'resume', 'resume', 'reset', 'reset'] as const),
    ...(['resetAll', 'resetChild', 'resetAllChildren', 'escalate'] as const),
  ),
  deciding: manner,
  making: manner,
  ending: manner,
  capacity: fc.constantFrom(1, 3, 10_000),
  policy: fc.constantFrom<MailboxPolicy>('reject', 'drop-oldest', 'drop-newest'),
  backoffMs: fc.constantFrom(0, 0, 5, 200),
  shutdownMs: fc.constantFrom(0, 20, 300),
  idleMs: fc.constantFrom(undefined, undefined, 50),
});
const at = fc.nat(30);
const times = fc.integer({ min: 1, max: 6 });
const plans = fc.array(plan, { minLength: 1, maxLength: 3 });
const strategy = fc.constantFrom<Strategy>('one-for-one', 'one-for-all', 'rest-for-one');

export const liveProgram: fc.Arbitrary<LiveProgram> = fc.array(
  fc.oneof(
    { weight: 4, arbitrary: fc.record({ type: fc.constant('spawn' as const), at, plan }) },
    { weight: 1, arbitrary: fc.record({ type: fc.constant('entities' as const), at, plan }) },
    { weight: 1, arbitrary: fc.record({ type: fc.constant('dig' as const), at, levels: fc.nat(60), plan }) },
    { weight: 2, arbitrary: fc.record({ type: fc.constant('supervise' as const), at, strategy, plans }) },
    {
      weight: 2,
      arbitrary: fc.record({
        type: fc.constantFrom('terminate' as const, 'restart' as const, 'delete' as const),
        at,
        child: fc.nat(2),
      }),
    },
    {
      weight: 8,
      arbitrary: fc.record({ type: fc.constantFrom('tell' as const, 'ask' as const), at, manner, times }),
    },
    {
      weight: 3,
      arbitrary: fc.record({
        type: fc.constantFrom('wake' as const, 'wake' as const, 'release' as const),
        at,
        id: fc.nat(2),
        manner,
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({ type: fc.constantFrom('watch' as const, 'unwatch' as const), at, target: at }),
    },
    {
      weight: 3,
      arbitrary: fc.record({ type: fc.constantFrom('timer' as const, 'stop' as const, 'open' as const), at }),
    },
    {
      weight: 4,
      arbitrary: fc.record({ type: fc.constant('pass' as const), ms: fc.constantFrom(0, 1, 20, 300, 5000) }),
    },
  ),
  { minLength: 5, maxLength: 40, size: 'max' },
);

interface Sent {
  readonly manner: Manner;
  readonly replyTo?: Ref<string>;
  readonly watch?: AnyRef;
  readonly unwatch?: AnyRef;
  readonly afterMs?: number;
}

const CODES = new Set(['overloaded', 'stopped', 'crashed', 'timeout', 'not_found']);
const IDS = ['a', 'b', 'nobody'];
const ASK_MS = 1000;
/** Longer than any backoff, deadline, intensity and cool-down here. */
const LONG_MS = 100_000;
const DECISION_MS = 100;

/** Runs a program. Then nobody is stuck: whoever lives answers, and all of it comes to an end. */
export async function playLiveness(program: LiveProgram, seed: number): Promise<void> {
  const play = new Liveness(seed);
  for (const step of program) await play.step(step);
  await play.everyoneAnswers();
  await play.everythingEnds();
}

class Liveness {
  private readonly problems: string[] = [];
  private readonly time: TestSystem;
  private readonly refs: Ref<Sent>[] = [];
  private readonly kinds: Entities<Sent>[] = [];
  private readonly supervisors: SupervisorRef[] = [];
  private readonly gates: (() => void)[] = [];
  private asked = 0;
  private answered = 0;
  /** Nothing goes wrong any more. */
  private calm = false;

  constructor(seed: number) {
    this.time = new TestSystem({ seed, onIllegalFlags: (problem) => this.problems.push(problem) });
  }

  async step(step: LiveProgram[number]): Promise<void> {
    if (step.type === 'pass') await this.time.advance(step.ms);
    else this.act(step);
    // Not each time: what has not settled meets the next step.
    if (step.type !== 'pass' && step.at % 2 === 0) await this.time.settle();
    assert.deepEqual(this.problems, []);
  }

  /** All that was held goes on, and time passes: then each actor that has not ended answers. */
  async everyoneAnswers(): Promise<void> {
    this.calm = true;
    for (let round = 0; round < 3; round++) {
      for (const open of this.gates.splice(0)) open();
      await this.time.advance(LONG_MS);
    }
    assert.equal(this.answered, this.asked, 'an ask has not ended');
    for (const supervisor of this.supervisors) {
      const stuck = whichChildren(supervisor).filter(({ status }) => status === 'restarting');
      assert.deepEqual(stuck, []);
    }
    for (const [i, ref] of this.refs.entries()) {
      const reply = await this.time.until(this.ask((replyTo) => query(ref, replyTo, ASK_MS)));
      assert.ok(reply === 'here' || reply === 'stopped', `actor ${i}, ${ref.path}: ${reply}`);
    }
    for (const kind of this.kinds) {
      for (const id of IDS) {
        const reply = await this.time.until(this.ask((make) => kind.ask(id, make, ASK_MS)));
        const expected = id === 'nobody' ? ['not_found', 'stopped'] : ['here', 'stopped'];
        assert.ok(expected.includes(reply), `${kind.ref.path}/${id}: ${reply}`);
      }
    }
    const { children } = tree(this.time.ref);
    assert.deepEqual(
      children.filter(({ status }) => status !== 'idle').map(({ path, status }) => [path, status]),
      [],
    );
  }

  /** The system stops: no actor, no ask and no timer is left. */
  async everythingEnds(): Promise<void> {
    const { time } = this;
    await time.end();
    assert.deepEqual(this.problems, []);
    assert.equal(openAsks(time.ref), 0);
    for (const [kind, { alive, depth }] of Object.entries(stats(time.ref).kinds)) {
      assert.deepEqual([kind, alive, depth], [kind, 0, 0]);
    }
    assert.equal(await time.advanceToNext(), false, 'a timer is left');
  }

  private act(step: Exclude<LiveProgram[number], { readonly type: 'pass' }>): void {
    const ref = this.refs[step.at % Math.max(1, this.refs.length)];
    const parent = step.at % 3 === 0 ? undefined : ref;
    if (step.type === 'spawn') this.spawnUnder(parent, step.plan);
    else if (step.type === 'entities') this.spawnEntities(step.plan);
    else if (step.type === 'dig') {
      let under: AnyRef | undefined = parent;
      for (let level = 0; level < step.levels; level++) under = this.spawnUnder(under, step.plan) ?? under;
    } else if (step.type === 'supervise') this.supervise(parent, step.strategy, step.plans);
    else if (step.type === 'terminate' || step.type === 'restart' || step.type === 'delete') this.change(step);
    else if (step.type === 'wake' || step.type === 'release') this.rouse(step);
    else if (step.type === 'open') this.gates.splice(step.at % Math.max(1, this.gates.length), 1)[0]?.();
    else if (ref === undefined) return;
    else if (step.type === 'stop') stop(ref);
    else if (step.type === 'timer') dispatch(ref, { manner: 'at once', afterMs: step.at * 10 });
    else if (step.type === 'watch' || step.type === 'unwatch') {
      const target = this.refs[step.target % this.refs.length];
      if (target !== undefined) dispatch(ref, { manner: 'at once', [step.type]: target });
    } else if ('times' in step) {
      for (let i = 0; i < step.times; i++) {
        if (step.type === 'tell') dispatch(ref, { manner: step.manner });
        else
          void this.ask((make) =>
            query(ref, (replyTo: Ref<string>) => ({ ...make(replyTo), manner: step.manner }), ASK_MS),
          );
      }
    }
  }

  /** How an ask ended: its reply, or the code of its error. */
  private async ask(send: (make: (replyTo: Ref<string>) => Sent) => Promise<string>): Promise<string> {
    this.asked++;
    try {
      return await send((replyTo) => ({ manner: 'at once', replyTo }));
    } catch (error) {
      if (error instanceof ActorError && CODES.has(error.code)) return error.code;
      this.problems.push(String(error));
      return 'unknown';
    } finally {
      this.answered++;
    }
  }

  private rouse({ type, at, id, manner }: Extract<LiveProgram[number], { readonly type: 'wake' | 'release' }>): void {
    const kind = this.kinds[at % Math.max(1, this.kinds.length)];
    const name = IDS[id] ?? 'a';
    if (kind === undefined) return;
    if (type === 'release') void kind.release((each) => each === name);
    else if (at % 2 === 0) kind.tell(name, { manner });
    else void this.ask((make) => kind.ask(name, (replyTo: Ref<string>) => ({ ...make(replyTo), manner }), ASK_MS));
  }

  private change({
    type,
    at,
    child,
  }: Extract<LiveProgram[number], { readonly type: 'terminate' | 'restart' | 'delete' }>) {
    const supervisor = this.supervisors[at % Math.max(1, this.supervisors.length)];
    if (supervisor === undefined) return;
    const verbs = { terminate: terminateChild, restart: restartChild, delete: deleteChild };
    void this.ask(async () => {
      try {
        await verbs[type](supervisor, `child ${child}`);
        return 'done';
      } catch (error) {
        if (error instanceof SpawnError) return error.code;
        throw error;
      }
    });
  }

  private supervise(parent: AnyRef | undefined, strategy: Strategy, plans: readonly LivePlan[]): void {
    void this.ask(async () => {
      const supervisor = await startSupervisor(parent ?? this.time.ref, {
        name: `supervisor ${this.asked}`,
        strategy,
        intensity: { max: 5, withinMs: 5000 },
        backoff: { minMs: plans[0]?.backoffMs ?? 0, maxMs: 500 },
        children: plans.map((each, i) => ({
          id: `child ${i}`,
          restart: i === 0 ? 'permanent' : i === 1 ? 'transient' : 'temporary',
          shutdownMs: each.shutdownMs + 10,
          start: async (under) => {
            if (each.making === 'later') await this.work('later');
            return this.spawn(under, each);
          },
        })),
      });
      this.supervisors.push(supervisor);
      return 'up';
    });
  }

  private spawnEntities(plan: LivePlan): void {
    const kind = `kind ${this.kinds.length}`;
    const made = entities<Sent, number>(this.time.ref, {
      kind,
      sleepAfterMs: plan.idleMs ?? 5000,
      activateMs: 200,
      coolDownMs: 400,
      shutdownMs: plan.shutdownMs,
      decisionMs: DECISION_MS,
      intensity: { max: 2, withinMs: 5000 },
      backoff: { minMs: plan.backoffMs, maxMs: 500 },
      mailbox: { capacity: plan.capacity, policy: plan.policy },
      activate: async (id) => {
        await this.work(plan.making);
        return id === 'nobody' ? undefined : 0;
      },
      handle: (state, message, ctx) => this.handle(state, message, ctx),
      onSleep: () => this.work(plan.ending),
    });
    this.kinds.push(made);
  }

  /** Undefined when the parent has ended. */
  private spawnUnder(parent: AnyRef | undefined, plan: LivePlan): Ref<Sent> | undefined {
    try {
      return this.spawn(parent ?? this.time.ref, plan);
    } catch (error) {
      assert.ok(error instanceof ActorError && error.code === 'stopped', String(error));
      return undefined;
    }
  }

  private spawn(parent: AnyRef, plan: LivePlan): Ref<Sent> {
    const decide = (ctx: CrashContext<Sent>): Decision => ctx[this.calm ? 'resume' : plan.decision];
    const { making } = plan;
    const ref = spawn<number, Sent>(parent, (state, message, ctx) => this.handle(state, message, ctx), {
      shutdownMs: plan.shutdownMs,
      decisionMs: DECISION_MS,
      intensity: { max: 4, withinMs: 5000 },
      backoff: { minMs: plan.backoffMs, maxMs: 500 },
      mailbox: { capacity: plan.capacity, policy: plan.policy },
      ...(plan.idleMs === undefined ? {} : { shutdownAfter: plan.idleMs }),
      onCrash: (_message, _error, ctx) => {
        const done = this.work(plan.deciding);
        return done === undefined ? decide(ctx) : done.then(() => decide(ctx));
      },
      initialStateFunc: () => this.work(making)?.then(() => 0) ?? 0,
      afterStop: () => this.work(plan.ending),
    });
    this.refs.push(ref);
    return ref;
  }

  private handle(state: number, message: Sent, ctx: Context<Sent>): number | Promise<number> {
    const { replyTo, manner } = message;
    if (message.watch !== undefined) ctx.watch(message.watch, () => ({ manner: 'at once' }));
    if (message.unwatch !== undefined) ctx.unwatch(message.unwatch);
    if (message.afterMs !== undefined) ctx.after(message.afterMs, { manner: 'later' });
    const reply = (): number => {
      if (replyTo !== undefined) dispatch(replyTo, 'here');
      return state + 1;
    };
    return this.work(manner)?.then(reply) ?? reply();
  }

  private work(manner: Manner): Promise<void> | undefined {
    if (this.calm || manner === 'at once') return undefined;
    if (manner === 'throws') throw new Error('thrown');
    if (manner === 'rejects') return Promise.reject(new Error('rejected'));
    const { opened, open } = gate();
    if (manner === 'held') this.gates.push(open);
    else this.time.clock.setTimeout(open, 10);
    return opened;
  }
}
