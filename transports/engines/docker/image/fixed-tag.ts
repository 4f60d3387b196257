/**
 * The names here of images that are asked for by their digest. Docker gives a digest to the repository alone from which
 * it pulled, and the platform's own registry is asked at an address: such an image has a tag in the place of it.
 */
const FIXED_TAG = /^_sha256-([0-9a-f]{64})$/;
const FIXED_NAME = /(?:@sha256:|:_sha256-)[0-9a-f]{64}$/;

/** The tag for `sha256:...`. */
export function fixedTag(digest: string): string {
  return `_${digest.replace(':', '-')}`;
}

/** The digest that such a tag stands for; undefined for any other. */
export function digestOfTag(tag: string): string | undefined {
  const digits = FIXED_TAG.exec(tag)?.[1];
  return digits && `sha256:${digits}`;
}

/** Whether what a name stands for never changes. */
export function isFixed(name: string): boolean {
  return FIXED_NAME.test(name);
}
