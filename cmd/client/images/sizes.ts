/** How much the tags of one's own repositories hold: what `troupe image rm` would give back, and what it would not. */
import type { ImageView } from '../../../proto/compute/images.ts';
import { openFiles } from '../own-client.ts';
import type { TagSizes } from '../place.ts';
import type { ClientCommandOptions } from '../session.ts';
import { MEDIA } from './archive.ts';
import { archivedIndex, archivedManifest } from './archive-json.ts';
import { digestOf, imageName, Repository, referenceOf, registryOf } from './registry.ts';

const AT_ONCE = 8;

/**
 * The sizes of the tags in the repositories that begin with one's name, by the references of their images. Rejects as
 * the registry does, and with ClientFailure where it is not reached from here.
 */
export async function tagSizes(
  images: readonly Pick<ImageView, 'image'>[],
  options: ClientCommandOptions,
): Promise<ReadonlyMap<string, TagSizes>> {
  const session = openFiles(options);
  const username = session.profile.username ?? (await session.client.call('session')).username;
  const { host, url } = await registryOf(session);
  const own = images.filter(({ image }) => image.startsWith(`${host}/${username}/`));
  const repositories = new Map<string, Repository>();
  const parts = new Map<string, ReadonlyMap<string, number>>();
  const waiting = own.map(({ image }) => imageName(image, host, username));
  const look = async () => {
    for (let name = waiting.shift(); name !== undefined; name = waiting.shift()) {
      const repository = repositories.get(name.repository) ?? Repository.own(session, url, name, ['pull']);
      repositories.set(name.repository, repository);
      parts.set(referenceOf(name), await partsOf(repository, name.tag));
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, look));
  return sizesIn(parts);
}

/** The sizes of images by their parts: digests with bytes. */
export function sizesIn(images: ReadonlyMap<string, ReadonlyMap<string, number>>): Map<string, TagSizes> {
  const holders = new Map<string, number>();
  for (const parts of images.values())
    for (const digest of parts.keys()) holders.set(digest, (holders.get(digest) ?? 0) + 1);
  return new Map(
    [...images].map(([reference, parts]) => {
      let [bytes, own_bytes] = [0, 0];
      for (const [digest, size] of parts) {
        bytes += size;
        if (holders.get(digest) === 1) own_bytes += size;
      }
      return [reference, { bytes, own_bytes }];
    }),
  );
}

/** What an image is made of, its manifests among them; nothing if it went meanwhile. */
async function partsOf(repository: Repository, version: string): Promise<Map<string, number>> {
  const found = await repository.manifest(version);
  const parts = new Map<string, number>();
  if (found === undefined) return parts;
  parts.set(digestOf(found.bytes), found.bytes.length);
  if (found.mediaType === MEDIA.ociIndex || found.mediaType === MEDIA.dockerList) {
    for (const { digest } of archivedIndex(found.bytes))
      for (const [part, size] of await partsOf(repository, digest)) parts.set(part, size);
    return parts;
  }
  const { config, layers } = archivedManifest(found.bytes);
  for (const { digest, size } of [config, ...layers]) parts.set(digest, size);
  return parts;
}
