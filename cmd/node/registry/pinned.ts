/** What the registry that comes along keeps although no tag leads there: rows of the platform name it by its digest. */
import type { Log } from '../../../proto/ports/log.ts';
import { imagesByDigest } from '../../../storage/compute/pinned-images.ts';
import { type DbConnection, openDb } from '../../../storage/db.ts';

/**
 * All that rows and the default image name by a digest, as `repository@digits`. Rejects with StorageError when the
 * database is away, or older than this version: then nothing may be taken for unneeded.
 */
export async function pinnedImages(
  connection: DbConnection,
  defaultImage: string | undefined,
  log: Log,
): Promise<ReadonlySet<string>> {
  // Its own, as it is asked once a day, and before the platform has one.
  const db = openDb(connection, { log, name: 'registry', max: 1 });
  try {
    const images = [...(await imagesByDigest(db)), defaultImage ?? ''];
    return new Set(images.flatMap(pinsOf));
  } finally {
    await db.close();
  }
}

/** Nothing for an image without a digest. What comes before the first slash may be a registry's host. */
function pinsOf(image: string): string[] {
  const [, name = '', hex = ''] = /^([^@]+?)(?::[^:/@]+)?@sha256:([0-9a-f]{64})$/.exec(image) ?? [];
  if (hex === '') return [];
  const withoutHost = name.slice(name.indexOf('/') + 1);
  return [...new Set([name, withoutHost])].map((repository) => `${repository}@${hex}`);
}
