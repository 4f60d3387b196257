/** Which built test files to run, and which built files hold no code. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** The rooms whose coverage counts. */
export const COVERED = ['proto', 'supervision', 'actors', 'transports', 'storage', 'cmd'];

/**
 * The built files of all test/**\/*.test.ts whose path contains one of `patterns` (all, without patterns), sorted. Goes by
 * the sources, so a file that was deleted but is still in dist/ does not run. Throws when one was not built.
 */
export function findTests(root, patterns) {
  const sources = readdirSync(join(root, 'test'), { recursive: true })
    .map((file) => join('test', file))
    .filter((file) => file.endsWith('.test.ts'))
    .filter((file) => patterns.length === 0 || patterns.some((pattern) => file.includes(pattern)))
    .sort();
  return sources.map((source) => {
    const built = join('dist', source.replace(/\.ts$/, '.js'));
    if (!existsSync(join(root, built))) throw new Error(`${source} is not built: run npm run build`);
    return built;
  });
}

/** Sources of the covered rooms that hold types only: nothing ever loads them, so they cannot be covered. */
export function findTypeOnly(root) {
  return COVERED.filter((room) => existsSync(join(root, 'dist', room))).flatMap((room) =>
    readdirSync(join(root, 'dist', room), { recursive: true })
      .filter((file) => file.endsWith('.js') && holdsNoCode(readFileSync(join(root, 'dist', room, file), 'utf8')))
      .map((file) => join(room, file.replace(/\.js$/, '.ts'))),
  );
}

function holdsNoCode(built) {
  const code = built.replace(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, '').trim();
  return code === '' || code === 'export {};';
}
