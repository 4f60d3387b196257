/**
 * The state of a cell, as bits of one small integer. An actor is in one phase:
 *
 *   taking     none of the four bits below
 *   held       HELD
 *   resetting  HELD and RESETTING; then CHILDREN_TOLD, with CHILDREN_HOOK while they end in their own way
 *   stopping   STOPPING; then CHILDREN_TOLD, CHILDREN_HOOK, AFTER_STOP
 *   ended      ENDED, with QUEUED while the run queue still holds it
 *
 *   spawn -> held (a state is made) or taking
 *   taking <-> held    a crash is decided, a state is made
 *   taking, held -> resetting -> held or taking
 *   taking, held, resetting -> stopping -> ended
 *
 * The other bits go with any phase but ended. `illegalFlags` says what does not go together.
 */

/** One message waits in the slot (there is no mailbox then). */
export const SLOT = 1;
/** In the run queue. */
export const QUEUED = 2;
/** Its handler is on the stack. */
export const RUNNING = 4;
/** As many handlers as allowed are pending. */
export const AWAITING = 8;
/** Messages wait: state being made, a crash being decided, a pause before a restart. */
export const HELD = 16;
export const RESETTING = 32;
export const STOPPING = 64;
export const ENDED = 128;
export const STATELESS = 256;
/** Wants to know when its mailbox runs empty. */
export const WATCH_EMPTY = 512;
/** Wants to stop when its mailbox is empty. */
export const SLEEPY = 1024;
/** Must not be put to sleep for being idle. */
export const KEEP_AWAKE = 2048;
/** Its children have been told to stop. */
export const CHILDREN_TOLD = 4096;
/** Its own way of stopping children is not through yet. */
export const CHILDREN_HOOK = 8192;
/** afterStop has been called. */
export const AFTER_STOP = 16384;

/** More messages wait, in a mailbox. */
export const PILE = 32768;

/** Signals wait, in a queue of their own. */
export const SIGNALS = 65536;

/** Messages wait. */
export const WAITING = SLOT | PILE | SIGNALS;
/** Not only in the slot. */
export const BEYOND_SLOT = PILE | SIGNALS;
/** Takes no messages. */
export const CLOSED = STOPPING | ENDED;
/** Handles no messages. */
export const BLOCKED = AWAITING | HELD | CLOSED;
/** Need not, or must not, be put into the run queue. */
export const NOT_NOW = QUEUED | RUNNING | BLOCKED;
/** A message cannot simply be put into the slot and the actor into the run queue. */
export const NOT_AT_ONCE = NOT_NOW | WAITING;
/** Something is to be done after a handler. */
export const GO_ON = WAITING | STOPPING | RESETTING | WATCH_EMPTY;

/** What is wrong with these flags, if anything. True between two steps of a stop, a reset or a decision. */
export function illegalFlags(flags: number): string | undefined {
  const has = (bits: number): boolean => (flags & bits) !== 0;
  if (has(ENDED)) return (flags & ~(ENDED | QUEUED)) === 0 ? undefined : 'an ended actor does something';
  if (has(STOPPING) && has(HELD | RESETTING)) return 'a stop, and a hold or a reset';
  if (has(STOPPING) && has(WAITING)) return 'messages wait for a stop';
  if (has(RESETTING) && !has(HELD)) return 'a reset that lets messages through';
  if (has(CHILDREN_TOLD) && !has(STOPPING | RESETTING)) return 'children told for no reason';
  if (has(CHILDREN_HOOK) && !has(CHILDREN_TOLD)) return 'children that end untold';
  if (has(AFTER_STOP) && !has(STOPPING)) return 'an afterStop without a stop';
  if (has(SLOT) && has(PILE)) return 'a slot beside a mailbox';
  if (has(SLEEPY) && !has(WATCH_EMPTY)) return 'a sleepy actor that does not look';
  return undefined;
}
