import type * as uws from 'uWebSockets.js';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { KNOWN_BUILDS, type KnownBuild } from './uws-builds.ts';

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

/**
 * The binary for this machine, hashed once and not loaded; undefined where there is none: it is an optional dependency.
 */
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

/**
 * What `file` is, by its content; a build for another target than `target` is not known. Throws when it cannot be read.
 */
export function readBuild(file: string, target: string): UwsBuild {
  const sha256 = createHash('sha256').update(readFileSync(file)).digest('hex');
  const known = KNOWN_BUILDS.get(sha256);
  return { file, sha256, known: known?.target === target ? known : undefined };
}

/**
 * The library goes without its `uWebSockets: 20` reply header after this call, which its own type file does not list.
 */
function silence(library: object): void {
  const configure: unknown = Reflect.get(library, '_cfg');
  if (typeof configure === 'function') configure('999999990007');
}

/**
 * Loads uWebSockets.js, or returns undefined where it has no binary for this machine, or one that is not in the list
 * (uws-builds.ts).
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
