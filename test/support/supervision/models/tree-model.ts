/**
 * A tree of actors as a plain program would have it: no flags, no run queue, no promises. What waits for the outside (a
 * handler, a decision, an afterStop) is in a list until a command of the test ends it.
 */
export type DecisionName =
  | 'stop'
  | 'stopAll'
  | 'stopChild'
  | 'stopAllChildren'
  | 'resume'
  | 'reset'
  | 'resetAll'
  | 'resetChild'
  | 'resetAllChildren'
  | 'escalate';

/** What an actor is made with. */
export interface Plan {
  /** What it decides about its own crashes and about those that are escalated to it; undefined: it has no onCrash. */
  readonly policy: { readonly own: DecisionName; readonly child: DecisionName } | undefined;
  /** Its decisions wait for a command. */
  readonly late: boolean;
  /** Its afterStop waits for a command. */
  readonly slowEnd: boolean;
  /** How many resets it may have. */
  readonly max: number;
  /** In which of its lives the state cannot be made; 0 for none. */
  readonly badLife: number;
  /** Handlers at once; undefined: stateful. */
  readonly concurrency: number | undefined;
}

export interface Message {
  readonly id: number;
  readonly ask: boolean;
  readonly what: 'note' | 'hold' | 'throw' | 'stop' | 'watch' | 'unwatch';
  readonly target: number;
}

interface Fault {
  readonly cell: ModelActor;
  readonly reason: 'crashed' | 'intensity';
  readonly init: boolean;
}

/** A decision that waits for a command. */
export interface Undecided {
  readonly decider: ModelActor;
  readonly fault: Fault;
  readonly child: ModelActor | undefined;
  readonly decision: DecisionName;
}

export class ModelActor {
  readonly index: number;
  readonly name: string;
  readonly plan: Plan;
  readonly parent: ModelActor | undefined;
  readonly children: ModelActor[] = [];
  readonly queue: Message[] = [];
  /** Ends that it watched for: handled before the messages. */
  readonly signals: Message[] = [];
  readonly running: Message[] = [];
  readonly watchers = new Set<ModelActor>();
  phase: 'idle' | 'deciding' | 'resetting' | 'stopping' | 'ended' = 'idle';
  /** Its children have been told to stop. */
  told = false;
  closing = false;
  /** Its handler threw just now: a stateless actor goes on to its end, or its reset, when that is decided. */
  onStack = false;
  life = 1;
  count = 0;
  resets = 0;
  fault: Fault | undefined = undefined;
  reason: string | undefined = undefined;
  refusal: 'crashed' | 'stopped' = 'stopped';

  constructor(index: number, name: string, plan: Plan, parent: ModelActor | undefined) {
    this.index = index;
    this.name = name;
    this.plan = plan;
    this.parent = parent;
  }

  get status(): string {
    if (this.closed) return 'stopping';
    if (this.phase !== 'idle') return 'held';
    return this.running.length + this.depth > 0 ? 'busy' : 'idle';
  }

  get depth(): number {
    return this.signals.length + this.queue.length;
  }

  get stateless(): boolean {
    return this.plan.concurrency !== undefined;
  }

  get closed(): boolean {
    return this.phase === 'stopping' || this.phase === 'ended';
  }
}

const rootPlan: Plan = { policy: undefined, late: false, slowEnd: false, max: 0, badLife: 0, concurrency: undefined };

export class TreeModel {
  readonly root = new ModelActor(-1, 'root', rootPlan, undefined);
  readonly actors: ModelActor[] = [];
  readonly undecided: Undecided[] = [];
  readonly closings: ModelActor[] = [];
  /** What can be seen from outside. */
  readonly seen = {
    log: [] as string[][],
    asks: new Map<number, string>(),
    letters: [] as string[],
    ends: [] as string[],
    handled: 0,
    failed: 0,
    restarts: 0,
  };
  private readonly ready: ModelActor[] = [];
  private readonly between: ModelActor[] = [];

  /** The new actor, or the code of the error. */
  spawn(parent: ModelActor, name: string, plan: Plan): ModelActor | 'stopped' | 'name_taken' {
    if (parent.closed || (parent.phase === 'resetting' && parent.told)) return 'stopped';
    if (parent.children.some((child) => child.name === name)) return 'name_taken';
    const actor = new ModelActor(this.actors.length, name, plan, parent);
    this.actors.push(actor);
    this.seen.log.push([]);
    parent.children.push(actor);
    this.begin(actor);
    return actor;
  }

