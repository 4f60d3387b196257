import type { DockerClient } from '../api/client.ts';
import { created } from '../api/client.ts';
import { isReply } from '../api/errors.ts';
import { KEYS_FOLDER, noHealthcheck } from '../naming.ts';
import { importImage } from './import-image.ts';
import { tar } from './tar.ts';

/** An image without a file. No registry has such names (RFC 2606, section 2): nobody can put another in its place. */
const HELPER_IMAGE = 'troupe.invalid/helper:1';

/**
 * Makes a container that is never started, from an image with nothing in it, and resolves with Docker's id of it.
 * `hostConfig` adds to the least there can be. The image is made when it is missing. Rejects with EngineError.
 */
export async function createHelper(
  client: DockerClient,
  { name, labels }: { readonly name: string; readonly labels: Readonly<Record<string, string>> },
  hostConfig: object,
): Promise<string> {
  const create = async (): Promise<string> => {
    const { Id } = await client.json('POST', '/containers/create', created, {
      query: { name },
      body: {
        Image: HELPER_IMAGE,
        Cmd: ['-'],
        Labels: labels,
        Healthcheck: noHealthcheck,
        HostConfig: { NetworkMode: 'none', CapDrop: ['ALL'], SecurityOpt: ['no-new-privileges'], ...hostConfig },
      },
    });
    return Id;
  };
  try {
    return await create();
  } catch (error) {
    if (!isReply(error, 404)) throw error;
    await importImage(client, HELPER_IMAGE, tar([{ kind: 'directory', path: KEYS_FOLDER.slice(1), mode: 0o755 }]), []);
    return create();
  }
}
