import assert from 'node:assert/strict';
import fc from 'fast-check';
import {
  type AnyRef,
  type ChildSpec,
  child,
  deleteChild,
  dispatch,
  type Ref,
  type Restart,
  restartChild,
  type Strategy,
  type SupervisorSpec,
  spawn,
  startChild,
  startSupervisor,
  stats,
  stop,
  stopped,
  terminateChild,
} from '../../../../supervision/index.ts';
import type { Stage } from './stage.ts';

type Verb = 'terminate' | 'delete' | 'restart';
type Ending = 'crash' | 'escalate' | 'stop';

/** A supervisor under a supervisor, and what happens to the children of the inner one. */
export interface SupervisorProgram {
  readonly strategy: Strategy;
  readonly max: number;
  readonly outerMax: number;
  /** `bad`: which of its starts fail, from the second on. */
  readonly children: readonly { readonly restart: Restart; readonly slow: boolean; readonly bad: readonly number[] }[];
  readonly commands: readonly (
    | { readonly type: Ending; readonly which: number }
    | { readonly type: 'add'; readonly restart: Restart }
    | { readonly type: Verb; readonly which: number }
  )[];
}

const restart = fc.constantFrom<Restart>('permanent', 'permanent', 'transient', 'temporary');

export const supervisorProgram: fc.Arbitrary<SupervisorProgram> = fc.record({
  strategy: fc.constantFrom<Strategy>('one-for-one', 'one-for-all', 'rest-for-one'),
  max: fc.integer({ min: 0, max: 6 }),
  outerMax: fc.integer({ min: 0, max: 3 }),
  children: fc.array(
    fc.record({ restart, slow: fc.boolean(), bad: fc.array(fc.integer({ min: 2, max: 9 }), { maxLength: 3 }) }),
    { minLength: 1, maxLength: 5 },
  ),
  commands: fc.array(
    fc.oneof(
      {
        weight: 5,
        arbitrary: fc.record({
          type: fc.constantFrom<Ending>('crash', 'crash', 'escalate', 'stop'),
          which: fc.nat(6),
        }),
      },
      { weight: 2, arbitrary: fc.record({ type: fc.constant('add' as const), restart }) },
      {
        weight: 4,
        arbitrary: fc.record({
          type: fc.constantFrom<Verb>('terminate', 'terminate', 'delete', 'restart', 'restart'),
          which: fc.nat(6),
        }),
      },
    ),
    { maxLength: 20 },
  ),
});

interface Entry {
  readonly id: string;
  readonly restart: Restart;
  up: boolean;
}

const verbs = { terminate: terminateChild, delete: deleteChild, restart: restartChild };

/** A start failed, or the supervisor had too many. */
class Failed extends Error {}

class Model {
  readonly log: string[] = [];
  entries: Entry[] = [];
  alive = true;
  restarts = 0;
  innerRestarts = 0;
  private count = 0;
  private outerCount = 0;
  private readonly starts = new Map<string, number>();
  private readonly program: SupervisorProgram;

  constructor(program: SupervisorProgram) {
    this.program = program;
    this.startInner();
  }

  add(id: string, kind: Restart): void {
    const entry: Entry = { id, restart: kind, up: false };
    this.entries.push(entry);
    this.start(entry);
  }

  end(entry: Entry, how: Ending): void {
    this.log.push(`-${entry.id}`);
    entry.up = false;
    if (entry.restart === 'temporary') this.entries.splice(this.entries.indexOf(entry), 1);
    if (entry.restart === 'temporary' || (entry.restart === 'transient' && how === 'stop')) return;
    try {
      this.restart(entry);
    } catch (error) {
      if (!(error instanceof Failed)) throw error;
      this.stopEach(this.entries);
      this.restartInner();
    }
  }

  /** What was asked for comes to this error, or to none. */
  change(entry: Entry, verb: Verb): 'running' | 'crashed' | undefined {
    if (verb === 'terminate') this.stopEach([entry]);
    else if (entry.up) return 'running';
    if (verb === 'delete' || (verb === 'terminate' && entry.restart === 'temporary')) {
      this.entries.splice(this.entries.indexOf(entry), 1);
    }
    if (verb !== 'restart') return undefined;
    try {
      this.start(entry);
    } catch (error) {
      if (!(error instanceof Failed)) throw error;
      return 'crashed';
    }
    this.restarts++;
    return undefined;
  }

  stopEach(entries: readonly Entry[]): void {
    for (const entry of [...entries].reverse()) {
      if (entry.up) this.log.push(`-${entry.id}`);
      entry.up = false;
    }
  }

  private restart(failed: Entry): void {
    this.tally();
    const { strategy } = this.program;
    const from = strategy === 'one-for-all' ? 0 : this.entries.indexOf(failed);
    const affected = strategy === 'one-for-one' ? [failed] : this.entries.slice(from);
    this.stopEach(affected);
    this.entries = this.entries.filter((entry) => !affected.includes(entry) || entry.restart !== 'temporary');
    const again = affected.filter((entry) => entry.restart !== 'temporary');
    while (again.length > 0) {
      const [next] = again;
      if (next === undefined) return;
      try {
        this.start(next);
      } catch (error) {
        if (!(error instanceof Failed)) throw error;
        this.tally();
        continue;
      }
      this.restarts++;
      again.shift();
    }
  }

  /** One more restart, or one too many. */
  private tally(): void {
    if (this.count >= this.program.max) throw new Failed();
    this.count++;
  }

