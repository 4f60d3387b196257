/** What the functions of `follow` need of a client. */
import type { Reconnecting, StreamRules, StreamState } from '../socket.ts';
import type { CallArguments, CallControl, CallReply, WrittenName } from '../types.ts';

/** An answer as it came. */
export interface RawAnswer {
  readonly status: number;
  readonly body: string;
  readonly requestId: string | undefined;
}

/** Calls and streams. */
export interface ClientCore {
  call<N extends WrittenName>(name: N, ...rest: CallArguments<N>): Promise<CallReply<N>>;
  request(method: string, path: string, body?: unknown, options?: CallControl): Promise<RawAnswer>;
  stream(rules: StreamRules): Reconnecting;
}

/** What every stream may be followed with. */
export interface FollowOptions {
  /** Told when it connects, is open, waits, and is closed. */
  readonly onState?: ((state: StreamState) => void) | undefined;
}

/** The message of a socket. What the server sends is what the endpoint's schema says, so it is not checked again. */
export function message<T>(text: string): T {
  return JSON.parse(text);
}
