/** Files of a folder on their way into a container. */
import { ended, tar } from '../copy.ts';
import type { openFiles } from '../own-client.ts';
import type { FolderFile } from './files.ts';

interface SentFiles {
  /** The folder here. */
  readonly root: string;
  /** The folder in the container. */
  readonly folder: string;
  readonly files: readonly FolderFile[];
}

/** Sends them as an archive, by the system's tar. Rejects with ClientFailure or TroupeError. */
export async function sendFiles(
  { files: request }: Pick<ReturnType<typeof openFiles>, 'files'>,
  id: string,
  { root, folder, files }: SentFiles,
): Promise<void> {
  const args = ['--owner=0', '--group=0', '--numeric-owner', '--mode=go-w', '--no-recursion', '--null'];
  const archiver = tar(['-cf', '-', '-C', root, ...args, '--verbatim-files-from', '-T', '-']);
  // Broken by tar's end, which says more.
  archiver.stdin.on('error', () => {});
  archiver.stdin.end(files.map(({ path }) => `${path}\0`).join(''));
  const query = new URLSearchParams({ path: folder, archive: 'tar' });
  const path = `/compute/containers/${encodeURIComponent(id)}/files?${query}`;
  await Promise.all([request('PUT', path, { body: archiver.stdout, length: undefined }), ended(archiver)]);
}
