/** The file systems that hold given folders, by statfs. */
import { stat, statfs } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import type { DiskSample } from '../../../proto/ports/metrics-source.ts';

/** The file systems of `paths`, each once, under where it is mounted. Rejects when a path is not there. */
export async function disksOf(paths: readonly string[]): Promise<DiskSample[]> {
  const mounts = new Set(await Promise.all(paths.map(mountPointOf)));
  return Promise.all(
    [...mounts].map(async (path) => {
      const { blocks, bfree, bavail, bsize } = await statfs(path);
      // What only root may take counts as neither used nor free.
      const usedBytes = (blocks - bfree) * bsize;
      return { path, usedBytes, capacityBytes: usedBytes + bavail * bsize };
    }),
  );
}

/** The highest folder above `path` on the same device. */
async function mountPointOf(path: string): Promise<string> {
  let found = resolve(path);
  const { dev } = await stat(found);
  for (;;) {
    const above = dirname(found);
    if (above === found || (await stat(above)).dev !== dev) return found;
    found = above;
  }
}
