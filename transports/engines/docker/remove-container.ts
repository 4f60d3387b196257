import { setTimeout as delay } from 'node:timers/promises';
import type { DockerClient } from './api/client.ts';
import { isReply } from './api/errors.ts';

/**
 * Removes a container, running or not, and the volumes without a name that its image asked for and nobody kept. `fence`
 * throws when it is another's by now. One that is gone already is removed.
 */
export async function removeContainer(
  client: DockerClient,
  dockerId: string,
  fence: () => void = () => {},
): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    fence();
    try {
      await client.call('DELETE', `/containers/${dockerId}`, {
        query: { force: true, v: true },
        timeoutMs: 60_000,
      });
      return;
    } catch (error) {
      if (isReply(error, 404)) return;
      const busy = isReply(error, 409, 500) && /already in progress|busy|could not kill/i.test(error.reason);
      if (!busy || tries === 60) throw error;
      await delay(250);
    }
  }
}
