import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { type DockerClient, isReply } from './api/client.ts';
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
  const remove = (): Promise<unknown> => {
    fence();
    return client.call('DELETE', `/containers/${dockerId}`, { query: { force: true, v: true }, timeoutMs: 60_000 });
  };
  const isBusy = (error: unknown): boolean =>
    isReply(error, 409, 500) && /already in progress|busy|could not kill/i.test(error.reason);
  await untilGone(remove, isBusy, { tries: 60, pauseMs: 250 });
}

/** Removes what Docker may still count as used: then again, after a pause. What is gone already is removed. */
export async function untilGone(
  remove: () => Promise<unknown>,
  isBusy: (error: unknown) => boolean,
  { tries = 20, pauseMs = 100 } = {},
): Promise<void> {
  for (let left = tries - 1; ; left -= 1) {
    try {
      await remove();
      return;
    } catch (error) {
      if (isReply(error, 404)) return;
      if (!isBusy(error) || left === 0) throw error;
      await delay(pauseMs);
    }
  }
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
    await untilGone(remove, (error) => isReply(error, 409));
  }
}
