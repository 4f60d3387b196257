/**
 * Monitors that share a broker. Each says every second what it can measure. Of those that can measure a part of the
 * cluster (a machine, a container engine) one does, and tells the others what it found; the same choice makes one of
 * them publish. Each chooses by itself from what it hears: for a moment two may measure the same.
 */
import { jsonOf } from '../../lib/input.ts';
import { newId } from '../../proto/ids.ts';
import { SHARES_SUBJECT, type ShareMessage, type SharePiece, shareSchema } from '../../proto/monitor/shares.ts';
import type { ClusterSample, PodSample } from '../../proto/ports/metrics-source.ts';
import { type AnyRef, dispatch, spawn } from '../../supervision/index.ts';
import type { Part } from '../service/supervisor.ts';
import type { MonitorDeps } from './deps.ts';

/** What another monitor found. */
export interface SharedSample {
  readonly part: string;
  readonly sample: ClusterSample;
  /** When it was measured, Unix ms. */
  readonly at: number;
  /** When to expect the next, ms. */
  readonly refreshMs: number;
}

/** Who is told of what the others say. */
interface ShareListener {
  onSample(shared: SharedSample): void;
  /** This monitor measures something else than before. */
  onTurn(): void;
}

type Offer = Extract<ShareMessage, { readonly type: 'offer' }>;

/** Publishing, which one does as if it were a part that all can measure. */
const PUBLISHING = 'publishing';
const BEAT_MS = 1000;
/** A monitor that was not heard for so long has ended. */
const DEAD_MS = 3 * BEAT_MS;
/** How long a monitor that starts listens before it takes anything. */
const SETTLE_MS = 1.5 * BEAT_MS;
/** Nodes and pods of a message: brokers take a megabyte. */
const PIECE = 500;

export class Shares implements Part {
  readonly #deps: Pick<MonitorDeps, 'bus' | 'log' | 'clock' | 'refreshMs'>;
  readonly #listener: ShareListener;
  readonly #self = newId();
  readonly #startedAt: number;
  readonly #offered: Record<string, number> = { [PUBLISHING]: 0 };
  /** The others, and when they were heard (of the process's own clock). */
  readonly #others = new Map<string, { readonly offer: Offer; readonly heardAt: number }>();
  /** What came of samples that are not complete, by part. */
  readonly #pieces = new Map<string, SharePiece[]>();
  /** What this monitor measured last, for those that come. */
  readonly #told = new Map<string, SharedSample>();
  #own: readonly PodSample[] = [];
  #isSettled = false;
  #mine = '';

  constructor(deps: MonitorDeps, listener: ShareListener) {
    this.#deps = deps;
    this.#listener = listener;
    this.#startedAt = deps.clock.now();
  }