  send(to: ModelActor, msg: Message, queue = to.queue): void {
    if (to.closed) this.refuse(to, msg);
    else {
      queue.push(msg);
      this.wake(to);
    }
  }

  /** A handler that was held is over. */
  finish(actor: ModelActor, msg: Message, well: boolean): void {
    actor.running.splice(actor.running.indexOf(msg), 1);
    if (well) this.done(actor, msg);
    else this.threw(actor, msg);
    this.advance(actor);
    this.wake(actor);
  }

  /** An afterStop that was held is over. */
  close(actor: ModelActor): void {
    this.closings.splice(this.closings.indexOf(actor), 1);
    this.end(actor);
  }

  settle(undecided: Undecided): void {
    this.undecided.splice(this.undecided.indexOf(undecided), 1);
    this.apply(undecided.decider, undecided.fault, undecided.child, undecided.decision);
  }

  stop(actor: ModelActor, reason: string, refusal?: 'crashed'): void {
    if (actor.closed) return;
    actor.phase = 'stopping';
    actor.told = false;
    actor.reason = reason;
    actor.refusal = refusal ?? 'stopped';
    this.quieten(actor);
    const paused = this.between.indexOf(actor);
    if (paused >= 0) this.between.splice(paused, 1);
    for (const msg of [...actor.signals.splice(0), ...actor.queue.splice(0)]) this.refuse(actor, msg);
    this.advance(actor);
  }

  /** Handles all that can be handled. */
  drain(): void {
    for (;;) {
      const actor = this.ready.shift();
      if (actor !== undefined) this.run(actor);
      else {
        const next = this.between.shift();
        if (next === undefined) return;
        if (next.phase !== 'resetting') continue;
        next.life++;
        this.begin(next);
      }
    }
  }

  private begin(actor: ModelActor): void {
    actor.phase = 'idle';
    actor.told = false;
    actor.count = 0;
    if (actor.life === actor.plan.badLife && !actor.stateless) {
      this.seen.failed++;
      this.crash(actor, true);
    } else this.wake(actor);
  }

  private wake(actor: ModelActor): void {
    const { phase, depth, running, plan } = actor;
    const able = phase === 'idle' && depth > 0 && running.length < (plan.concurrency ?? 1);
    if (able && !this.ready.includes(actor)) this.ready.push(actor);
  }

  private run(actor: ModelActor): void {
    while (actor.phase === 'idle' && actor.running.length < (actor.plan.concurrency ?? 1)) {
      const msg = actor.signals.shift() ?? actor.queue.shift();
      if (msg === undefined) return;
      this.seen.handled++;
      if (msg.what === 'hold') actor.running.push(msg);
      else if (msg.what === 'throw') {
        actor.onStack = actor.stateless;
        this.threw(actor, msg);
        actor.onStack = false;
        this.advance(actor);
        if (!actor.stateless) break;
      } else this.done(actor, msg);
    }
    this.wake(actor);
  }

  private done(actor: ModelActor, msg: Message): void {
    this.seen.log[actor.index]?.push(`${msg.id} in life ${actor.stateless ? 1 : actor.life} at ${actor.count}`);
    if (msg.ask) this.seen.asks.set(msg.id, `reply ${actor.count}`);
    if (!actor.stateless) actor.count++;
    const target = this.actors[msg.target];
    if (msg.what === 'stop') this.stop(actor, 'stopped');
    else if (msg.what === 'unwatch') target?.watchers.delete(actor);
    else if (msg.what === 'watch' && target !== undefined && !actor.closed) {
      if (target.phase === 'ended') this.tellEnd(actor, target);
      else target.watchers.add(actor);
    }
  }

  private threw(actor: ModelActor, msg: Message): void {
    this.seen.failed++;
    if (msg.ask) this.seen.asks.set(msg.id, 'crashed');
    if (actor.phase === 'idle' || actor.phase === 'deciding') this.crash(actor, false);
  }

  private refuse(actor: ModelActor, msg: Message): void {
    const refusal = actor.phase === 'ended' ? 'stopped' : actor.refusal;
    if (msg.ask) this.seen.asks.set(msg.id, refusal);
    else this.seen.letters.push(`${msg.id} ${refusal}`);
  }

  private tellEnd(watcher: ModelActor, target: ModelActor): void {
    this.send(watcher, { id: -1 - target.index, ask: false, what: 'note', target: 0 }, watcher.signals);
  }

