import { createRequire } from 'node:module';
import { dispatch, query, Ref, spawn, start, stop } from '../../supervision/index.ts';

/** A ref of whichever engine; what it is only that engine knows. */
export type EngineRef = unknown;
export type Handler = (state: unknown, msg: unknown) => unknown;

/** The verbs the rows need. `scale` shrinks the work for an engine that is slow at everything. */
export interface Engine {
  readonly name: string;
  readonly scale: number;
  start(): EngineRef;
  spawn(parent: EngineRef, f: Handler): EngineRef;
  dispatch(ref: EngineRef, msg: unknown): void;
  query(ref: EngineRef, make: (replyTo: EngineRef) => unknown, timeoutMs: number): Promise<unknown>;
  stop(ref: EngineRef): void;
}

/** A ref of this engine; TypeError for any other. */
export function our(ref: EngineRef): Ref<unknown> {
  if (ref instanceof Ref) return ref;
  throw new TypeError('not one of our refs');
}

const unbounded = { mailbox: { capacity: Number.MAX_SAFE_INTEGER } };

/** The verbs as anyone would call them, like nact's below: without a function around each. */
export const ours: Engine = {
  name: 'ours',
  scale: 1,
  start: () => start(),
  spawn: (parent, f) => spawn(our(parent), f, unbounded),
  dispatch,
  query,
  stop,
};

interface Nact extends Omit<Engine, 'name' | 'scale' | 'spawn'> {
  spawn(parent: EngineRef, f: Handler, name: string): EngineRef;
}

const nactModule: Nact = createRequire(import.meta.url)('nact');
// Its own names are random 31-bit numbers that throw when they meet.
let nextName = 0;
export const nact: Engine = {
  name: 'nact',
  scale: 0.1,
  start: () => nactModule.start(),
  spawn: (parent, f) => nactModule.spawn(parent, f, `n${nextName++}`),
  dispatch: nactModule.dispatch,
  query: nactModule.query,
  stop: nactModule.stop,
};
