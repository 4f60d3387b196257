import { ActorError } from '../common/errors.ts';
import type { DeadLetter } from '../common/types.ts';
import { Ask } from './asks.ts';
import type { KindStats } from './kind-stats.ts';
import type { Meta } from './mailbox.ts';

/** The actor that a message was for, as far as a refusal needs it. */
interface Addressee {
  readonly path: string;
  readonly kind: KindStats;
  readonly rare: { readonly refusal: ActorError | undefined } | undefined;
  stoppedError(): ActorError;
}

/** Answers a message that will not be handled, because its actor ends. */
export function refuse(cell: Addressee, msg: unknown, meta: Meta): void {
  const refusal = cell.rare?.refusal;
  if (meta instanceof Ask) meta.fail(refusal ?? cell.stoppedError());
  else {
    const code = refusal?.code;
    deadLetter(cell, code === 'not_found' || code === 'crashed' ? code : 'stopped', msg);
  }
}

/** Answers a message for which the mailbox has no room; of a tell a dead letter is made if `letter` is set. */
export function shed(cell: Addressee, msg: unknown, meta: Meta, letter: boolean): void {
  if (meta instanceof Ask) meta.fail(new ActorError('overloaded', `the mailbox of ${cell.path} is full`));
  else if (letter) deadLetter(cell, 'overloaded', msg);
}

function deadLetter(cell: Addressee, reason: DeadLetter['reason'], msg: unknown): void {
  const { letters } = cell.kind.system;
  if (letters.heard) letters.add(cell.path, cell.kind.kind, reason, msg);
  else letters.count++;
}