  start(parent: AnyRef): AnyRef {
    const ref = spawn<null, ShareMessage | 'beat' | 'settled'>(
      parent,
      (state, message) => {
        if (message === 'settled') this.#isSettled = true;
        else if (message === 'beat') this.#beat();
        else this.#hear(message);
        this.#choose();
        return state;
      },
      {
        name: 'shares',
        kind: 'monitor/shares',
        initialStateFunc: (ctx) => {
          ctx.after(0, 'beat');
          ctx.every(BEAT_MS, 'beat');
          ctx.after(SETTLE_MS, 'settled');
          return null;
        },
        afterStop: async () => {
          await subscription.close();
          this.#send({ type: 'leave', from: this.#self });
        },
      },
    );
    const subscription = this.#deps.bus.subscribe(SHARES_SUBJECT, ({ data }) => {
      const { data: message } = shareSchema.safeParse(jsonOf(Buffer.from(data).toString()));
      if (message !== undefined && message.from !== this.#self) dispatch(ref, message);
    });
    return ref;
  }

  /** This monitor can measure that. Again changes nothing. */
  offer(part: string): void {
    this.#offered[part] ??= 0;
  }

  /** It cannot for now: another that can will do it. */
  giveUp(part: string): void {
    this.#offered[part] = (this.#offered[part] ?? 0) + 1;
    this.#told.delete(part);
  }

  /** Whether it is this monitor that measures a part that it has offered. */
  isMine(part: string): boolean {
    const own = this.#offered[part];
    if (own === undefined || !this.#isSettled) return false;
    return this.#living().every(({ parts, startedAt, from }) => {
      const other = parts[part];
      return other === undefined || isBefore([own, this.#startedAt, this.#self], [other, startedAt, from]);
    });
  }

  /** Whether it is this monitor that publishes. */
  get isPublisher(): boolean {
    return this.isMine(PUBLISHING);
  }

  /** Tells the others what was measured. */
  tell(part: string, sample: ClusterSample, at: number): void {
    const shared = { part, sample, at, refreshMs: this.#deps.refreshMs };
    this.#told.set(part, shared);
    this.#sendSample(shared);
  }

  /** Tells the others of this process, from the next beat on. */
  tellOwn(pods: readonly PodSample[]): void {
    this.#own = pods;
  }

  /** The processes of the others. */
  processes(): PodSample[] {
    return this.#living().flatMap(({ own }) => own);
  }

  #living(): Offer[] {
    const since = performance.now() - DEAD_MS;
    return [...this.#others.values()].filter(({ heardAt }) => heardAt > since).map(({ offer }) => offer);
  }

  #beat(): void {
    const since = performance.now() - DEAD_MS;
    for (const [from, { heardAt }] of this.#others) if (heardAt <= since) this.#others.delete(from);
    const [from, startedAt] = [this.#self, this.#startedAt];
    this.#send({ type: 'offer', from, startedAt, parts: this.#offered, own: this.#own });
  }

  #hear(message: ShareMessage): void {
    if (message.type === 'leave') this.#others.delete(message.from);
    else if (message.type === 'offer') {
      const isNew = !this.#others.has(message.from);
      this.#others.set(message.from, { offer: message, heardAt: performance.now() });
      // It need not wait for a refresh, nor for a beat.
      if (!isNew) return;
      this.#beat();
      for (const [part, shared] of this.#told) if (this.isMine(part)) this.#sendSample(shared);
    } else this.#collect(message);
  }

  /** Keeps the pieces of a sample until all are there; those of another are dropped. */
  #collect(piece: SharePiece): void {
    const { from, part, at, refreshMs, pieces } = piece;
    const known = (this.#pieces.get(part) ?? []).filter(
      (one) => one.from === from && one.at === at && one.index !== piece.index,
    );
    const all = [...known, piece];
    this.#pieces.set(part, all);
    if (all.length < pieces) return;
    this.#pieces.delete(part);
    const sample: ClusterSample = {
      ...(piece.nodes === undefined ? {} : { nodes: all.flatMap(({ nodes = [] }) => nodes) }),
      ...(piece.pods === undefined ? {} : { pods: all.flatMap(({ pods = [] }) => pods) }),
    };
    this.#listener.onSample({ part, sample, at, refreshMs });
  }

  #sendSample({ part, sample, at, refreshMs }: SharedSample): void {
    const { nodes, pods } = sample;
    const pieces = Math.max(1, Math.ceil(Math.max(nodes?.length ?? 0, pods?.length ?? 0) / PIECE));
    for (let index = 0; index < pieces; index++) {
      const cut = <T>(all: readonly T[]): T[] => all.slice(index * PIECE, (index + 1) * PIECE);
      this.#send({
        type: 'piece',
        from: this.#self,
        part,
        at,
        refreshMs,
        index,
        pieces,
        ...(nodes === undefined ? {} : { nodes: cut(nodes) }),
        ...(pods === undefined ? {} : { pods: cut(pods) }),
      });
    }
  }

  #send(message: ShareMessage): void {
    try {
      this.#deps.bus.publish(SHARES_SUBJECT, Buffer.from(JSON.stringify(message)));
    } catch (error) {
      // The bus is closed. While the broker is away nothing throws: nobody hears, and each measures all by itself.
      this.#deps.log.debug({ err: error }, 'other monitors were not told');
    }
  }

  #choose(): void {
    const mine = Object.keys(this.#offered)
      .filter((part) => this.isMine(part))
      .join('\n');
    if (mine === this.#mine) return;
    this.#mine = mine;
    this.#listener.onTurn();
  }
}

/** Whether the first of two monitors measures: gave up less often, else started earlier, else has the smaller id. */
function isBefore(one: readonly [number, number, string], other: readonly [number, number, string]): boolean {
  const [failures, startedAt, id] = one;
  if (failures !== other[0]) return failures < other[0];
  return startedAt !== other[1] ? startedAt < other[1] : id < other[2];
}
