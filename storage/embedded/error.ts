import { CodedError } from '../../lib/errors.ts';

/** Why no PostgreSQL of our own can run here. The message is for the person at the terminal and says what to do. */
export class EmbeddedError extends CodedError<
  'no_binaries' | 'no_user' | 'unreachable' | 'other_version' | 'not_a_cluster' | 'start_failed'
> {}
