import { z } from 'zod';
import { DockerClient } from '../../../transports/engines/docker/api/client.ts';

const containers = z.array(z.object({ Id: z.string() }));

/**
 * Removes all containers and networks of a dockerd that is about to end. The bridges of networks, and their rules of the
 * firewall, would outlive it.
 */
export async function removeNetworks(host: string): Promise<void> {
  const client = new DockerClient(host);
  try {
    for (const { Id } of await client.json('GET', '/containers/json', containers, { query: { all: true } })) {
      await client.call('DELETE', `/containers/${Id}`, { query: { force: true } });
    }
    await client.call('POST', '/networks/prune');
  } finally {
    client.close();
  }
}
