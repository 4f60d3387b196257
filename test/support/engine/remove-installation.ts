import { DEFAULT_SUBNET_POOL, parsePool } from '../../../transports/engines/common/subnets.ts';
import { DockerClient } from '../../../transports/engines/docker/api/client.ts';
import { Containers } from '../../../transports/engines/docker/containers.ts';
import { namingOf } from '../../../transports/engines/docker/naming.ts';
import { ContainerNetworks } from '../../../transports/engines/docker/network.ts';
import { removeVolumes } from '../../../transports/engines/docker/removal.ts';

/**
 * Removes everything an installation has in a Docker Engine: containers, their data, their networks. Images stay. Rejects
 * with EngineError.
 */
export async function removeInstallation(host: string, installation: string): Promise<void> {
  const naming = namingOf(installation);
  const client = new DockerClient(host);
  try {
    const networks = new ContainerNetworks(client, naming, parsePool(DEFAULT_SUBNET_POOL));
    const containers = new Containers({ client, naming, networks, baseImage: 'scratch' });
    for (const { id } of await containers.list()) await containers.remove(id, false);
    await removeVolumes(client, naming);
    await containers.sweep(0);
  } finally {
    client.close();
  }
}
