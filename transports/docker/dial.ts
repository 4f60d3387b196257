import { connect, type Socket } from 'node:net';
import { EngineError } from '../../proto/ports.ts';
import { stateOf } from './container-view.ts';
import type { Containers } from './containers.ts';
import { systemCode } from './errors.ts';
import type { Naming } from './naming.ts';

/**
 * `Engine.dial` on Docker: a TCP connection to the container's address on its network. The address is asked for every time,
 * because Docker gives a stopped container's address to the next one that starts: an old one could lead to another user.
 */
export async function dialContainer(
  containers: Containers,
  naming: Naming,
  id: string,
  port: number,
  options: { timeoutMs: number; signal?: AbortSignal },
): Promise<Socket> {
  if (!Number.isInteger(port) || port < 1 || port > 65535) {
    throw new EngineError('refused', `${port} is not a port.`);
  }
  const started = performance.now();
  const state = stateOf(id, await containers.mustFind(id), naming.network(id));
  if (state.phase !== 'running') throw new EngineError('not_running', 'The container is not running.');
  if (state.address === null) throw new EngineError('unavailable', 'The container has no address yet.');
  const timeLeft = Math.max(1, options.timeoutMs - (performance.now() - started));
  try {
    return await connectTcp(state.address, port, timeLeft, options.signal);
  } catch (error) {
    // A container that stopped in between answers with silence or with "no route".
    const now = error instanceof EngineError && error.code === 'unavailable' ? await containers.find(id) : undefined;
    if (now !== undefined && !now.State.Running) {
      throw new EngineError('not_running', 'The container stopped.', { cause: error });
    }
    throw error;
  }
}

/** A connected socket. Rejects `no_listener` when refused, else `unavailable`. */
export function connectTcp(host: string, port: number, timeoutMs: number, signal?: AbortSignal): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port, noDelay: true, keepAlive: true, keepAliveInitialDelay: 30_000 });
    const settle = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', aborted);
      socket.removeListener('error', failed);
      socket.removeListener('connect', connected);
    };
    const fail = (error: EngineError): void => {
      settle();
      socket.on('error', () => undefined);
      socket.destroy();
      reject(error);
    };
    const failed = (cause: Error): void => {
      fail(
        systemCode(cause) === 'ECONNREFUSED'
          ? new EngineError('no_listener', `Nothing listens on port ${port} of the container.`, { cause })
          : new EngineError('unavailable', 'The container cannot be reached.', { cause }),
      );
    };
    const aborted = (): void => fail(new EngineError('unavailable', 'The connection was given up.'));
    const connected = (): void => {
      settle();
      resolve(socket);
    };
    const timer = setTimeout(() => {
      fail(new EngineError('unavailable', `Port ${port} of the container did not answer within ${timeoutMs} ms.`));
    }, timeoutMs);
    socket.once('error', failed);
    socket.once('connect', connected);
    if (signal?.aborted === true) aborted();
    else signal?.addEventListener('abort', aborted);
  });
}
