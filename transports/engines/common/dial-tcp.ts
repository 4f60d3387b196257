/** Connects to a port of a container. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { anySignal } from '../../../lib/waiting.ts';
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
export async function connectTcp(
  host: string,
  port: number,
  timeoutMs: number,
  signal: AbortSignal = new AbortController().signal,
): Promise<Socket> {
  const late = AbortSignal.timeout(Math.ceil(timeoutMs));
  const any = anySignal([signal, late]);
  const socket = connect({ host, port, noDelay: true, keepAlive: true, keepAliveInitialDelay: 30_000 });
  try {
    await once(socket, 'connect', { signal: any.signal });
    return socket;
  } catch (cause) {
    socket.on('error', () => undefined).destroy();
    if (signal.aborted) throw new EngineError('unavailable', 'The connection was given up.');
    if (late.aborted) {
      const said = `Port ${port} of the container did not answer within ${timeoutMs} ms.`;
      throw new EngineError('unavailable', said);
    }
    throw systemCode(cause) === 'ECONNREFUSED'
      ? new EngineError('no_listener', `Nothing listens on port ${port} of the container.`, { cause })
      : new EngineError('unavailable', 'The container cannot be reached.', { cause });
  } finally {
    any.release();
  }
}
