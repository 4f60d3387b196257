/** Names of the images that the platform builds itself: the base image, and those of the catalog beside it. */

/** No registry can have it (RFC 2606, section 2), so nobody can put another image in the place of a missing one. */
const HOST = 'troupe.invalid';
const MADE_NAME = new RegExp(`^${HOST.replace('.', '\\.')}/([a-z]+(?:-[0-9]+)?)(?::[0-9a-f]{16})?$`);
/** The base image's in versions before. */
const FORMER_NAME = /^(?:docker\.io\/)?troupe\/base:[0-9a-f]{16}$/;

/** The base image among the names. */
export const BASE_NAME = 'base';

/** `troupe.invalid/<name>`, which means the image of today; with the hash of a recipe that very image. */
export function builtInReference(name: string, hash?: string): string {
  return `${HOST}/${name}${hash === undefined ? '' : `:${hash}`}`;
}

/**
 * The name of the built-in image that a reference means, of whatever recipe and version: containers and their rows may
 * have an older one. It is asked of no registry. Undefined for all other images.
 */
export function builtInName(image: string): string | undefined {
  return FORMER_NAME.test(image) ? BASE_NAME : MADE_NAME.exec(image)?.[1];
}
