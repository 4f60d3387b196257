import assert from 'node:assert/strict';
import fc from 'fast-check';
import {
  ActorError,
  dispatch,
  type MailboxPolicy,
  query,
  type Ref,
  SpawnError,
  type StopReason,
  type SystemRef,
  spawn,
  stats,
  stop,
  stopped,
  type TreeNode,
  tree,
} from '../../../../supervision/index.ts';
import { openAsks } from '../system.ts';
import type { Stage } from './stage.ts';
import type { DecisionName } from './tree-model.ts';

/** How a handler goes about its message. */
type Manner = 'at once' | 'microtask' | 'immediate' | 'timer' | 'throws' | 'rejects' | 'rejects late' | 'never ends';

interface ActorPlan {
  readonly own: DecisionName;
  readonly child: DecisionName;
  readonly capacity: number;
  readonly policy: MailboxPolicy;
  readonly idle: boolean;
  readonly beats: boolean;
}

/** What is done in a hurry, with nobody waiting for rest: here only what must hold in any order is checked. */
export interface ChurnProgram {
  readonly plans: readonly ActorPlan[];
  readonly commands: readonly (
    | { readonly type: 'spawn'; readonly at: number; readonly plan: number; readonly name: number }
    | { readonly type: 'tell' | 'ask' | 'brief'; readonly at: number; readonly manner: Manner; readonly times: number }
    | { readonly type: 'watch' | 'unwatch'; readonly at: number; readonly target: number }
    | { readonly type: 'timer' | 'stop' | 'pause'; readonly at: number }
  )[];
}

const decision = fc.constantFrom<DecisionName>(
  ...(['stop', 'stopAll', 'stopChild', 'stopAllChildren', 'resume', 'resume'] as const),
  ...(['reset', 'resetAll', 'resetChild', 'resetAllChildren', 'escalate'] as const),
);
const manner = fc.constantFrom<Manner>(
  ...(['at once', 'at once', 'microtask', 'immediate', 'timer'] as const),
  ...(['throws', 'rejects', 'rejects late', 'never ends'] as const),
);
const at = fc.nat(20);

export const churnProgram: fc.Arbitrary<ChurnProgram> = fc.record({
  plans: fc.array(
    fc.record({
      own: decision,
      child: decision,
      capacity: fc.constantFrom(1, 3, 10_000, 10_000),
      policy: fc.constantFrom<MailboxPolicy>('reject', 'drop-oldest', 'drop-newest'),
      idle: fc.nat(5).map((n) => n === 0),
      beats: fc.nat(5).map((n) => n === 0),
    }),
    { minLength: 1, maxLength: 5 },
  ),
  commands: fc.array(
    fc.oneof(
      {
        weight: 3,
        arbitrary: fc.record({ type: fc.constant('spawn' as const), at, plan: fc.nat(4), name: fc.nat(9) }),
      },
      {
        weight: 6,
        arbitrary: fc.record({
          type: fc.constantFrom(...(['tell', 'tell', 'ask', 'ask', 'brief'] as const)),
          at,
          manner,
          times: fc.oneof(fc.integer({ min: 1, max: 3 }), fc.integer({ min: 1, max: 300 })),
        }),
      },
      {
        weight: 2,
        arbitrary: fc.record({ type: fc.constantFrom('watch' as const, 'unwatch' as const), at, target: at }),
      },
      {
        weight: 2,
        arbitrary: fc.record({ type: fc.constantFrom('timer' as const, 'stop' as const, 'pause' as const), at }),
      },
    ),
    { maxLength: 60, size: 'max' },
  ),
});

interface Sent {
  readonly manner: Manner;
  /** Counts the messages of the program to this actor; 0 for those of its own watches and timers. */
  readonly n: number;
  /** Its sender cannot know whether it is ever sent: a timer may be cancelled. */
  readonly perhaps?: true;
  readonly replyTo?: Ref<number>;
  readonly watch?: Ref<Sent>;
  readonly unwatch?: Ref<Sent>;
  readonly timer?: true;
  readonly isSignal?: true;
  readonly reason?: StopReason;
}

const CODES = new Set(['overloaded', 'stopped', 'crashed', 'timeout']);
/** The deadline of a brief ask. */
const BRIEF_MS = 1;
const REASONS = new Set(['stopped', 'idle', 'parent', 'crashed', 'intensity']);

