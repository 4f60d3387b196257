import type { Decision } from '../common/decisions.ts';
import type { AnyRef } from '../common/ref.ts';
import type { CommonOptions } from '../common/types.ts';

/**
 * The options of spawn and spawnStateless with their types forgotten. Its functions are written as methods, because
 * the parameters of methods are compared both ways: here the engine stops knowing what a message is.
 */
export interface Behaviour extends Omit<CommonOptions<unknown>, 'onCrash'> {
  readonly initialState?: unknown;
  initialStateFunc?(ctx: unknown): unknown;
  onCrash?(msg: unknown, error: unknown, ctx: unknown, child: AnyRef | undefined): Decision | Promise<Decision>;
  afterStop?(state: unknown, ctx: unknown): void | Promise<void>;
}
