import type * as uws from 'uWebSockets.js';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

interface KnownBuild {
  /** Of the npm package `uwebsockets`. */
  readonly version: string;
  /** Platform, processor and ABI of Node (`process.versions.modules`) it is for. */
  readonly target: string;
  /** Whether it passed the test of conformance.ts; undefined where nobody has run it yet. */
  readonly conforms?: boolean;
}

/** To add one: `sha256sum node_modules/uWebSockets.js/uws_linux_*.node`; `troupe doctor` says how it fares. */
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

/** The functions of uWebSockets.js, once its binary for this platform and Node version is loaded. */
export type Uws = typeof uws;

/** A binary that is installed for this machine. */
export interface UwsBuild {
  readonly file: string;
  readonly sha256: string;
  /** What is known of it; one that is not known is never loaded. */
  readonly known: KnownBuild | undefined;
}

const require = createRequire(import.meta.url);
let found: UwsBuild | null | undefined;
let loaded: Uws | null | undefined;

/** The binary for this machine, hashed once and not loaded; undefined without this optional dependency. */
export function uwsBuild(): UwsBuild | undefined {
  if (found === undefined) found = installed() ?? null;
  return found ?? undefined;
}

function installed(): UwsBuild | undefined {
  const target = `${process.platform}_${process.arch}_${process.versions.modules}`;
  try {
    return readBuild(join(dirname(require.resolve('uWebSockets.js')), `uws_${target}.node`), target);
  } catch {
    return undefined;
  }
}

/** What `file` is, by its content; a build for another target is not known. Throws when it cannot be read. */
export function readBuild(file: string, target: string): UwsBuild {
  const sha256 = createHash('sha256').update(readFileSync(file)).digest('hex');
  const known = KNOWN_BUILDS.get(sha256);
  return { file, sha256, known: known?.target === target ? known : undefined };
}

/** Leaves the header `uWebSockets: 20` out of replies; the library's own type file does not list this call. */
function silence(library: object): void {
  const configure: unknown = Reflect.get(library, '_cfg');
  if (typeof configure === 'function') configure('999999990007');
}

/**
 * Loads uWebSockets.js, or returns undefined where it has no binary for this machine, or one that is not in the list.
 *
 * It reads UWS_HTTP_MAX_HEADERS_SIZE while loading: the most bytes of a request head that arrives in several pieces
 * (4,096 when unset). Whoever starts the process sets it to MAX_HEAD_BYTES.
 */
export function loadUws(build: UwsBuild | undefined = uwsBuild()): Uws | undefined {
  if (build?.known === undefined) return undefined;
  if (loaded === undefined) {
    try {
      const library: Uws = require(build.file);
      silence(library);
      loaded = library;
    } catch {
      loaded = null;
    }
  }
  return loaded ?? undefined;
}
