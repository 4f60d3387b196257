/** How images are called. */

/** As proto/built-in-images.ts has it. */
const BUILT_IN = /^troupe\.invalid\/([^:]+)(?::[0-9a-f]{16})?$/;

/** The short name of one that the platform builds, such as `node`, by which it is asked for; of all others as it is. */
export function imageName(image: string): string {
  return BUILT_IN.exec(image)?.[1] ?? image;
}
