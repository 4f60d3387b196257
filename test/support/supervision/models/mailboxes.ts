import assert from 'node:assert/strict';
import fc from 'fast-check';
import { cellOf } from '../../../../supervision/cell/context.ts';
import { watch } from '../../../../supervision/cell/watches.ts';
import {
  ActorError,
  dispatch,
  type MailboxPolicy,
  query,
  type Ref,
  spawn,
  spawnStateless,
  stats,
  stop,
  stopped,
  tree,
} from '../../../../supervision/index.ts';
import { gate, openAsks } from '../system.ts';
import type { Stage } from './stage.ts';

/** One actor with a bounded mailbox; each message is held until a `finish`. */
export interface MailboxProgram {
  readonly capacity: number;
  readonly policy: MailboxPolicy | undefined;
  /** Undefined: stateful. */
  readonly concurrency: number | undefined;
  readonly commands: readonly {
    /** `lapse`: an ask whose deadline passes at once. `answer`: another one answers an ask that waits. */
    readonly type: 'tell' | 'signal' | 'ask' | 'lapse' | 'answer' | 'finish';
    /** Which of those in a handler is over, or of those that wait is answered. */
    readonly which: number;
    /** How it ends. */
    readonly well: boolean;
    /** The next command follows at once. */
    readonly hurry: boolean;
  }[];
}

export const mailboxProgram: fc.Arbitrary<MailboxProgram> = fc.record({
  capacity: fc.integer({ min: 1, max: 6 }),
  policy: fc.constantFrom(undefined, 'reject' as const, 'drop-oldest' as const, 'drop-newest' as const),
  concurrency: fc.option(fc.integer({ min: 1, max: 3 }), { nil: undefined }),
  commands: fc.array(
    fc.record({
      type: fc.oneof(
        {
          weight: 30,
          arbitrary: fc.constantFrom(...(['tell', 'tell', 'signal', 'ask', 'finish', 'finish', 'answer'] as const)),
        },
        { weight: 1, arbitrary: fc.constant('lapse' as const) },
      ),
      which: fc.nat(3),
      well: fc.boolean(),
      hurry: fc.boolean(),
    }),
    { maxLength: 60, size: 'max' },
  ),
});

interface Entry {
  readonly id: number;
  readonly ask: boolean;
}

/** What the program should do: a queue that is an array, and what is in handlers. */
class Model {
  readonly queue: Entry[] = [];
  /** Ends of watched actors: without a bound, and first. */
  readonly signals: Entry[] = [];
  readonly running: Entry[] = [];
  readonly began: number[] = [];
  readonly letters: string[] = [];
  readonly asks = new Map<number, string>();
  dropped = 0;
  expired = 0;
  failed = 0;
  /** Asks that were over when the actor stopped before their turn. */
  forgotten = 0;
  private readonly program: MailboxProgram;

  constructor(program: MailboxProgram) {
    this.program = program;
  }

  send(entry: Entry): void {
    const { capacity, policy } = this.program;
    if (this.queue.length < capacity) {
      this.queue.push(entry);
      return;
    }
    this.dropped++;
    const shed = policy === 'drop-oldest' ? this.queue.shift() : entry;
    if (policy === 'drop-oldest') this.queue.push(entry);
    if (shed?.ask === true) this.end(shed.id, 'overloaded');
    else if (shed !== undefined && (policy ?? 'reject') === 'reject') this.letters.push(`${shed.id} overloaded`);
  }

  /** An ask ends once; false when it was over. */
  end(id: number, how: string): boolean {
    if (this.asks.has(id)) return false;
    this.asks.set(id, how);
    return true;
  }

  /** Whether nothing more begins before something ends. */
  get full(): boolean {
    return this.running.length >= (this.program.concurrency ?? 1);
  }

  drain(): void {
    while (!this.full) {
      const next = this.signals.shift() ?? this.queue.shift();
      if (next === undefined) return;
      if (this.asks.has(next.id)) {
        this.expired++;
        continue;
      }
      this.began.push(next.id);
      this.running.push(next);
    }
  }

  finish(entry: Entry, well: boolean): void {
    this.running.splice(this.running.indexOf(entry), 1);
    const reply = `done ${entry.id}`;
    if (entry.ask && !this.end(entry.id, well ? reply : 'crashed') && well) this.letters.push(`${reply} late`);
    if (!well) this.failed++;
  }

  stop(): void {
    for (const { id, ask } of [...this.signals.splice(0), ...this.queue.splice(0)]) {
      if (ask && !this.end(id, 'stopped')) this.forgotten++;
      if (!ask) this.letters.push(`${id} stopped`);
    }
  }
}

type Held = Entry & { readonly replyTo?: Ref<string> };