/** Runs a program and checks what must hold, whatever ran first. */
export async function playChurn(program: ChurnProgram, stage: Stage): Promise<void> {
  const churn = new Churn(stage);
  for (const command of program.commands) {
    if (command.type === 'pause') await stage.pass();
    churn.step(command, program.plans);
    churn.check();
  }
  for (let i = 0; i < 5; i++) await stage.pass();
  churn.check();
  await churn.end();
}

class Churn {
  /** What became of each message: begun, or the reason of its dead letter, or the code of its ask that was refused. */
  private readonly fates = new Map<Sent, string>();
  private readonly sent = new Set<Sent>();
  private readonly asks: Promise<void>[] = [];
  private readonly refs: Ref<Sent>[] = [];
  private readonly counts: number[] = [];
  /** A handler cannot fail the test: what it throws is its actor's crash. */
  private readonly wrong: string[] = [];
  private readonly stage: Stage;
  private readonly openBefore: number;
  private begun = 0;
  /** Asks whose deadline passed before their turn. */
  private timeouts = 0;
  private readonly system: SystemRef;

  constructor(stage: Stage) {
    this.stage = stage;
    this.system = stage.start({
      onDeadLetter: ({ kind, message, reason }) => {
        if (kind !== 'actor' || !isSent(message)) return;
        if (reason === 'overloaded' && message.isSignal) this.wrong.push('a signal met the bound of a mailbox');
        if (this.sent.has(message)) this.fate(message, reason);
      },
    });
    this.openBefore = openAsks(this.system);
  }

  step(command: ChurnProgram['commands'][number], plans: readonly ActorPlan[]): void {
    const { refs } = this;
    const at = command.at % Math.max(1, refs.length);
    const ref = refs[at];
    if (command.type === 'spawn')
      this.spawn(refs[command.at % (refs.length + 1)], plans[command.plan % plans.length], command.name);
    else if (ref === undefined) return;
    else if (command.type === 'stop') stop(ref);
    else if (command.type === 'timer') dispatch(ref, this.made({ manner: 'at once', n: 0, timer: true }));
    else if (command.type === 'tell' || command.type === 'ask' || command.type === 'brief') {
      for (let i = 0; i < command.times; i++) {
        const n = (this.counts[at] ?? 0) + 1;
        this.counts[at] = n;
        if (command.type === 'tell') dispatch(ref, this.made({ manner: command.manner, n }));
        else this.asks.push(this.ask(ref, at, command.manner, n, command.type === 'brief' ? BRIEF_MS : 60_000));
      }
    } else if (command.type === 'watch' || command.type === 'unwatch') {
      const target = refs[command.target % refs.length];
      if (target !== undefined) dispatch(ref, this.made({ manner: 'at once', n: 0, [command.type]: target }));
    }
  }

  /** Names are unique among siblings, and whoever lives is in the tree, so under a parent that lives. */
  check(): void {
    const count = ({ children }: TreeNode): number => {
      assert.equal(new Set(children.map(({ name }) => name)).size, children.length);
      return children.reduce((sum, child) => sum + 1 + count(child), 0);
    };
    assert.equal(count(tree(this.system)), stats(this.system).kinds.actor?.alive);
    assert.deepEqual(this.wrong, []);
  }

  /** Stops all; then nothing is left, and every message is accounted for. */
  async end(): Promise<void> {
    stop(this.system);
    await this.stage.over(stopped(this.system));
    await this.stage.over(Promise.all(this.asks));
    this.check();
    assert.equal(openAsks(this.system), this.openBefore);
    const { alive, depth, handled, dropped = 0, expired = 0 } = stats(this.system).kinds.actor ?? {};
    assert.deepEqual({ alive, depth, handled }, { alive: 0, depth: 0, handled: this.begun });
    const silent = this.sent.size - this.fates.size;
    const overloaded = [...this.fates.values()].filter((fate) => fate === 'overloaded').length;
    // An ask that is over may be dropped like any other message, or refused with its actor.
    const more = dropped - overloaded - silent;
    assert.ok(more >= 0 && more <= this.timeouts - expired, `${more} more were dropped than were lost`);
  }

  private made(msg: Sent): Sent {
    this.sent.add(msg);
    return msg;
  }

