import { setImmediate as turn } from 'node:timers/promises';
import { isPromise } from '../../lib/waiting.ts';
import type { Cell, MessageHandler } from '../cell/cell.ts';
import type { Behaviour, CellHooks } from '../cell/cell-parts.ts';
import { CellContext, parentOf } from '../cell/context.ts';
import { keepAwake, sleep } from '../cell/idle.ts';
import { spawnCell } from '../cell/spawning.ts';
import { endOf, requestStop } from '../cell/stopping.ts';
import { inTime, Timer } from '../cell/timer.ts';
import { checkBehaviour, checkHandler } from '../checks.ts';
import * as decisions from '../decisions.ts';
import { ActorError, atLeast } from '../errors.ts';
import { type AnyRef, pathSegment, type Ref, type SystemRef } from '../ref.ts';
import { isFailure, type StopReason } from '../types.ts';
import { askCell } from '../verbs.ts';
import type { AskOptions, Entities, EntityContext, EntityKind } from './entity-kind.ts';

const DEFAULT_INTENSITY = Object.freeze({ max: 5, withinMs: 60_000 });
const DEFAULT_BACKOFF = Object.freeze({ minMs: 50, maxMs: 5000 });
const DEFAULT_COOL_DOWN_MS = 10_000;
const DEFAULT_ACTIVATE_MS = 20_000;
/** How long letting entities go may hold the event loop, ms. */
const SLICE_MS = 5;
const released: StopReason = Object.freeze({ kind: 'stopped', detail: 'released' });

/**
 * Makes the entities of a kind on this node, and the actor above them, under `parent`. Throws as `spawn`, and
 * SpawnError for an option of the kind that is out of its range.
 */
export function entities<Msg, State>(parent: AnyRef | SystemRef, kind: EntityKind<Msg, State>): Entities<Msg> {
  return new LocalEntities<Msg>(parentOf(parent), kind);
}

/** A kind with its types forgotten, by the same means as Behaviour. */
interface AnyKind {
  readonly kind: string;
  activate(id: string, ctx: unknown): unknown;
  handle(state: unknown, msg: unknown, ctx: unknown): unknown;
  onSleep?(state: unknown, ctx: unknown): void | Promise<void>;
  readonly sleepAfterMs: number;
  readonly coolDownMs?: number;
  readonly mailbox?: Behaviour['mailbox'];
  readonly intensity?: Behaviour['intensity'];
  readonly backoff?: Behaviour['backoff'];
  readonly shutdownMs?: number;
  readonly activateMs?: number;
  readonly decisionMs?: number;
  onCrash?: Behaviour['onCrash'];
}

class LocalEntityContext extends CellContext implements EntityContext<unknown> {
  get id(): string {
    return this.cell.name;
  }

  /** Why it ends, once it does. */
  get reason(): StopReason | undefined {
    return this.cell.reason;
  }

  sleep(): void {
    if (!this.isFormer) sleep(this.cell);
  }

  keepAwake(on: boolean): void {
    if (!this.isFormer) keepAwake(this.cell, on);
  }
}

function handlerOf(kind: AnyKind): MessageHandler {
  const handle: ErasedEntity['call'] = (state: unknown, msg: unknown, ctx: LocalEntityContext) =>
    kind.handle(state, msg, ctx);
  return handle;
}

interface ErasedEntity {
  call(state: unknown, msg: unknown, ctx?: unknown): unknown;
}

/**
 * Entities of one kind in this process.
 *
 *   (nothing) -- first message --> waking -- activate --> awake -- idle, sleep --> leaving --> (nothing)
 *                                    |                      |-- crash --> waking (after a pause)
 *                                    |                      `-- too many crashes --> cooling --> (nothing)
 *                                    |-- no such entity --> leaving: what waits gets not_found
 *                                    `-- failed --> leaving: what waits gets crashed
 *
 * A message that finds its entity leaving goes to a new one, which activates only after the old one has ended.
 */
class LocalEntities<Msg> implements Entities<Msg> {
  private readonly host: Cell;
  private readonly kind: AnyKind;
  private readonly options: Behaviour;
  private readonly handler: MessageHandler;
  private readonly hooks: CellHooks<Cell>;
  private readonly cells = new Map<string, Cell>();
  /** The ends of former activations. */
  private readonly leaving = new Map<string, Promise<unknown>>();
  private readonly cooling = new Map<string, { readonly error: unknown; readonly timer: Timer }>();

  constructor(parent: Cell, kind: AnyKind) {
    this.kind = kind;
    this.options = this.behaviour();
    this.handler = handlerOf(kind);
    atLeast(0, kind.sleepAfterMs, 'sleepAfterMs');
    if (kind.coolDownMs !== undefined) atLeast(0, kind.coolDownMs, 'coolDownMs');
    if (kind.activateMs !== undefined) atLeast(0, kind.activateMs, 'activateMs');
    checkHandler(this.handler);
    checkBehaviour(this.options);
    this.hooks = {
      isEntity: true,
      context: (cell) => new LocalEntityContext(cell),
      decision: (_child, init) => (init ? decisions.stopSelf : decisions.reset),
      admit: (cell, state) =>
        state === undefined ? new ActorError('not_found', `there is no ${kind.kind} ${cell.name}`) : undefined,
      // What a crash left in memory is not for onSleep to save.
      broken: (cell) => {
        cell.state = undefined;
      },
      stopping: (cell, reason) => this.leaves(cell, reason),
    };
    const name = kind.kind.replaceAll('/', '-');
    this.host = spawnCell(parent, () => undefined, { name, kind: 'entities' }, { hooks: this.hostHooks() });
  }

