import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { TarEntry } from './tar.ts';

/** The folder deploy/base-image, from the sources as from the built files, which lie one level deeper. */
export function baseImageFolder(): string {
  const candidates = ['../../../../deploy/base-image/', '../../../../../deploy/base-image/'];
  const found = candidates
    .map((path) => fileURLToPath(new URL(path, import.meta.url)))
    .find((path) => existsSync(path));
  if (found === undefined) throw new Error('the folder deploy/base-image is missing from this installation');
  return found;
}

/**
 * The files every base image gets, as archive entries (owner root, modes by place: programs in `sbin` may be run, all
 * may be read). Folders come along only where they need a mode of their own.
 */
export async function rootfsFiles(): Promise<TarEntry[]> {
  const root = join(baseImageFolder(), 'rootfs');
  const found = await readdir(root, { recursive: true, withFileTypes: true });
  const paths = found
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(root.length + 1))
    .sort();
  const files = await Promise.all(
    paths.map(async (path): Promise<TarEntry> => {
      const mode = /(?:^|\/)sbin\//.test(path) ? 0o755 : 0o644;
      return { kind: 'file', path, mode, data: await readFile(join(root, path)) };
    }),
  );
  return [
    { kind: 'directory', path: 'etc/troupe', mode: 0o755 },
    { kind: 'directory', path: 'root', mode: 0o700 },
    ...files,
  ];
}
