/** A system as nact's plugins see it. */
import type { SystemRef } from '../common/ref.ts';
import { start } from '../system/system.ts';
import { type LogMsg, NactLogger, runtimeLog } from './logger.ts';
import type { PersistenceEngine } from './persistence-engine.ts';
import { ActorReference, ActorSystemReference, type AnyNactRef, type NactRef } from './references.ts';

const systems = new WeakMap<ActorSystemReference, NactSystem>();

let nextSystem = 1;

/** What plugins of `start` are given. */
export class NactSystem {
  readonly name: string;
  readonly reference: ActorSystemReference;
  /** The root of the actors of this runtime. */
  readonly root: SystemRef;
  persistenceEngine: PersistenceEngine | undefined;
  #logger: NactRef<LogMsg> | undefined;

  constructor(name: string = `system-${nextSystem++}`) {
    this.name = name;
    this.reference = new ActorSystemReference(name);
    this.root = start({ name, log: runtimeLog(this.reference, () => this.#logger) });
    systems.set(this.reference, this);
  }

  /** The system of a ref that was made here. Throws TypeError. */
  static of(ref: ActorReference | ActorSystemReference): NactSystem {
    let at = ref;
    while (at instanceof ActorReference) at = at.parent;
    const system = systems.get(at);
    if (system === undefined) throw new TypeError('no system was started with this ref');
    return system;
  }

  /** Sends all logs to this actor from now on. */
  logTo(logger: NactRef<LogMsg>): void {
    this.#logger = logger;
  }

  loggerOf(actor: AnyNactRef): NactLogger {
    return new NactLogger(this.#logger, actor);
  }
}
