import type { DockerClient } from './client.ts';
import { isReply } from './errors.ts';
import { labels, type Naming } from './naming.ts';

/**
 * Makes the installation's bridge network present: containers reach the world and the host reaches them, but not one another
 * (`enable_icc=false`). Calls at the same time share one creation, because Docker allows two networks of one name.
 */
export function networkEnsurer(client: DockerClient, naming: Naming): () => Promise<void> {
  let running: Promise<void> | undefined;
  const ensure = async (): Promise<void> => {
    try {
      await client.call('GET', `/networks/${naming.network}`);
      return;
    } catch (error) {
      if (!isReply(error, 404)) throw error;
    }
    const body = {
      Name: naming.network,
      Driver: 'bridge',
      CheckDuplicate: true,
      Labels: { [labels.installation]: naming.installation },
      Options: { 'com.docker.network.bridge.enable_icc': 'false' },
    };
    await client.call('POST', '/networks/create', { body }).catch((error: unknown) => {
      if (!isReply(error, 409)) throw error;
    });
  };
  return () => {
    running ??= ensure().finally(() => {
      running = undefined;
    });
    return running;
  };
}
