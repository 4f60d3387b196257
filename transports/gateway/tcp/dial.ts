/** Opens connections as wires: on a handle to an address; by a socket to a name, or where handles are not known. */
import { connect, isIP } from 'node:net';
import { HandleWire } from '../../wire/handle-wire.ts';
import { newTcpHandle } from '../../wire/handles.ts';
import type { Wire } from '../../wire/wire.ts';
import { usesHandles, wireOf } from '../../wire/wires.ts';

interface DialListener {
  /** It is open; paused, with no delay. */
  onOpen(wire: Wire): void;
  /** It could not be opened. */
  onError(cause: Error): void;
  /** It is over, whether it was open or not. Told once, last. */
  onClosed(): void;
}

/** Connects to `host` and `port`. Nothing is told before this returns. What comes back gives up, until it is open. */
export function dial(host: string, port: number, listener: DialListener): () => void {
  const family = usesHandles() ? isIP(host) : 0;
  return family === 0 ? dialSocket(host, port, listener) : dialHandle(family, host, port, listener);
}

function dialSocket(host: string, port: number, listener: DialListener): () => void {
  // Whoever reads the wire decides how long a half-closed connection lives; the other side may answer after our FIN.
  const socket = connect({ host, port, noDelay: true, allowHalfOpen: true });
  const onError = (cause: Error) => listener.onError(cause);
  socket.once('error', onError).once('close', () => listener.onClosed());
  socket.once('connect', () => {
    socket.off('error', onError);
    listener.onOpen(wireOf(socket));
  });
  return () => {
    socket.off('error', onError).on('error', () => {});
    socket.destroy();
  };
}

function dialHandle(family: number, host: string, port: number, listener: DialListener): () => void {
  const { handle, request } = newTcpHandle();
  let isOver = false;
  const close = () => {
    isOver = true;
    handle.close(() => listener.onClosed());
  };
  const opened = (status: number) => {
    if (isOver) return;
    if (status === 0) {
      handle.setNoDelay(true);
      listener.onOpen(new HandleWire(handle, { onClosed: () => listener.onClosed() }));
    } else {
      close();
      listener.onError(new Error(`connect ${host}:${port} failed with ${status}`));
    }
  };
  request.oncomplete = opened;
  const error = family === 6 ? handle.connect6(request, host, port) : handle.connect(request, host, port);
  if (error !== 0) process.nextTick(opened, error);
  return () => {
    if (!isOver) close();
  };
}
