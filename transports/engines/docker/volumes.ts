import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import type { DockerClient } from './api/client.ts';
import { isReply } from './api/errors.ts';
import type { Naming } from './naming.ts';

const volumeList = z.object({ Volumes: z.array(z.object({ Name: z.string() })).nullable() });

/**
 * The names of all volumes of a container, or of the whole installation. Those of a container are known by name too:
 * one that was being made when dockerd was killed has lost its labels.
 */
async function listVolumes(client: DockerClient, naming: Naming, id?: string): Promise<string[]> {
  const find = async (filters: string): Promise<string[]> =>
    ((await client.json('GET', '/volumes', volumeList, { query: { filters } })).Volumes ?? []).map(({ Name }) => Name);
  const labelled = await find(naming.filters(id));
  if (id === undefined) return labelled;
  const prefix = `${naming.container(id)}-`;
  const named = (await find(JSON.stringify({ name: [prefix] }))).filter(
    (name) => name.startsWith(prefix) && /^[0-9a-f]{12}$/.test(name.slice(prefix.length)),
  );
  return [...new Set([...labelled, ...named])];
}

/** Removes a container's volumes. One that Docker still counts as used is tried again for a while. */
export async function removeVolumes(client: DockerClient, naming: Naming, id?: string): Promise<void> {
  for (const name of await listVolumes(client, naming, id)) {
    for (let tries = 1; ; tries += 1) {
      try {
        await client.call('DELETE', `/volumes/${encodeURIComponent(name)}`);
        break;
      } catch (error) {
        if (isReply(error, 404)) break;
        if (!isReply(error, 409) || tries === 20) throw error;
        await delay(100);
      }
    }
  }
}
