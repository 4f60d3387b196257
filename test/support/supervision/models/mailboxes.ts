import assert from 'node:assert/strict';
import fc from 'fast-check';
import { openAsks } from '../../../../supervision/cell/ask-deadlines.ts';
import {
  ActorError,
  dispatch,
  type MailboxPolicy,
  query,
  type Ref,
  spawn,
  spawnStateless,
  start,
  stats,
  stop,
  stopped,
  tree,
} from '../../../../supervision/index.ts';
import { gate } from '../system.ts';
import { settle } from './settle.ts';

/** One actor with a bounded mailbox; each message is held until a `finish`. */
export interface MailboxProgram {
  readonly capacity: number;
  readonly policy: MailboxPolicy | undefined;
  /** Undefined: stateful. */
  readonly concurrency: number | undefined;
  readonly commands: readonly {
    readonly type: 'tell' | 'ask' | 'finish';
    /** Which of those in a handler is over. */
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
      type: fc.constantFrom('tell' as const, 'tell' as const, 'ask' as const, 'finish' as const),
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
  readonly running: Entry[] = [];
  readonly began: number[] = [];
  readonly letters: string[] = [];
  readonly asks = new Map<number, string>();
  dropped = 0;
  failed = 0;
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
    if (shed?.ask === true) this.asks.set(shed.id, 'overloaded');
    else if (shed !== undefined && (policy ?? 'reject') === 'reject') this.letters.push(`${shed.id} overloaded`);
  }

  drain(): void {
    while (this.running.length < (this.program.concurrency ?? 1)) {
      const next = this.queue.shift();
      if (next === undefined) return;
      this.began.push(next.id);
      this.running.push(next);
    }
  }

  finish(entry: Entry, well: boolean): void {
    this.running.splice(this.running.indexOf(entry), 1);
    if (entry.ask) this.asks.set(entry.id, well ? `done ${entry.id}` : 'crashed');
    if (!well) this.failed++;
  }

  stop(): void {
    for (const { id, ask } of this.queue.splice(0)) {
      if (ask) this.asks.set(id, 'stopped');
      else this.letters.push(`${id} stopped`);
    }
  }
}

type Held = Entry & { readonly replyTo?: Ref<string> };

/** Runs a program on the model and on an actor, and compares after each step that is not hurried. */
export async function playMailbox(program: MailboxProgram): Promise<void> {
  const { capacity, policy, concurrency, commands } = program;
  const openBefore = openAsks();
  const model = new Model(program);
  const began: number[] = [];
  const letters: string[] = [];
  const asks = new Map<number, string>();
  const open = new Map<number, (well: boolean) => void>();
  const system = start({ onDeadLetter: ({ message, reason }) => letters.push(`${idOf(message)} ${reason}`) });
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
  const send = (entry: Entry): void => {
    model.send(entry);
    if (!entry.ask) {
      dispatch(ref, entry);
      return;
    }
    const ended = (how: string): void => {
      assert.ok(!asks.has(entry.id), 'an ask ends once');
      asks.set(entry.id, how);
    };
    void query(ref, (replyTo: Ref<string>) => ({ ...entry, replyTo }), 600_000).then(ended, (error: unknown) =>
      ended(error instanceof ActorError ? error.code : String(error)),
    );
  };
  const observed = () => {
    const { depth, handled, failed, dropped } = stats(system).kinds.actor ?? {};
    return { began, letters, asks, depth, handled, failed, dropped };
  };
  const expected = () => ({
    began: model.began,
    letters: model.letters,
    asks: model.asks,
    depth: model.queue.length,
    handled: model.began.length,
    failed: model.failed,
    dropped: model.dropped,
  });
  let id = 0;
  for (const { type, which, well, hurry } of commands) {
    if (type !== 'finish') send({ id: ++id, ask: type === 'ask' });
    else {
      // What is in a handler is known only at rest.
      model.drain();
      await settle(observed, expected());
      const entry = model.running[which % model.running.length];
      if (entry === undefined) continue;
      model.finish(entry, well);
      open.get(entry.id)?.(well);
      model.drain();
      await settle(observed, expected());
    }
    if (hurry) continue;
    model.drain();
    await settle(observed, expected());
  }
  model.drain();
  await settle(observed, expected());
  model.stop();
  stop(ref);
  for (const entry of [...model.running]) {
    model.finish(entry, true);
    open.get(entry.id)?.(true);
  }
  await stopped(ref);
  await settle(observed, expected());
  // Every message is accounted for, once.
  const { handled = 0, dropped = 0 } = observed();
  const silent = policy === 'drop-oldest' || policy === 'drop-newest';
  const refused = [...asks.values()].filter((how) => how === 'stopped').length;
  const stoppedLetters = letters.filter((letter) => letter.endsWith('stopped')).length;
  assert.equal(handled + dropped + stoppedLetters + refused, id);
  if (silent) assert.equal(letters.length, stoppedLetters);
  assert.equal(openAsks(), openBefore);
  assert.deepEqual(tree(system).children, []);
  stop(system);
}

function idOf(message: unknown): string {
  return typeof message === 'object' && message !== null && 'id' in message ? String(message.id) : 'unknown';
}
