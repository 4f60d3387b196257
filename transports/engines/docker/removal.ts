import { z } from 'zod';
import { retried } from '../../../lib/waiting.ts';
import { isReply, unlessReply } from '../common/calls.ts';
import type { DockerClient } from './api/client.ts';
import type { Naming } from './naming.ts';

/**
 * Removes a container, running or not, and the volumes without a name that its image asked for and nobody kept. `fence`
 * throws when it is another's by now. One that is gone already is removed.
 */
export async function removeContainer(
  client: DockerClient,
  dockerId: string,
  fence: () => void = () => {},
): Promise<void> {
  const options = { query: { force: true, v: true }, timeoutMs: 60_000 };
  const remove = async (): Promise<unknown> => {
    fence();
    return client.call('DELETE', `/containers/${dockerId}`, options);
  };
  const isBusy = (error: unknown): boolean =>
    isReply(error, 409, 500) && /already in progress|busy|could not kill/i.test(error.reason);
  await unlessReply(retried(remove, { tries: 60, pauseMs: 250 }, isBusy), 404);
}

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
    const remove = () => client.call('DELETE', `/volumes/${encodeURIComponent(name)}`);
    await unlessReply(
      retried(remove, { tries: 20, pauseMs: 100 }, (error) => isReply(error, 409)),
      404,
    );
  }
}
