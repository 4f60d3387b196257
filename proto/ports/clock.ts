/** The clock as it is handed in: an actor never asks the machine for the time. */

/** Milliseconds since the Unix epoch; tests hand in one they can move. */
export interface Clock {
  now(): number;
}