  private quieten(actor: ModelActor): void {
    actor.fault = undefined;
    for (const other of this.actors) other.watchers.delete(actor);
  }

  private advance(actor: ModelActor): void {
    if ((actor.phase !== 'stopping' && actor.phase !== 'resetting') || actor.running.length > 0) return;
    if (actor.onStack) return;
    if (!actor.told) {
      actor.told = true;
      if (actor.phase === 'resetting') this.quieten(actor);
      for (const child of [...actor.children].reverse()) this.stop(child, 'parent');
    }
    if (actor.children.length > 0 || this.between.includes(actor)) return;
    if (actor.phase === 'resetting') this.between.push(actor);
    else if (actor.phase === 'stopping' && !actor.closing) {
      actor.closing = true;
      // Only a stateful actor has an afterStop.
      const told = actor !== this.root && !actor.stateless;
      if (told) this.seen.ends.push(`${actor.index} at ${actor.count}`);
      if (told && actor.plan.slowEnd) this.closings.push(actor);
      else this.end(actor);
    }
  }

  private end(actor: ModelActor): void {
    actor.phase = 'ended';
    const { parent } = actor;
    parent?.children.splice(parent.children.indexOf(actor), 1);
    for (const watcher of actor.watchers) this.tellEnd(watcher, actor);
    if (parent !== undefined) this.advance(parent);
  }

  private crash(cell: ModelActor, init: boolean): void {
    const fault: Fault = { cell, reason: 'crashed', init };
    if (!cell.stateless) {
      cell.phase = 'deciding';
      cell.fault = fault;
    }
    this.decide(cell, fault, undefined);
  }

  private decide(decider: ModelActor, fault: Fault, child: ModelActor | undefined): void {
    const { policy, late } = decider.plan;
    if (decider === this.root) this.apply(decider, fault, child, 'stopChild');
    else if (policy === undefined) {
      this.apply(decider, fault, child, decider.stateless && child === undefined ? 'resume' : 'stop');
    } else {
      const decision = child === undefined ? policy.own : policy.child;
      if (late) this.undecided.push({ decider, fault, child, decision });
      else this.apply(decider, fault, child, decision);
    }
  }

  private apply(decider: ModelActor, fault: Fault, child: ModelActor | undefined, decision: DecisionName): void {
    const { cell, reason } = fault;
    if (decider.phase === 'ended' || (!cell.stateless && cell.fault !== fault)) return;
    const chosen = child ?? decider;
    const peers = [...(decider.parent?.children ?? [])].reverse();
    const below = [...decider.children].reverse();
    const refusal = (stopping: ModelActor) => (fault.init && stopping === cell ? 'crashed' : undefined);
    switch (decision) {
      case 'escalate':
        if (decider.parent !== undefined) this.decide(decider.parent, fault, decider);
        return;
      case 'resume':
        break;
      case 'stop':
        this.stop(decider, reason, refusal(decider));
        break;
      case 'stopChild':
        this.stop(chosen, reason, refusal(chosen));
        break;
      case 'stopAll':
        for (const peer of peers) this.stop(peer, reason);
        break;
      case 'stopAllChildren':
        for (const each of below) this.stop(each, reason);
        break;
      case 'reset':
        this.reset(decider, decider, fault);
        break;
      case 'resetChild':
        this.reset(chosen, decider, fault);
        break;
      case 'resetAll':
        for (const peer of peers) this.reset(peer, peer, fault);
        break;
      case 'resetAllChildren':
        for (const each of below) this.reset(each, decider, fault);
        break;
    }
    if (cell.fault === fault && cell.phase === 'deciding') {
      cell.phase = 'idle';
      cell.fault = undefined;
      this.wake(cell);
    }
  }

  private reset(target: ModelActor, decider: ModelActor, fault: Fault): void {
    if (target.closed || target.phase === 'resetting') return;
    if (target.resets < target.plan.max) {
      target.resets++;
      this.seen.restarts++;
      target.phase = 'resetting';
      target.told = false;
      this.quieten(target);
      this.advance(target);
      return;
    }
    const above = decider.parent;
    if (above === undefined || above === this.root) {
      this.stop(target, 'intensity');
      return;
    }
    const next: Fault = { cell: target, reason: 'intensity', init: fault.init };
    target.phase = 'deciding';
    target.fault = next;
    this.decide(above, next, decider);
  }
}
