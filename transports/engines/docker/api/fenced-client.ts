import type { DockerClient } from './client.ts';

/** What changes and looks need of a client. */
export type Calls = Pick<DockerClient, 'call' | 'json' | 'stream'>;

/**
 * The client, which asks `fence` before each change: it throws once another node may look after the container, and the
 * change is not made. For work of many changes that lasts.
 */
export function fencedClient(client: Calls, fence: () => void): Calls {
  const ask = (method: string): void => {
    if (method !== 'GET' && method !== 'HEAD') fence();
  };
  return {
    call: async (method, ...rest) => {
      ask(method);
      return client.call(method, ...rest);
    },
    json: async (method, ...rest) => {
      ask(method);
      return client.json(method, ...rest);
    },
    stream: async (method, ...rest) => {
      ask(method);
      return client.stream(method, ...rest);
    },
  };
}
