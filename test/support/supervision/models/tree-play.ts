import assert from 'node:assert/strict';
import fc from 'fast-check';
import {
  ActorError,
  type Context,
  type CrashContext,
  type Decision,
  dispatch,
  query,
  type Ref,
  SpawnError,
  type SystemRef,
  spawn,
  spawnStateless,
  stats,
  stop,
  stopped,
  tree,
} from '../../../../supervision/index.ts';
import { gate } from '../system.ts';
import type { Stage } from './stage.ts';
import { type DecisionName, type Message, type ModelActor, type Plan, TreeModel } from './tree-model.ts';

/** One step of a program. Numbers choose among what there is. */
export type TreeCommand =
  | { readonly type: 'spawn'; readonly under: number; readonly name: number; readonly plan: Plan }
  | { readonly type: 'dig'; readonly under: number; readonly levels: number; readonly plan: Plan }
  | { readonly type: 'send'; readonly to: number; readonly items: readonly Omit<Message, 'id'>[] }
  | { readonly type: 'finish'; readonly which: number; readonly well: boolean }
  | { readonly type: 'stop' | 'close' | 'decide'; readonly which: number };

const decision = fc.constantFrom<DecisionName>(
  ...(['stop', 'stopAll', 'stopChild', 'stopAllChildren', 'resume'] as const),
  ...(['reset', 'resetAll', 'resetChild', 'resetAllChildren', 'escalate'] as const),
);
const often = <T>(usual: T, weight: number, rare: fc.Arbitrary<T>): fc.Arbitrary<T> =>
  fc.oneof({ weight, arbitrary: fc.constant(usual) }, { weight: 1, arbitrary: rare });
const plan: fc.Arbitrary<Plan> = fc.record({
  policy: fc.option(fc.record({ own: decision, child: decision }), { nil: undefined, freq: 6 }),
  late: often(false, 4, fc.constant(true)),
  slowEnd: often(false, 4, fc.constant(true)),
  max: often(1000, 3, fc.nat(2)),
  badLife: often(0, 4, fc.integer({ min: 1, max: 3 })),
  concurrency: often<number | undefined>(undefined, 5, fc.integer({ min: 1, max: 3 })),
});
const item = fc.record({
  ask: fc.boolean(),
  what: fc.constantFrom<Message['what']>('note', 'note', 'hold', 'hold', 'throw', 'throw', 'watch', 'unwatch', 'stop'),
  target: fc.nat(12),
});

