/** Which kind of wire a connection gets. */
import type { Socket } from 'node:net';
import { StreamWire } from './stream-wire.ts';
import type { Wire } from './wire.ts';

/** A wire on a socket that is connected; it is the wire's from here on. Paused. */
export function wireOf(socket: Socket): Wire {
  return new StreamWire(socket);
}