/** Runs a program on the model and on an actor, and compares after each step that is not hurried. */
export async function playMailbox(program: MailboxProgram, stage: Stage): Promise<void> {
  const { capacity, policy, concurrency, commands } = program;
  const model = new Model(program);
  const began: number[] = [];
  const letters: string[] = [];
  const asks = new Map<number, string>();
  const open = new Map<number, (well: boolean) => void>();
  const addresses = new Map<number, Ref<string>>();
  const system = stage.start({ onDeadLetter: ({ message, reason }) => letters.push(`${idOf(message)} ${reason}`) });
  const openBefore = openAsks(system);
  const hold = async (msg: Held): Promise<void> => {
    began.push(msg.id);
    const held = gate<boolean>();
    open.set(msg.id, held.open);
    if (!(await held.opened)) throw new Error('rejected');
    if (msg.replyTo !== undefined) dispatch(msg.replyTo, `done ${msg.id}`);
  };
  const options = { mailbox: { capacity, ...(policy === undefined ? {} : { policy }) } };
  const ref =
    concurrency === undefined
      ? spawn<void, Held>(system, (_, msg) => hold(msg), { ...options, onCrash: (_msg, _error, ctx) => ctx.resume })
      : spawnStateless<Held>(system, hold, { ...options, concurrency });
  const send = (entry: Entry, timeoutMs = 600_000): void => {
    model.send(entry);
    if (!entry.ask) {
      dispatch(ref, entry);
      return;
    }
    const ended = (how: string): void => {
      assert.ok(!asks.has(entry.id), 'an ask ends once');
      asks.set(entry.id, how);
    };
    const make = (replyTo: Ref<string>): Held => {
      addresses.set(entry.id, replyTo);
      return { ...entry, replyTo };
    };
    void query(ref, make, timeoutMs).then(ended, (error: unknown) =>
      ended(error instanceof ActorError ? error.code : String(error)),
    );
  };
  const observed = () => {
    const { depth, handled, failed, dropped, expired } = stats(system).kinds.actor ?? {};
    return { began, letters, asks, depth, handled, failed, dropped, expired };
  };
  const expected = () => ({
    began: model.began,
    letters: model.letters,
    asks: model.asks,
    depth: model.signals.length + model.queue.length,
    handled: model.began.length,
    failed: model.failed,
    dropped: model.dropped,
    expired: model.expired,
  });
  const rest = async (): Promise<void> => {
    model.drain();
    await stage.agree(observed, expected());
  };
  let id = 0;
  for (const { type, which, well, hurry } of commands) {
    if (type === 'tell' || type === 'ask') send({ id: ++id, ask: type === 'ask' });
    else if (type === 'signal') {
      const entry = { id: ++id, ask: false };
      model.signals.push(entry);
      const target = spawn(system, () => undefined, { kind: 'target' });
      watch(cellOf(ref), cellOf(target), () => entry);
      stop(target);
    } else if (type === 'answer') {
      const waiting = model.queue.filter(({ id, ask }) => ask && !model.asks.has(id));
      const entry = waiting[which % waiting.length];
      const address = addresses.get(entry?.id ?? 0);
      if (entry === undefined || address === undefined) continue;
      model.end(entry.id, 'answered');
      dispatch(address, 'answered');
    } else {
      // What is in a handler is known only at rest.
      await rest();
      if (type === 'lapse') {
        // One that begins at once might do so before its deadline or after it.
        if (!model.full) continue;
        send({ id: ++id, ask: true }, 1);
        model.end(id, 'timeout');
        await stage.pass();
      } else {
        const entry = model.running[which % model.running.length];
        if (entry === undefined) continue;
        model.finish(entry, well);
        open.get(entry.id)?.(well);
      }
      await rest();
    }
    if (!hurry) await rest();
  }
  await rest();
  model.stop();
  stop(ref);
  for (const entry of [...model.running]) {
    model.finish(entry, true);
    open.get(entry.id)?.(true);
  }
  await stage.over(stopped(ref));
  await stage.agree(observed, expected());
  // Every message is accounted for, once.
  const { handled = 0, dropped = 0, expired = 0 } = observed();
  const silent = policy === 'drop-oldest' || policy === 'drop-newest';
  const refused = [...asks.values()].filter((how) => how === 'stopped').length;
  const stoppedLetters = letters.filter((letter) => letter.endsWith('stopped')).length;
  assert.equal(handled + dropped + expired + stoppedLetters + refused + model.forgotten, id);
  if (silent) assert.ok(letters.every((letter) => !letter.endsWith('overloaded')));
  assert.equal(openAsks(system), openBefore);
  assert.deepEqual(tree(system).children, []);
  stop(system);
}

function idOf(message: unknown): string {
  if (typeof message === 'string') return message;
  return typeof message === 'object' && message !== null && 'id' in message ? String(message.id) : 'unknown';
}
