/** Which kind of wire a connection gets. */
import type { Socket } from 'node:net';
import { HandleWire } from './handle-wire.ts';
import { handleOf, internals } from './handles.ts';
import { StreamWire } from './stream-wire.ts';
import type { Wire } from './wire.ts';

let areHandlesUsed = internals !== undefined;

/** `stream`: public interfaces of Node only. `handle`: what is below them, where it is known; the default. */
export function useWires(kind: 'stream' | 'handle'): void {
  areHandlesUsed = kind === 'handle' && internals !== undefined;
}

/** Whether connections made from now on go by handles. */
export function usesHandles(): boolean {
  return areHandlesUsed;
}

/** A wire on a socket that is connected; it is the wire's from here on. Paused. */
export function wireOf(socket: Socket): Wire {
  const handle = areHandlesUsed ? handleOf(socket) : undefined;
  return handle === undefined ? new StreamWire(socket) : new HandleWire(handle, { socket });
}
