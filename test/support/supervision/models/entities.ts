import assert from 'node:assert/strict';
import fc from 'fast-check';
import { ActorError, dispatch, entities, type Ref, stats, stop, stopped } from '../../../../supervision/index.ts';
import { gate } from '../system.ts';
import type { Stage } from './stage.ts';

type What = 'add' | 'get' | 'hold' | 'crash' | 'sleep';
const IDS = ['a', 'b', 'nobody'];

/** What is done to the entities of a kind. Activations, held handlers and onSleeps wait for `go`. */
export interface EntityProgram {
  readonly max: number;
  readonly commands: readonly (
    | { readonly type: 'send'; readonly id: number; readonly items: readonly { what: What; ask: boolean }[] }
    | { readonly type: 'go'; readonly which: number; readonly well: boolean }
    | { readonly type: 'release'; readonly id: number }
  )[];
}

export const entityProgram: fc.Arbitrary<EntityProgram> = fc.record({
  max: fc.oneof(fc.constant(1000), fc.nat(2)),
  commands: fc.array(
    fc.oneof(
      {
        weight: 5,
        arbitrary: fc.record({
          type: fc.constant('send' as const),
          id: fc.nat(IDS.length - 1),
          items: fc.array(
            fc.record({
              what: fc.constantFrom<What>('add', 'add', 'get', 'hold', 'crash', 'sleep'),
              ask: fc.boolean(),
            }),
            { minLength: 1, maxLength: 4 },
          ),
        }),
      },
      {
        weight: 7,
        arbitrary: fc.record({
          type: fc.constant('go' as const),
          which: fc.nat(4),
          well: fc.oneof({ weight: 4, arbitrary: fc.constant(true) }, { weight: 1, arbitrary: fc.constant(false) }),
        }),
      },
      { weight: 1, arbitrary: fc.record({ type: fc.constant('release' as const), id: fc.nat(IDS.length - 1) }) },
    ),
    { maxLength: 50, size: 'max' },
  ),
});

interface Item {
  readonly n: number;
  readonly what: What;
  readonly ask: boolean;
}

/** One activation of an id, from its first message to its end. */
interface Life {
  readonly id: string;
  phase: 'queued' | 'waking' | 'awake' | 'holding' | 'dozing' | 'ended';
  leaving: boolean;
  sleepy: boolean;
  /** What it has in memory is not to be saved. */
  broken: boolean;
  resets: number;
  holding: Item | undefined;
  readonly queue: Item[];
}

/** What the program should do. */
class Model {
  readonly rows = new Map([
    ['a', 0],
    ['b', 0],
  ]);
  readonly lives: Life[] = [];
  readonly cooling = new Set<string>();
  readonly seen = {
    log: [] as string[],
    asks: new Map<number, string>(),
    letters: [] as string[],
    handled: 0,
    failed: 0,
    restarts: 0,
  };
  private readonly max: number;

  constructor(max: number) {
    this.max = max;
  }

  /** Those that wait for the test to go on. */
  get held(): Life[] {
    return this.lives.filter(({ phase }) => phase === 'waking' || phase === 'holding' || phase === 'dozing');
  }

  send(id: string, item: Item): void {
    if (this.cooling.has(id)) {
      this.refuse(item, 'crashed');
      return;
    }
    let life = this.lives.find((each) => each.id === id && !each.leaving);
    if (life === undefined) {
      const behind = this.lives.some((each) => each.id === id && each.phase !== 'ended');
      life = {
        id,
        phase: 'queued',
        leaving: false,
        sleepy: false,
        broken: false,
        resets: 0,
        holding: undefined,
        queue: [],
      };
      this.lives.push(life);
      if (!behind) this.wake(life);
    }
    life.queue.push(item);
  }

  go(life: Life, well: boolean): void {
    if (life.phase === 'dozing') this.ended(life);
    else if (life.phase === 'holding') this.unheld(life, well);
    else this.activated(life, well);
    this.pump(life);
  }