  private start(entry: Entry): void {
    const n = (this.starts.get(entry.id) ?? 0) + 1;
    this.starts.set(entry.id, n);
    if (badStarts(this.program, entry.id).includes(n)) {
      this.log.push(`!${entry.id}`);
      throw new Failed();
    }
    this.log.push(`+${entry.id}`);
    entry.up = true;
  }

  private startInner(): void {
    this.count = 0;
    this.entries = [];
    this.program.children.forEach(({ restart: kind }, i) => {
      this.add(`c${i}`, kind);
    });
  }

  private restartInner(): void {
    for (;;) {
      if (this.outerCount >= this.program.outerMax) {
        this.alive = false;
        return;
      }
      this.outerCount++;
      try {
        this.startInner();
        this.innerRestarts++;
        return;
      } catch (error) {
        if (!(error instanceof Failed)) throw error;
        this.stopEach(this.entries);
      }
    }
  }
}

function badStarts({ children }: SupervisorProgram, id: string): readonly number[] {
  return id.startsWith('c') ? (children[Number(id.slice(1))]?.bad ?? []) : [];
}

/** Runs a program on the model and on supervisors, and compares who started and ended in which order. */
export async function playSupervisors(program: SupervisorProgram, stage: Stage): Promise<void> {
  const { strategy, max, outerMax, children, commands } = program;
  const model = new Model(program);
  const system = stage.start();
  const log: string[] = [];
  const refs = new Map<string, Ref<Ending>>();
  const starts = new Map<string, number>();
  const make = (parent: AnyRef, id: string): AnyRef => {
    const n = (starts.get(id) ?? 0) + 1;
    starts.set(id, n);
    if (badStarts(program, id).includes(n)) {
      log.push(`!${id}`);
      throw new Error('bad start');
    }
    const ref = spawn<undefined, Ending>(
      parent,
      (_, msg, ctx) => {
        if (msg !== 'stop') throw new Error(msg);
        stop(ctx.self);
        return undefined;
      },
      {
        name: id,
        kind: 'member',
        onCrash: (msg, _error, ctx) => (msg === 'escalate' ? ctx.escalate : ctx.stop),
        afterStop: () => {
          log.push(`-${id}`);
        },
      },
    );
    log.push(`+${id}`);
    refs.set(id, ref);
    return ref;
  };
  const specs = children.map(({ restart: kind, slow }, i): ChildSpec => {
    const id = `c${i}`;
    const later = async (parent: AnyRef) => {
      await stage.turn();
      return make(parent, id);
    };
    return { id, restart: kind, shutdownMs: 60_000, start: slow ? later : (parent) => make(parent, id) };
  });
  const within = (limit: number) => ({ max: limit, withinMs: 600_000 });
  const inner: SupervisorSpec = { name: 'inner', strategy, intensity: within(max), children: specs };
  const outer = await stage.over(
    startSupervisor(system, {
      name: 'outer',
      strategy: 'one-for-one',
      intensity: within(outerMax),
      children: [
        { id: 'inner', restart: 'permanent', shutdownMs: 60_000, start: (parent) => startSupervisor(parent, inner) },
      ],
    }),
  );
  const observed = () => {
    const now = child(outer, 'inner');
    const { member, supervisor } = stats(system).kinds;
    const ids = [...model.entries.map(({ id }) => id), ...specs.map(({ id }) => id)];
    const up = new Set(ids.filter((id) => now !== undefined && child(now, id) !== undefined));
    return {
      log,
      up,
      alive: [member?.alive ?? 0, supervisor?.alive],
      restarts: [member?.restarts ?? 0, supervisor?.restarts],
    };
  };
  const agree = async (): Promise<void> => {
    const up = new Set(model.entries.filter((entry) => entry.up).map(({ id }) => id));
    const expected = {
      log: model.log,
      up,
      alive: [up.size, model.alive ? 2 : 0],
      restarts: [model.restarts, model.innerRestarts],
    };
    await stage.agree(observed, expected);
  };

  await agree();
  let added = 0;
  for (const command of commands) {
    if (!model.alive) break;
    if (command.type === 'add') {
      // Three names: a temporary child that ended has left its own to another.
      const id = `d${added++ % 3}`;
      const now = child(outer, 'inner');
      assert.ok(now !== undefined);
      const spec: ChildSpec = {
        id,
        restart: command.restart,
        shutdownMs: 60_000,
        start: (parent) => make(parent, id),
      };
      if (model.entries.some((entry) => entry.id === id)) {
        await stage.over(assert.rejects(startChild(now, spec), { code: 'name_taken' }));
      } else {
        model.add(id, command.restart);
        await stage.over(startChild(now, spec));
      }
    } else if (command.type === 'terminate' || command.type === 'delete' || command.type === 'restart') {
      const entry = model.entries[command.which % model.entries.length];
      const now = child(outer, 'inner');
      if (entry === undefined || now === undefined) continue;
      const expected = model.change(entry, command.type);
      const asked = verbs[command.type](now, entry.id);
      const answer: Promise<unknown> = expected === undefined ? asked : assert.rejects(asked, { code: expected });
      await stage.over(answer);
    } else {
      const up = model.entries.filter((entry) => entry.up);
      const entry = up[command.which % up.length];
      const ref = refs.get(entry?.id ?? '');
      if (entry === undefined || ref === undefined) continue;
      model.end(entry, command.type);
      dispatch(ref, command.type);
    }
    await agree();
  }
  if (model.alive) {
    model.stopEach(model.entries);
    model.alive = false;
    stop(outer);
  }
  const { kind } = await stage.over(stopped(outer));
  assert.ok(kind === 'stopped' || kind === 'intensity');
  await agree();
  stop(system);
}
