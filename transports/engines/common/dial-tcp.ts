/** Connects to a port of a container. */
import { connect, type Socket } from 'node:net';
import { type ContainerState, EngineError } from '../../../proto/ports/engine.ts';
import { systemCode } from './calls.ts';

/**
 * Where to reach container `id`, as it is now: an address from before may be another's. Throws EngineError `refused`
 * for what is no port, `not_found`, `not_running`, or `unavailable`.
 */
export function dialAddress(id: string, port: number, state: ContainerState | undefined): string {
  if (!Number.isInteger(port) || port < 1 || port > 65_535) throw new EngineError('refused', `${port} is not a port.`);
  if (state === undefined) throw new EngineError('not_found', `There is no container ${id}.`);
  if (state.phase !== 'running') throw new EngineError('not_running', 'The container is not running.');
  if (state.address === null) throw new EngineError('unavailable', 'The container has no address yet.');
  return state.address;
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