  get ref(): AnyRef {
    return this.host;
  }

  tell(id: string, msg: Msg): void {
    const cell = this.find(id);
    if (cell instanceof ActorError) {
      const reason = cell.code === 'crashed' ? 'crashed' : 'stopped';
      this.host.kind.system.letters.add(`${this.host.path}/${pathSegment(id)}`, this.kind.kind, reason, msg);
    } else cell.deliver(msg);
  }

  ask<Reply>(id: string, make: (replyTo: Ref<Reply>) => Msg, timeoutMs: number, options?: AskOptions): Promise<Reply> {
    const cell = this.find(id);
    return cell instanceof ActorError ? Promise.reject(cell) : askCell(cell, make, timeoutMs, options?.signal);
  }

  awake(): number {
    return this.cells.size;
  }

  ids(): string[] {
    return [...this.cells.keys()];
  }

  async release(matches: (id: string) => boolean): Promise<void> {
    const { clock } = this.host.kind.queue;
    let until = clock.now() + SLICE_MS;
    for (const [id, cell] of this.cells) {
      if (matches(id)) requestStop(cell, released);
      if (clock.now() < until) continue;
      await turn();
      until = clock.now() + SLICE_MS;
    }
    const ends: Promise<unknown>[] = [];
    for (const [id, end] of this.leaving) if (matches(id)) ends.push(end);
    await Promise.all(ends);
  }

  /** The entity, woken if need be; or why it cannot be. */
  private find(id: string): Cell | ActorError {
    const cell = this.cells.get(id);
    if (cell !== undefined) return cell;
    const cooling = this.cooling.get(id);
    if (cooling !== undefined) return this.coolingError(id, cooling.error);
    try {
      const woken = spawnCell(this.host, this.handler, this.options, { hooks: this.hooks, label: id });
      this.cells.set(id, woken);
      return woken;
    } catch (error) {
      return error instanceof ActorError
        ? error
        : new ActorError('crashed', `${this.kind.kind} ${id} failed`, { cause: error });
    }
  }

  private coolingError(id: string, cause: unknown): ActorError {
    return new ActorError('crashed', `${this.kind.kind} ${id} crashed too often and cools down`, { cause });
  }

  private behaviour(): Behaviour {
    const { kind } = this;
    return {
      kind: kind.kind,
      shutdownAfter: kind.sleepAfterMs,
      intensity: kind.intensity ?? DEFAULT_INTENSITY,
      backoff: kind.backoff ?? DEFAULT_BACKOFF,
      ...(kind.mailbox === undefined ? {} : { mailbox: kind.mailbox }),
      ...(kind.shutdownMs === undefined ? {} : { shutdownMs: kind.shutdownMs }),
      ...(kind.decisionMs === undefined ? {} : { decisionMs: kind.decisionMs }),
      ...(kind.onCrash === undefined ? {} : { onCrash: kind.onCrash.bind(kind) }),
      // Always a promise, even when activate answers at once: the message that woke the entity must find it waking.
      initialStateFunc: async (ctx: LocalEntityContext): Promise<unknown> => {
        await this.leaving.get(ctx.id);
        const state = kind.activate(ctx.id, ctx);
        if (!isPromise(state)) return state;
        const late = (): string => `${kind.kind} ${ctx.id} was not activated`;
        return inTime(this.host.kind.queue.clock, state, kind.activateMs ?? DEFAULT_ACTIVATE_MS, late);
      },
      afterStop: (state: unknown, ctx: LocalEntityContext): void | Promise<void> => {
        const { reason } = ctx;
        if (state === undefined || reason === undefined || isFailure(reason)) return undefined;
        return kind.onSleep?.(state, ctx);
      },
    };
  }

  private leaves(cell: Cell, reason: StopReason): void {
    const id = cell.name;
    if (this.cells.get(id) === cell) this.cells.delete(id);
    const earlier = this.leaving.get(id);
    const end = earlier === undefined ? endOf(cell) : Promise.all([earlier, endOf(cell)]);
    this.leaving.set(id, end);
    void end.then(() => {
      if (this.leaving.get(id) === end) this.leaving.delete(id);
    });
    if (reason.kind !== 'intensity') return;
    cell.parts.refusal = this.coolingError(id, reason.error);
    const { clock } = cell.kind.queue;
    const timer = new Timer(clock, () => this.cooling.delete(id), this.kind.coolDownMs ?? DEFAULT_COOL_DOWN_MS);
    // Forgetting an error is no work to stay alive for.
    this.cooling.set(id, { error: reason.error, timer: timer.unref() });
  }

  private hostHooks(): CellHooks<Cell> {
    return {
      // An entity past its limit stops; the host and the other entities go on.
      decision: (child) => (child === undefined ? decisions.resume : decisions.stopChild),
      ended: () => {
        for (const { timer } of this.cooling.values()) timer.cancel();
        this.cooling.clear();
      },
    };
  }
}
