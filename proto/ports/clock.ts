/** The clocks as they are handed in: an actor never asks the machine for the time. */

/**
 * The clock of this machine, in milliseconds since the Unix epoch; tests hand in one they can move. It measures what
 * one process times: the life of tokens, pauses, limits of an actor.
 */
export interface Clock {
  now(): number;
}

/**
 * The clock of the database, for what two processes compare: the age of messages between nodes and of gateways' codes.
 * Leases and whatever SQL ages need neither: there the database itself says what time it is.
 */
export interface SharedClock extends Clock {
  readonly isShared: true;
}
