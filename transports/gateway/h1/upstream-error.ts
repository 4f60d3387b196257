/** What goes wrong on the way to an origin. */
import { CodedError } from '../../../lib/errors.ts';

type UpstreamErrorCode = 'connect_failed' | 'connect_timeout' | 'held_too_long' | 'too_many';

/** The one error that ways to an origin reject with. */
export class UpstreamError extends CodedError<UpstreamErrorCode> {}
