/** What the disk of the registry's images takes. */
import { statfs } from 'node:fs/promises';
import type { RegistryRoom } from '../../../proto/ports/local-registry.ts';

/** A twentieth of the disk is kept free, of a small one a gibibyte, of a large one 20. */
const KEPT = { share: 0.05, least: 2 ** 30, most: 20 * 2 ** 30 } as const;

/** What a disk takes with so many bytes free. */
export function roomOf(free: number, total: number): RegistryRoom {
  const kept = Math.min(KEPT.most, Math.max(KEPT.least, total * KEPT.share));
  if (free >= kept) return 'enough';
  return free >= kept / 4 ? 'little' : 'none';
}

/** The same by the number of files. Some file systems have no bound of it, and say 0. */
export function roomOfFiles(free: number, total: number): RegistryRoom {
  const kept = total * KEPT.share;
  if (free >= kept) return 'enough';
  return free >= kept / 4 ? 'little' : 'none';
}

const ROOMS = ['none', 'little', 'enough'] as const;

/** What the disk of a folder takes now. Rejects with an error of the file system. */
export async function roomIn(folder: string): Promise<RegistryRoom> {
  const { bavail, blocks, bsize, ffree, files } = await statfs(folder);
  const [ofBytes, ofFiles] = [roomOf(bavail * bsize, blocks * bsize), roomOfFiles(ffree, files)];
  return ROOMS.find((room) => room === ofBytes || room === ofFiles) ?? 'none';
}