  /** Newest first, which is how an actor stops its children. */
  release(matches: (id: string) => boolean): void {
    for (const life of [...this.lives].reverse()) if (matches(life.id) && !life.leaving) this.leave(life, 'stopped');
  }

  pump(life: Life): void {
    while (life.phase === 'awake' && !life.leaving) {
      const item = life.queue.shift();
      if (item === undefined) break;
      this.seen.handled++;
      if (item.what === 'crash') this.crash(life, item);
      else if (item.what === 'hold') {
        life.phase = 'holding';
        life.holding = item;
      } else this.done(life, item);
    }
    if (life.phase === 'awake' && life.sleepy && !life.leaving) this.leave(life, 'stopped');
  }

  private done(life: Life, { n, what, ask }: Item): void {
    const row = this.rows.get(life.id) ?? Number.NaN;
    if (what === 'add') this.rows.set(life.id, row + 1);
    if (what === 'sleep') life.sleepy = true;
    if (ask) this.seen.asks.set(n, `${row}`);
  }

  private unheld(life: Life, well: boolean): void {
    const item = life.holding;
    assert.ok(item !== undefined);
    life.phase = 'awake';
    life.holding = undefined;
    if (well) this.done(life, item);
    else this.crash(life, item);
    if (life.leaving) this.doze(life);
  }

  private activated(life: Life, well: boolean): void {
    const known = this.rows.has(life.id);
    life.phase = 'awake';
    life.broken = !well || !known;
    if (!well) this.seen.failed++;
    if (life.leaving) this.doze(life);
    else if (life.broken) this.leave(life, well ? 'not_found' : 'crashed');
  }

  private crash(life: Life, { n, ask }: Item): void {
    this.seen.failed++;
    if (ask) this.seen.asks.set(n, 'crashed');
    life.broken = true;
    if (life.leaving) return;
    if (life.resets < this.max) {
      life.resets++;
      life.sleepy = false;
      this.seen.restarts++;
      this.wake(life);
    } else {
      this.cooling.add(life.id);
      this.leave(life, 'crashed');
    }
  }

  private wake(life: Life): void {
    life.phase = 'waking';
    life.broken = false;
    this.seen.log.push(`+${life.id}`);
  }

  private leave(life: Life, refusal: string): void {
    life.leaving = true;
    for (const item of life.queue.splice(0)) this.refuse(item, refusal);
    if (life.phase === 'awake') this.doze(life);
  }

  private doze(life: Life): void {
    if (life.broken) this.ended(life);
    else {
      life.phase = 'dozing';
      this.seen.log.push(`-${life.id} ${this.rows.get(life.id)}`);
    }
  }

  private ended(life: Life): void {
    life.phase = 'ended';
    const next = this.lives.find((each) => each.id === life.id && each.phase === 'queued');
    if (next !== undefined) this.wake(next);
  }

  private refuse({ n, ask }: Item, why: string): void {
    if (ask) this.seen.asks.set(n, why);
    else this.seen.letters.push(`${n} ${why}`);
  }
}

type Sent = Item & { readonly replyTo?: Ref<string> };

