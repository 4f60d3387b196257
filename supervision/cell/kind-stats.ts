import type { Log } from '../../proto/ports/log.ts';
import type { Tracer } from '../tracing.ts';
import { CrashNotes } from './crash-notes.ts';
import type { DeadLetters } from './dead-letters.ts';
import { Latencies } from './latency.ts';
import { MailboxPool } from './mailbox.ts';
import type { RunQueue } from './run-queue.ts';

/** Running numbers of one kind of actor in one system. Depth and age are read from the mailboxes when asked for. */
export class KindStats {
  readonly kind: string;
  readonly system: SystemCore;
  /** The system's: messages reach it this way. */
  readonly queue: RunQueue;
  /** The system's. */
  readonly mailboxes: MailboxPool;
  /** The system's, if it has one. */
  readonly tracer: Tracer | undefined;
  alive = 0;
  /** Messages handed to a handler. */
  handled = 0;
  /** Handlers and initial states that threw. */
  failed = 0;
  /** Resets, and children started again by a supervisor. */
  restarts = 0;
  /** Messages that found a full mailbox. */
  dropped = 0;
  /** Asks that were over before their turn. */
  expired = 0;
  /** Asks whose asker gave up before their turn. */
  cancelled = 0;
  /** The coarse time at which a message was last looked at for its latency; stays as it is with a tracer. */
  sampledAt = -1;

  constructor(kind: string, system: SystemCore) {
    this.kind = kind;
    this.system = system;
    this.queue = system.queue;
    this.mailboxes = system.mailboxes;
    this.tracer = system.tracer;
  }
}

/** Who looks at the actors of a system from beside them. */
interface Overseer {
  /** Before an actor leaves the tree. */
  leaves(cell: object): void;
  /** When the system has ended. */
  close(): void;
}

/** What a system is made of. */
type SystemParts = Pick<
  SystemCore,
  'name' | 'log' | 'letters' | 'queue' | 'random' | 'tracer' | 'freezesMessages' | 'pace'
>;

/** What all actors of a system share. */
export class SystemCore {
  readonly name: string;
  readonly log: Log;
  readonly letters: DeadLetters;
  readonly queue: RunQueue;
  readonly mailboxes = new MailboxPool();
  /** At least 0 and below 1. */
  readonly random: () => number;
  readonly tracer: Tracer | undefined;
  /** Hears of each actor whose flags do not go together; nothing is looked at without it. */
  onIllegalFlags: ((problem: string) => void) | undefined = undefined;
  /** Whether actors get messages that nobody can change. */
  readonly freezesMessages: boolean;
  /** By what the pauses of actors are divided. */
  readonly pace: number;
  /** Whether all of its actors are of the class `Cell` itself. */
  readonly hasPlainCells: boolean;
  /** Called for a supervisor at the top that had too many restarts. */
  onGivingUp: ((name: string, cause: unknown) => void) | undefined = undefined;
  /** The type of a message for people. */
  messageType: ((msg: unknown) => string | undefined) | undefined = undefined;
  /** There is none without a log. */
  watchdog: Overseer | undefined = undefined;
  readonly crashes = new CrashNotes();
  readonly latencies = new Latencies();
  readonly kinds = new Map<string, KindStats>();
  /** The kind of actors that name none. */
  readonly plain: KindStats;
  /** The options that were checked last. */
  checkedOptions: object | undefined = undefined;
  /** Makes names for unnamed actors. */
  nextLabel = 1;

  constructor(parts: SystemParts) {
    this.name = parts.name;
    this.log = parts.log;
    this.letters = parts.letters;
    this.queue = parts.queue;
    this.random = parts.random;
    this.tracer = parts.tracer;
    this.freezesMessages = parts.freezesMessages;
    this.pace = parts.pace;
    this.hasPlainCells = parts.tracer === undefined && !parts.freezesMessages;
    this.plain = this.kindOf('actor');
  }

  /** The numbers of a kind, made at its first actor. */
  kindOf(kind: string): KindStats {
    let stats = this.kinds.get(kind);
    if (stats === undefined) {
      stats = new KindStats(kind, this);
      this.kinds.set(kind, stats);
    }
    return stats;
  }
}
