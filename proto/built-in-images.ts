/** Names of the images that the platform builds itself: the base image, and those of the catalog beside it. */

/** No registry can have it (RFC 2606, section 2), so nobody can put another image in the place of a missing one. */
const HOST = 'troupe.invalid';
const MADE_NAME = new RegExp(
  `^${HOST.replace('.', '\\.')}/([a-z]+(?:-[0-9]+)?)(?::[0-9a-f]{16})?(?:@sha256:[0-9a-f]{64})?$`,
);
/** The base image's in versions before. */
const FORMER_NAME = /^(?:docker\.io\/)?troupe\/base:[0-9a-f]{16}$/;

/** The base image among the names. */
export const BASE_NAME = 'base';

/** What a tag or a digest of the image `name` of the catalog stands for: `:<hash of the recipe>`, or `@sha256:...`. */
interface CatalogVersion {
  readonly name: string;
  /** With what is in front of it; empty when there is none. */
  readonly version: string;
}

/** An image of the catalog and its version; undefined for the base image and all others. */
export function catalogVersion(image: string): CatalogVersion | undefined {
  const name = MADE_NAME.exec(image)?.[1];
  if (name === undefined || name === BASE_NAME) return undefined;
  return { name, version: image.slice(HOST.length + 1 + name.length) };
}

/** `troupe.invalid/<name>`, which means the image of today; with the hash of a recipe that very image. */
export function builtInReference(name: string, hash?: string): string {
  return `${HOST}/${name}${hash === undefined ? '' : `:${hash}`}`;
}

/**
 * The name of the built-in image that a reference means, of whatever recipe, version and digest: containers and their
 * rows may have an older one. It is asked of no registry. Undefined for all other images.
 */
export function builtInName(image: string): string | undefined {
  return FORMER_NAME.test(image) ? BASE_NAME : MADE_NAME.exec(image)?.[1];
}
