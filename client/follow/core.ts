/** What the functions of `follow` need of a client. */
import type { Reconnecting, StreamRules, StreamState } from '../socket.ts';
import type { CallArguments, CallName, CallReply } from '../types.ts';

/** Calls and streams. */
export interface ClientCore {
  call<N extends CallName>(name: N, ...rest: CallArguments<N>): Promise<CallReply<N>>;
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
