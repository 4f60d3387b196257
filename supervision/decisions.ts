/**
 * What may be done about a crash. The names and their meaning are nact's, so that policies written for it hold.
 * "Self" is the actor whose `onCrash` answers: the one that crashed, or an ancestor it was escalated to.
 */

/** Stop self. */
export const stopSelf: unique symbol = Symbol('stop');
/** Stop self and its peers (all children of the same parent). */
export const stopAll: unique symbol = Symbol('stopAll');
/** Stop the child that escalated. */
export const stopChild: unique symbol = Symbol('stopChild');
/** Stop all children of self. */
export const stopAllChildren: unique symbol = Symbol('stopAllChildren');
/** Go on with the next message, keeping the state from before the crash. */
export const resume: unique symbol = Symbol('resume');
/** Start self afresh: children stopped, state made anew, mailbox kept. */
export const reset: unique symbol = Symbol('reset');
/** Reset self and its peers. */
export const resetAll: unique symbol = Symbol('resetAll');
/** Reset the child that escalated. */
export const resetChild: unique symbol = Symbol('resetChild');
/** Reset all children of self. */
export const resetAllChildren: unique symbol = Symbol('resetAllChildren');
/** Let the parent decide. */
export const escalate: unique symbol = Symbol('escalate');

/** The decisions under the names they have on a context. */
export const DECISIONS = {
  stop: stopSelf,
  stopAll,
  stopChild,
  stopAllChildren,
  resume,
  reset,
  resetAll,
  resetChild,
  resetAllChildren,
  escalate,
} as const;
export type Decisions = typeof DECISIONS;

/** One of the symbols found on every context. */
export type Decision = Decisions[keyof Decisions];
