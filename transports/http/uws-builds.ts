/**
 * The binaries of uWebSockets.js that may be loaded, by the SHA-256 of their file: native code that nobody here has
 * built is only run when it is the one that was looked at.
 */

export interface KnownBuild {
  /** Of the npm package `uwebsockets`. */
  readonly version: string;
  /** Platform, processor and ABI of Node (`process.versions.modules`) it is for. */
  readonly target: string;
  /** Whether it passed the test of conformance.ts; undefined where nobody has run it yet. */
  readonly conforms?: boolean;
}

/**
 * To add one: `sha256sum node_modules/uWebSockets.js/uws_linux_*.node`, and `node bin/troupe doctor` says how it fares.
 */
export const KNOWN_BUILDS: ReadonlyMap<string, KnownBuild> = new Map([
  build('3.0.6', 'linux_x64_115', 'f4fa5d7b697529b45ac8aa3d57385d9af51bc1d2b26aa9f5b68ca4361542e665', false),
  build('3.0.6', 'linux_x64_120', 'd5ad6e0ea9738821e8d38af271a02bb6ce7665f4149c935f59464d2365186563'),
  build('3.0.6', 'linux_x64_127', '78e38a9a163b1cf33ce539619e5908111dea95a12e7943d95fbcdd524879caa8'),
  build('3.0.6', 'linux_x64_137', '3b549c14e01d9d1faf234cdf4b6f0fb08158605e3692cd0eb1b905e327bd3449'),
  build('3.0.6', 'linux_x64_141', 'd22bae7642b872152cd0eeb682c6c2ffd186e91af8cf18cdf98be984a6549d49'),
  build('3.0.6', 'linux_arm64_115', '034e0fcccdc08f90df3b130f421516311831b1352fe38eab91abc2984c2fdf3a'),
  build('3.0.6', 'linux_arm64_120', '87a48dc0366ae7011874d8c4cfb57c7c94dd5776d09c2f971b3d40d211fdd6d1'),
  build('3.0.6', 'linux_arm64_127', 'a7d9bc3ec166421a49416d5ea4f49118ae68ea1dbf8a765c4f45a79b0b6adb13'),
  build('3.0.6', 'linux_arm64_137', 'b6eb007d627e00bcce03ad38f197124e9027c03f6fe784b37f97b8a6ea709cb4'),
  build('3.0.6', 'linux_arm64_141', '1317f2e69ea1924ee8dd94ed02a3e6beb08e55d8b06f18caeda3d67a02857aee'),
]);

function build(version: string, target: string, sha256: string, conforms?: boolean): [string, KnownBuild] {
  return [sha256, { version, target, ...(conforms === undefined ? {} : { conforms }) }];
}
