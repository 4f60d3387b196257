/** What Node runs as `troupe` in tests. */
import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot } from './project.ts';

const isCompiled = import.meta.url.endsWith('.js');
const bundle = join(projectRoot, 'dist/program/main.js');
const unbundled = isCompiled
  ? ['--enable-source-maps', join(projectRoot, 'dist/cmd/main.js')]
  : ['--import', 'tsx', join(projectRoot, 'cmd/main.ts')];

/** When a file was written; undefined when there is none. */
const writtenAt = (path: string) => (existsSync(path) ? statSync(path).mtimeMs : undefined);

/** Whether the bundle is of the build that runs: `tsc` alone does not make it anew. */
function isBundled(): boolean {
  const at = writtenAt(bundle);
  return isCompiled && at !== undefined && at >= (writtenAt(join(projectRoot, 'dist/.tsbuildinfo')) ?? 0);
}

/**
 * Arguments of node that run `troupe`: the bundle that people run; without it, or where its coverage is collected, the
 * files that it was made of. `preload`: arguments that load something into the process, which changes those files.
 */
export function programArguments(preload: readonly string[] = []): string[] {
  const isWhole = preload.length === 0 && process.env.NODE_V8_COVERAGE === undefined && isBundled();
  return isWhole ? [bundle] : [...preload, ...unbundled];
}