/** Runs a program on the model and on entities, and compares after each step. */
export async function playEntities({ max, commands }: EntityProgram, stage: Stage): Promise<void> {
  const model = new Model(max);
  const rows = new Map(model.rows);
  const seen = { log: [] as string[], asks: new Map<number, string>(), letters: [] as string[] };
  /** What waits of each id: at most one thing, because there is one activation at a time. */
  const gates = new Map<string, (well: boolean) => void>();
  const hold = async (id: string): Promise<void> => {
    assert.ok(!gates.has(id), `two activations of ${id}`);
    const { opened, open } = gate<boolean>();
    gates.set(id, open);
    if (!(await opened)) throw new Error('failed');
  };
  const system = stage.start({
    onDeadLetter: ({ message, reason }) => {
      const n = typeof message === 'object' && message !== null && 'n' in message ? message.n : '?';
      seen.letters.push(`${String(n)} ${reason}`);
    },
  });
  const all = entities<Sent, { row: number }>(system, {
    kind: 'entity',
    sleepAfterMs: 600_000,
    coolDownMs: 600_000,
    shutdownMs: 600_000,
    intensity: { max, withinMs: 600_000 },
    backoff: { minMs: 0, maxMs: 0 },
    activate: async (id) => {
      seen.log.push(`+${id}`);
      await hold(id);
      const row = rows.get(id);
      return row === undefined ? undefined : { row };
    },
    handle: async (state, { what, replyTo }, ctx) => {
      if (what === 'crash') state.row = Number.NaN;
      if (what === 'crash') throw new Error('crash');
      if (what === 'hold') {
        const { row } = state;
        state.row = Number.NaN;
        await hold(ctx.id);
        state.row = row;
      }
      if (replyTo !== undefined) dispatch(replyTo, `${state.row}`);
      if (what === 'add') rows.set(ctx.id, ++state.row);
      if (what === 'sleep') ctx.sleep();
      return state;
    },
    onSleep: ({ row }, ctx) => {
      seen.log.push(`-${ctx.id} ${row}`);
      return hold(ctx.id);
    },
  });

  const agree = async (): Promise<void> => {
    const living = model.lives.filter(({ phase }) => phase !== 'ended');
    const expected = {
      ...model.seen,
      rows: model.rows,
      alive: living.length,
      depth: living.reduce((sum, { queue }) => sum + queue.length, 0),
      dropped: 0,
      ids: living.filter(({ leaving }) => !leaving).map(({ id }) => id),
      held: new Set(model.held.map(({ id }) => id)),
    };
    const observed = () => {
      const { alive = 0, depth = 0, handled, failed, restarts, dropped } = stats(system).kinds.entity ?? {};
      const numbers = { alive, depth, handled: handled ?? 0, failed: failed ?? 0, restarts: restarts ?? 0 };
      return { ...seen, rows, ...numbers, dropped: dropped ?? 0, ids: all.ids(), held: new Set(gates.keys()) };
    };
    await stage.agree(observed, expected);
  };
  const go = async (life: Life, well: boolean): Promise<void> => {
    const open = gates.get(life.id);
    gates.delete(life.id);
    model.go(life, well);
    open?.(well);
    await agree();
  };

  let n = 0;
  for (const command of commands) {
    if (command.type === 'go') {
      const { held } = model;
      const life = held[command.which % held.length];
      // An onSleep that fails is over, too.
      if (life !== undefined) await go(life, command.well);
      continue;
    }
    const id = IDS[command.id] ?? 'a';
    if (command.type === 'release') {
      model.release((each) => each === id);
      void all.release((each) => each === id);
    } else {
      for (const { what, ask } of command.items) {
        const item: Item = { n: ++n, what, ask };
        model.send(id, item);
        if (!ask) all.tell(id, item);
        else {
          const ended = (how: string): void => {
            assert.ok(!seen.asks.has(item.n), 'an ask ends once');
            seen.asks.set(item.n, how);
          };
          void all
            .ask(id, (replyTo: Ref<string>) => ({ ...item, replyTo }), 600_000)
            .then(ended, (error: unknown) => ended(error instanceof ActorError ? error.code : String(error)));
        }
      }
      for (const life of model.lives) if (life.id === id) model.pump(life);
    }
    await agree();
  }
  stop(system);
  model.release(() => true);
  for (;;) {
    await agree();
    const [life] = model.held;
    if (life === undefined) break;
    await go(life, true);
  }
  await stage.over(stopped(system));
  // Every message was handled, or somebody was told.
  const told = [...model.seen.asks.values()].length + model.seen.letters.length;
  assert.ok(told + model.seen.handled >= n);
}