  private fate(msg: Sent, fate: string): void {
    if (this.fates.has(msg)) this.wrong.push(`${this.fates.get(msg)} and ${fate}`);
    this.fates.set(msg, fate);
  }

  private async ask(ref: Ref<Sent>, index: number, manner: Manner, n: number, timeoutMs: number): Promise<void> {
    let msg: Sent | undefined;
    const make = (replyTo: Ref<number>): Sent => {
      msg = this.made({ manner, n, replyTo });
      return msg;
    };
    try {
      assert.equal(await query(ref, make, timeoutMs), index);
    } catch (error) {
      assert.ok(error instanceof ActorError && CODES.has(error.code), String(error));
      if (msg === undefined) return;
      const begun = this.fates.has(msg);
      if (error.code === 'crashed') assert.ok(begun);
      else if (error.code === 'timeout') assert.equal(timeoutMs, BRIEF_MS);
      if (error.code === 'timeout' && !begun) this.timeouts++;
      if (error.code === 'overloaded' || !begun) this.fate(msg, error.code);
    }
  }

  private async act(manner: Manner): Promise<void> {
    if (manner === 'immediate' || manner === 'rejects late') await this.stage.turn();
    if (manner === 'timer') await this.stage.pause(1);
    if (manner === 'rejects' || manner === 'rejects late') throw new Error(manner);
    if (manner === 'never ends') await new Promise(() => {});
  }

  private spawn(parent: Ref<Sent> | undefined, plan: ActorPlan | undefined, name: number): void {
    assert.ok(plan !== undefined);
    const index = this.refs.length;
    let running = 0;
    let last = 0;
    let life = 0;
    const handle = async (msg: Sent): Promise<void> => {
      const mine = life;
      running++;
      try {
        await this.act(msg.manner);
        if (msg.replyTo !== undefined) dispatch(msg.replyTo, index);
      } finally {
        // One that was abandoned ends in the midst of another life.
        if (life === mine) running--;
      }
    };
    try {
      const ref = spawn<number, Sent>(
        parent ?? this.system,
        (state, msg, ctx) => {
          this.begun++;
          if (msg.perhaps === undefined) this.fate(msg, 'begun');
          if (running > 0) this.wrong.push('two handlers at once');
          if (state !== life) this.wrong.push('the state of another life');
          if (msg.n > 0 && msg.n <= last) this.wrong.push('out of order');
          if (msg.n > 0) last = msg.n;
          if (msg.reason !== undefined && !REASONS.has(msg.reason.kind)) this.wrong.push(msg.reason.kind);
          if (msg.timer) ctx.after(1, { manner: 'at once', n: 0, perhaps: true, isSignal: true });
          if (msg.unwatch !== undefined) ctx.unwatch(msg.unwatch);
          if (msg.watch !== undefined) {
            let told = 0;
            ctx.watch(msg.watch, (reason) => {
              if (++told > 1) this.wrong.push('told of an end twice');
              return this.made({ manner: 'at once', n: 0, reason, isSignal: true });
            });
          }
          if (msg.manner === 'throws') throw new Error('thrown');
          if (msg.manner !== 'at once') return handle(msg).then(() => state);
          if (msg.replyTo !== undefined) dispatch(msg.replyTo, index);
          return state;
        },
        {
          name: `n${name}`,
          shutdownMs: 3,
          intensity: { max: 5, withinMs: 600_000 },
          mailbox: { capacity: plan.beats ? 10_000 : plan.capacity, policy: plan.policy },
          ...(plan.idle ? { shutdownAfter: 3 } : {}),
          onCrash: (_msg, _error, ctx, child) => ctx[child === undefined ? plan.own : plan.child],
          initialStateFunc: (ctx) => {
            life++;
            running = 0;
            if (plan.beats) ctx.every(1, { manner: 'at once', n: 0, perhaps: true });
            return index % 2 === 0 ? life : Promise.resolve(life);
          },
        },
      );
      this.refs.push(ref);
    } catch (error) {
      assert.ok(error instanceof ActorError ? error.code === 'stopped' : error instanceof SpawnError);
    }
  }
}

function isSent(message: unknown): message is Sent {
  return typeof message === 'object' && message !== null && 'manner' in message;
}
