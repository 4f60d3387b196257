import type { Socket } from 'node:net';
import { EngineError } from '../../../proto/ports/engine.ts';
import { connectTcp } from '../common/dial-tcp.ts';
import { stateOf } from './container-view.ts';
import type { Containers } from './containers.ts';
import type { Naming } from './naming.ts';

/**
 * `Engine.dial` on Docker: a TCP connection to the container's address on its network. The address is asked for every
 * time, because Docker gives a stopped container's address to the next one that starts: an old one could lead to
 * another user.
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