/** A program for a tree of actors. */
export const treeProgram: fc.Arbitrary<readonly TreeCommand[]> = fc.array(
  fc.oneof(
    {
      weight: 4,
      arbitrary: fc.record({ type: fc.constant('spawn' as const), under: fc.nat(12), name: fc.nat(5), plan }),
    },
    {
      weight: 6,
      arbitrary: fc.record({
        type: fc.constant('send' as const),
        to: fc.nat(12),
        items: fc.array(item, { minLength: 1, maxLength: 5 }),
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({ type: fc.constant('dig' as const), under: fc.nat(12), levels: fc.nat(40), plan }),
    },
    { weight: 4, arbitrary: fc.record({ type: fc.constant('finish' as const), which: fc.nat(9), well: fc.boolean() }) },
    {
      weight: 2,
      arbitrary: fc.record({
        type: fc.constantFrom('stop' as const, 'close' as const, 'decide' as const),
        which: fc.nat(9),
      }),
    },
  ),
  { maxLength: 40, size: 'max' },
);

type Sent = Message & { readonly replyTo?: Ref<string> };

/** Runs a program on the model and on the runtime, and compares all that can be seen after each step. */
export async function playTree(program: readonly TreeCommand[], stage: Stage): Promise<void> {
  const play = new TreePlay(stage);
  for (const command of program) {
    play.step(command);
    play.model.drain();
    await play.agree();
  }
  await play.end();
}

class TreePlay {
  readonly model = new TreeModel();
  private readonly refs: Ref<Sent>[] = [];
  private readonly reasons: (string | undefined)[] = [];
  private readonly seen = {
    log: [] as string[][],
    asks: new Map<number, string>(),
    letters: [] as string[],
    ends: [] as string[],
  };
  private readonly holds = new Map<number, (well: boolean) => void>();
  private readonly closes = new Map<number, () => void>();
  /** One for each decision that waits, in the order they were asked for. */
  private readonly decides: (() => void)[] = [];
  private readonly stage: Stage;
  private readonly system: SystemRef;
  private nextId = 1;

  constructor(stage: Stage) {
    this.stage = stage;
    this.system = stage.start({
      onDeadLetter: ({ message, reason }) => this.seen.letters.push(`${idOf(message)} ${reason}`),
    });
  }

  step(command: TreeCommand): void {
    const { model } = this;
    if (command.type === 'spawn') this.spawn(this.parentAt(command.under), `n${command.name}`, command.plan);
    else if (command.type === 'dig') this.dig(this.parentAt(command.under), command.levels, command.plan);
    else if (command.type === 'finish') {
      const held = model.actors.flatMap((actor) => actor.running.map((msg) => ({ actor, msg })));
      const chosen = held[command.which % held.length];
      if (chosen === undefined) return;
      const well = command.well || this.crashWaits();
      model.finish(chosen.actor, chosen.msg, well);
      this.holds.get(chosen.msg.id)?.(well);
    } else if (command.type === 'close') {
      const chosen = model.closings[command.which % model.closings.length];
      if (chosen === undefined) return;
      model.close(chosen);
      this.closes.get(chosen.index)?.();
    } else if (command.type === 'decide') {
      const at = command.which % model.undecided.length;
      const chosen = model.undecided[at];
      if (chosen === undefined) return;
      model.settle(chosen);
      this.decides.splice(at, 1)[0]?.();
    } else if (model.actors.length > 0) {
      const at = (command.type === 'send' ? command.to : command.which) % model.actors.length;
      const actor = model.actors[at];
      const ref = this.refs[at];
      assert.ok(actor !== undefined && ref !== undefined);
      if (command.type === 'send') for (const each of command.items) this.send(actor, ref, each);
      else {
        model.stop(actor, 'stopped');
        stop(ref);
      }
    }
  }

  private parentAt(under: number): ModelActor {
    const { root, actors } = this.model;
    const possible = [root, ...actors.filter((actor) => actor.plan.concurrency === undefined)];
    return possible[under % possible.length] ?? root;
  }

  /** A line of actors, each below the one before. */
  private dig(top: ModelActor, levels: number, plan: Plan): void {
    let at: ModelActor | string = top;
    for (let level = 0; level < levels && typeof at !== 'string' && !at.stateless; level++) {
      at = this.spawn(at, 'n0', plan);
    }
  }

  private spawn(parent: ModelActor, name: string, plan: Plan): ModelActor | string {
    const { model } = this;
    const index = model.actors.length;
    const parentRef = this.refs[parent.index] ?? this.system;
    const expected = model.spawn(parent, name, plan);
    this.seen.log[index] = [];
    try {
      const ref = this.make(parentRef, index, name, plan);
      assert.ok(typeof expected !== 'string', `expected ${String(expected)}`);
      this.refs.push(ref);
      void stopped(ref).then(({ kind }) => {
        this.reasons[index] = kind;
      });
    } catch (error) {
      if (!(error instanceof ActorError || error instanceof SpawnError)) throw error;
      this.seen.log.length = index;
      assert.equal(error.code, expected);
    }
    return expected;
  }

  private make(parent: Ref<never>, index: number, name: string, plan: Plan): Ref<Sent> {
    let life = 0;
    const { policy } = plan;
    const decide = (
      _msg: unknown,
      _error: unknown,
      ctx: CrashContext<Sent>,
      child: unknown,
    ): Decision | Promise<Decision> => {
      const chosen = ctx[(child === undefined ? policy?.own : policy?.child) ?? 'stop'];
      if (!plan.late) return chosen;
      const { opened, open } = gate<Decision>();
      this.decides.push(() => open(chosen));
      return opened;
    };
    const common = {
      name,
      intensity: { max: plan.max, withinMs: 600_000 },
      shutdownMs: 600_000,
      ...(policy === undefined ? {} : { onCrash: decide }),
    };
    const begin = (): number => {
      if (++life === plan.badLife) throw new Error('no state');
      return 0;
    };
    if (plan.concurrency !== undefined) {
      const options = { ...common, concurrency: plan.concurrency };
      return spawnStateless<Sent>(parent, (msg, ctx) => this.handle(index, () => 1, 0, msg, ctx), options);
    }
    return spawn<number | undefined, Sent>(
      parent,
      (count, msg, ctx) => {
        const now = count ?? 0;
        return this.handle(index, () => life, now, msg, ctx)?.then(() => now + 1) ?? now + 1;
      },
      { ...common, initialStateFunc: begin, afterStop: (count) => this.close(index, count ?? 0, plan) },
    );
  }

  private close(index: number, count: number, plan: Plan): Promise<void> | undefined {
    this.seen.ends.push(`${index} at ${count}`);
    if (!plan.slowEnd) return undefined;
    const { opened, open } = gate();
    this.closes.set(index, open);
    return opened;
  }

  private handle(
    index: number,
    life: () => number,
    count: number,
    msg: Sent,
    ctx: Context<Sent>,
  ): Promise<void> | undefined {
    const done = (): void => {
      this.seen.log[index]?.push(`${msg.id} in life ${life()} at ${count}`);
      if (msg.replyTo !== undefined) dispatch(msg.replyTo, `reply ${count}`);
    };
    if (msg.what === 'throw') throw new Error('thrown');
    if (msg.what === 'hold') {
      const { opened, open } = gate<boolean>();
      this.holds.set(msg.id, open);
      return opened.then((well) => {
        if (!well) throw new Error('rejected');
        done();
      });
    }
    done();
    const target = this.refs[msg.target];
    if (msg.what === 'stop') stop(ctx.self);
    else if (target !== undefined && msg.what === 'watch') {
      ctx.watch(target, () => ({ id: -1 - msg.target, ask: false, what: 'note', target: 0 }));
    } else if (target !== undefined && msg.what === 'unwatch') ctx.unwatch(target);
    return undefined;
  }

  private send(actor: ModelActor, ref: Ref<Sent>, { ask, what, target }: Omit<Message, 'id'>): void {
    // With one crash at a time what happens does not depend on which actor runs first.
    const msg: Message = {
      id: this.nextId++,
      ask,
      what: what === 'throw' && this.crashWaits() ? 'note' : what,
      target,
    };
    this.model.send(actor, msg);
    if (!ask) dispatch(ref, msg);
    else {
      const { id } = msg;
      const answer = query(ref, (replyTo: Ref<string>) => ({ ...msg, replyTo }), 600_000);
      void answer.then(
        (reply) => this.ended(id, reply),
        (error: unknown) => this.ended(id, error instanceof ActorError ? error.code : String(error)),
      );
    }
  }

  private ended(ask: number, how: string): void {
    assert.ok(!this.seen.asks.has(ask));
    this.seen.asks.set(ask, how);
  }

  private crashWaits(): boolean {
    return this.model.actors.some(({ queue }) => queue.some(({ what }) => what === 'throw'));
  }

  /** Fails unless the runtime comes to show what the model shows. */
  async agree(): Promise<void> {
    await this.stage.agree(() => this.observed(), this.expected());
  }

  private observed(): unknown {
    const { kinds, deadLetters } = stats(this.system);
    const { alive, depth, handled, failed, restarts, dropped } = kinds.actor ?? {};
    return {
      ...this.seen,
      reasons: Array.from(this.reasons, String),
      deadLetters,
      alive,
      depth,
      handled,
      failed,
      restarts,
      dropped,
      tree: tree(this.system).children.map(shape),
    };
  }

  private expected(): unknown {
    const { model } = this;
    const living = model.actors.filter(({ phase }) => phase !== 'ended');
    this.reasons.length = model.actors.length;
    return {
      ...model.seen,
      reasons: Array.from(model.actors, ({ phase, reason }) => String(phase === 'ended' ? reason : undefined)),
      deadLetters: model.seen.letters.length,
      alive: living.length,
      depth: living.reduce((sum, { depth }) => sum + depth, 0),
      dropped: 0,
      tree: model.root.children.map(shape),
    };
  }

  /** Stops the system and lets all that is held go on; then nothing is left. */
  async end(): Promise<void> {
    const { model } = this;
    stop(this.system);
    model.stop(model.root, 'stopped');
    for (;;) {
      model.drain();
      await this.agree();
      if (model.root.phase === 'ended') break;
      const held = model.actors.some(({ running }) => running.length > 0);
      assert.ok(held || model.closings.length > 0, 'the model waits for nothing');
      this.step(held ? { type: 'finish', which: 0, well: true } : { type: 'close', which: 0 });
    }
    assert.deepEqual(await this.stage.over(stopped(this.system)), { kind: 'stopped' });
    assert.equal(this.seen.asks.size, [...model.seen.asks].length);
    const made = this.nextId - 1;
    const told = [...model.seen.letters].filter((letter) => !letter.startsWith('-')).length;
    assert.ok(told + this.seen.asks.size <= made);
  }
}

interface ShapeNode {
  readonly name: string;
  readonly status: string;
  readonly depth: number;
  readonly children: readonly ShapeNode[];
}

/** What a picture of the tree shows of each actor, children in order. */
function shape({ name, status, depth, children }: ShapeNode): unknown[] {
  return [name, status, depth, children.map(shape)];
}

function idOf(message: unknown): string {
  return typeof message === 'object' && message !== null && 'id' in message ? String(message.id) : 'unknown';
}
