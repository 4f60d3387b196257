/** What the registry that comes along keeps although no tag leads there: rows of the platform name it by its digest. */
import { catalogVersion } from '../../../proto/built-in-images.ts';
import type { Log } from '../../../proto/ports/log.ts';
import { imagesByDigest } from '../../../storage/compute/pinned-images.ts';
import { type DbConnection, openDb } from '../../../storage/db.ts';
import type { Environment } from '../../config/config.ts';

/**
 * All that rows and the default image name by a digest, as `repository@digits`. Rejects with StorageError when the
 * database is away, or older than this version: then nothing may be taken for unneeded.
 */
export async function pinnedImages(
  connection: DbConnection,
  { DEFAULT_IMAGE, CATALOG_IMAGES }: Pick<Environment, 'DEFAULT_IMAGE' | 'CATALOG_IMAGES'>,
  log: Log,
): Promise<ReadonlySet<string>> {
  // Its own, as it is asked once a day, and before the platform has one.
  const db = openDb(connection, { log, name: 'registry', max: 1 });
  try {
    const images = [...(await imagesByDigest(db)), DEFAULT_IMAGE ?? ''];
    return new Set(images.map((image) => placeOf(image, CATALOG_IMAGES)).flatMap(pinsOf));
  } finally {
    await db.close();
  }
}

/** An image of the catalog by the name that it has in a registry. */
function placeOf(image: string, catalogImages: string | undefined): string {
  const { name, version } = catalogVersion(image) ?? {};
  return catalogImages === undefined || name === undefined ? image : `${catalogImages}${name}${version}`;
}

/** Nothing for an image without a digest. What comes before the first slash may be a registry's host. */
function pinsOf(image: string): string[] {
  const [, name = '', hex = ''] = /^([^@]+?)(?::[^:/@]+)?@sha256:([0-9a-f]{64})$/.exec(image) ?? [];
  if (hex === '') return [];
  const withoutHost = name.slice(name.indexOf('/') + 1);
  return [...new Set([name, withoutHost])].map((repository) => `${repository}@${hex}`);
}
