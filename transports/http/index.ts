import type { HttpServer, HttpServerOptions } from '../../proto/ports/http.ts';
import { failedProbes } from './conformance.ts';
import { ListenError } from './listen-error.ts';
import { listenNode } from './node-server.ts';
import { listenOwn } from './own-server.ts';
import { loadUws, type UwsBuild, uwsBuild } from './uws-library.ts';
import { listenUws } from './uws-server.ts';

/** What serves: Troupe's own server, uWebSockets.js, node:http with ws, or the fastest that is strict. */
export type AdapterChoice = 'auto' | 'own' | 'uws' | 'node';

/** Which adapter a choice comes to on this machine, and why it is no other. */
interface AdapterPlan {
  readonly adapter: 'own' | 'uws' | 'node';
  /** The binary of uWebSockets.js that is installed. */
  readonly build: UwsBuild | undefined;
  /** What `auto` found that the build does not do as it should. */
  readonly fails?: readonly string[];
  /** What an operator should know: a build that is not the one that was looked at. */
  readonly warning?: string;
}

/**
 * Opens an HTTP and WebSocket server. All adapters behave as proto/ports/http.ts says; test/http runs one suite on
 * each, and tells where uWebSockets.js does not. Rejects with ListenError `address_unavailable`, or
 * `adapter_unavailable` when `uws` was asked for and there is no binary for this machine. `warn` is told in a sentence
 * when the binary that is there is not one of the list: Troupe's own server takes its place.
 */
export async function listen(
  options: HttpServerOptions,
  choice: AdapterChoice = 'auto',
  warn: (sentence: string) => void = () => undefined,
): Promise<HttpServer> {
  const { adapter, warning } = await planAdapter(choice);
  if (warning !== undefined && !warned) {
    warned = true;
    warn(warning);
  }
  if (adapter === 'node') return listenNode(options);
  const library = adapter === 'uws' ? loadUws() : undefined;
  return library === undefined ? listenOwn(options) : listenUws(library, options);
}

/** Once a process: all services listen with the same. */
let warned = false;

/** What `choice` comes to. Rejects with ListenError `adapter_unavailable`. `build`: what is installed. */
export async function planAdapter(choice: AdapterChoice, build = uwsBuild()): Promise<AdapterPlan> {
  if (choice === 'own' || choice === 'node') return { adapter: choice, build };
  if (build !== undefined && build.known === undefined) {
    const warning =
      `${build.file} (sha256 ${build.sha256}) is not a build of uWebSockets.js that Troupe knows: it is not loaded, ` +
      `and Troupe's own HTTP server is used.`;
    return { adapter: 'own', build, warning };
  }
  if (choice === 'uws') {
    if (loadUws(build) !== undefined) return { adapter: 'uws', build };
    throw new ListenError('adapter_unavailable', 'The uWebSockets.js binary does not load on this machine.');
  }
  if (build === undefined || build.known?.conforms === false) return { adapter: 'own', build };
  const fails = await trial(build);
  return { adapter: fails.length === 0 ? 'uws' : 'own', build, fails };
}

/** What builds failed that nobody had tried, by their hash. */
const trials = new Map<string, Promise<string[]>>();

function trial(build: UwsBuild): Promise<string[]> {
  let result = trials.get(build.sha256);
  if (result === undefined) {
    const library = loadUws(build);
    result =
      library === undefined
        ? Promise.resolve(['it does not load'])
        : failedProbes((options) => listenUws(library, options));
    trials.set(build.sha256, result);
  }
  return result;
}

export { failedProbes } from './conformance.ts';
export { ListenError } from './listen-error.ts';
