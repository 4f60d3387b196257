import type { DockerClient } from './client.ts';
import { tar } from './tar.ts';

/** Where the images' sshd looks for the platform's keys (deploy/base-image). */
export const authorizedKeysPath = '/etc/troupe/authorized_keys';

/**
 * Replaces a container's authorized keys, running or not. Owner and modes are what sshd's StrictModes asks for (sshd_config(5)).
 * Docker unpacks inside the container's own root, so links made in the container cannot lead out of it.
 */
export async function writeAuthorizedKeys(
  client: DockerClient,
  dockerId: string,
  authorizedKeys: readonly string[],
): Promise<void> {
  const lines = authorizedKeys.map((key) => key.replace(/[\r\n]+/g, ' ').trim()).filter((key) => key !== '');
  const archive = tar(
    [
      { kind: 'directory', path: 'etc', mode: 0o755 },
      { kind: 'directory', path: 'etc/troupe', mode: 0o755 },
      {
        kind: 'file',
        path: 'etc/troupe/authorized_keys',
        mode: 0o600,
        data: Buffer.from(lines.map((l) => `${l}\n`).join('')),
      },
    ],
    Math.floor(Date.now() / 1000),
  );
  await client.call('PUT', `/containers/${dockerId}/archive`, {
    query: { path: '/' },
    raw: archive,
    contentType: 'application/x-tar',
  });
}
