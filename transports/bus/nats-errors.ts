import { JetStreamApiCodes, JetStreamApiError } from '@nats-io/jetstream';
import {
  AuthorizationError,
  ClosedConnectionError,
  DrainingConnectionError,
  InvalidArgumentError,
  NoRespondersError,
  PermissionViolationError,
  RequestError,
  UserAuthenticationExpiredError,
} from '@nats-io/transport-node';
import { BusError } from '../../proto/ports/bus.ts';

/** API errors that pass: the server has no resources, elects a leader, or is starting (nats-server's errors.json). */
const passing = new Set([500, 503]);

/** What a NATS client's error means on the bus. A BusError stays itself; TypeErrors are the caller's and stay too. */
export function asBusError(error: unknown, doing: string): Error {
  if (error instanceof BusError || error instanceof TypeError) return error;
  const because = (code: BusError['code'], reason = messageOf(error)) =>
    new BusError(code, `NATS cannot ${doing}: ${reason}`, { cause: error });
  if (error instanceof JetStreamApiError) {
    if (error.code === JetStreamApiCodes.StreamNotFound) return because('no_stream');
    return because(passing.has(error.status) ? 'unavailable' : 'refused');
  }
  if (error instanceof PermissionViolationError || error instanceof InvalidArgumentError) return because('refused');
  if (isNoResponders(error)) return because('unavailable', 'JetStream is not running on the server');
  if (error instanceof ClosedConnectionError || error instanceof DrainingConnectionError) {
    return because('unavailable', 'the connection is closed');
  }
  return because('unavailable');
}

/** Whether nobody listens on a subject, or takes a message into a stream (for the client: no JetStream). */
function isNoResponders(error: unknown): boolean {
  if (error instanceof NoRespondersError) return true;
  // Its class is not exported.
  if (error instanceof Error && error.name === 'JetStreamNotEnabled') return true;
  return error instanceof RequestError && error.isNoResponders();
}

/** Whether the server does not let us in: waiting does not help. */
export function isRefusedLogin(error: unknown): boolean {
  return error instanceof AuthorizationError || error instanceof UserAuthenticationExpiredError;
}

/** An error's text for a log; NATS never puts credentials into it. */
export function messageOf(error: unknown): string {
  return error instanceof Error && error.message !== '' ? error.message : String(error);
}
