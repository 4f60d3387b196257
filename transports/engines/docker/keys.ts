import { z } from 'zod';
import { type TarEntry, tar } from '../../../lib/tar.ts';
import { created, type DockerClient, isReply, unlessReply } from './api/client.ts';
import { type DockerContainerView, foundIn, listedContainer } from './container-view.ts';
import { importImage } from './image/base-image.ts';
import { KEYS_FOLDER, labels, type Naming, noHealthcheck } from './naming.ts';

/**
 * Replaces a container's authorized keys, running or not, and `files` of the same folder. Owner and modes are what
 * sshd's StrictModes asks for (sshd_config(5)). Docker writes nothing into a volume that is mounted for reading only,
 * so it is done through a second container that has the volume too, is never started, and goes at once. That one is
 * made from nothing: an image may bring volumes, which Docker would copy each time, labels and health checks. Rejects
 * with EngineError.
 */
export async function writeAuthorizedKeys(
  client: DockerClient,
  naming: Naming,
  view: DockerContainerView,
  authorizedKeys: readonly string[],
  files: readonly TarEntry[] = [],
): Promise<void> {
  const archive = keysArchive(authorizedKeys, files);
  const volume = view.Mounts.find((mount) => mount.Destination === KEYS_FOLDER && !mount.RW)?.Name;
  // Made by a version without the volume: the folder is the container's own.
  if (volume === undefined) return put(client, view.Id, archive);
  // Its label says whose it is, should dockerd be killed before it goes.
  const Id = await createHelper(client, naming.helper(naming.idOf(view.Config.Labels) || 'keys'), {
    Mounts: [{ Type: 'volume', Source: volume, Target: KEYS_FOLDER, VolumeOptions: { NoCopy: true } }],
  });
  try {
    await put(client, Id, archive);
  } finally {
    await removeHelper(client, Id);
  }
}

async function removeHelper(client: DockerClient, dockerId: string): Promise<void> {
  // 404, 409: somebody else removes it.
  await unlessReply(client.call('DELETE', `/containers/${dockerId}`, { query: { force: true, v: true } }), 404, 409);
}

async function put(client: DockerClient, dockerId: string, archive: Buffer): Promise<void> {
  // Docker unpacks inside the container's own root, so links made in the container cannot lead out of it.
  await client.call('PUT', `/containers/${dockerId}/archive`, {
    query: { path: '/' },
    archive: archive,
  });
}

function keysArchive(authorizedKeys: readonly string[], files: readonly TarEntry[]): Buffer {
  const lines = authorizedKeys.map((key) => key.replace(/[\r\n]+/g, ' ').trim()).filter((key) => key !== '');
  return tar(
    [
      { kind: 'directory', path: 'etc', mode: 0o755 },
      { kind: 'directory', path: 'etc/troupe', mode: 0o755 },
      {
        kind: 'file',
        path: 'etc/troupe/authorized_keys',
        mode: 0o600,
        data: Buffer.from(lines.map((l) => `${l}\n`).join('')),
      },
      ...files,
    ],
    Math.floor(Date.now() / 1000),
  );
}

const helperList = z.array(listedContainer.extend({ Created: z.number() }));

/**
 * Removes helpers that were left when platform or dockerd died, when they are older than `olderThanMs`; those of
 * container `id` only, if given.
 */
export async function removeHelpers(
  client: DockerClient,
  naming: Naming,
  { olderThanMs = 60_000, id }: { readonly olderThanMs?: number | undefined; readonly id?: string } = {},
): Promise<void> {
  const helper = id === undefined ? labels.helper : `${labels.helper}=${id}`;
  const filters = JSON.stringify({ label: [`${labels.installation}=${naming.installation}`, helper] });
  const found = await client.json('GET', '/containers/json', helperList, { query: { all: true, filters } });
  for (const helper of found) {
    const { Id, Created } = helper;
    if (!naming.isHelper(foundIn(helper)) || Date.now() - Created * 1000 < olderThanMs) continue;
    await removeHelper(client, Id);
  }
}

/** An image without a file. No registry has such names (RFC 2606, section 2): nobody can put another in its place. */
const HELPER_IMAGE = 'troupe.invalid/helper:1';

/**
 * Makes a container that is never started, from an image with nothing in it, and resolves with Docker's id of it.
 * `hostConfig` adds to the least there can be. The image is made when it is missing. Rejects with EngineError.
 */
async function createHelper(
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
