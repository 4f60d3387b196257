import { DockerClient } from './client.ts';
import { Containers } from './containers.ts';
import { isReply } from './errors.ts';
import { namingOf } from './naming.ts';
import { removeVolumes } from './volumes.ts';

/**
 * Removes everything an installation has in a Docker Engine: containers, their data, its network. Images stay. Docker has room for
 * about thirty networks, so an installation that will not come back (a test's) should not leave its own. Rejects with EngineError.
 */
export async function removeInstallation(host: string, installation: string): Promise<void> {
  const naming = namingOf(installation);
  const client = new DockerClient(host);
  try {
    const containers = new Containers(client, naming, 'scratch');
    for (const { id } of await containers.list()) await containers.remove(id, false);
    await removeVolumes(client, naming);
    await client.call('DELETE', `/networks/${naming.network}`).catch((error: unknown) => {
      if (!isReply(error, 404)) throw error;
    });
  } finally {
    client.close();
  }
}
