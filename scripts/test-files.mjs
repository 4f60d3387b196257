/** Which built test files to run, and which built files hold no code. */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';

/** The rooms whose coverage counts. */
export const COVERED = ['lib', 'proto', 'client', 'supervision', 'actors', 'transports', 'storage', 'cmd'];

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

/** Those of `files` (built test files) that are long, in the order in which they have their turn: each day begins with others. */
export function findLong(files, day) {
  const turn = (file) => createHash('sha256').update(`${day} ${file}`).digest('hex');
  return files.filter((file) => file.endsWith('.long.test.js')).sort((a, b) => (turn(a) < turn(b) ? -1 : 1));
}

/** Those of `files` (built test files) that need the programs of a Kubernetes cluster. */
export function findOnCluster(root, files) {
  const programs = join(root, 'dist/test/support/kubernetes/programs.js');
  return files.filter((file) => loads(join(root, file), programs));
}

/**
 * Which of `files` (built test files) hold these failures, each a name and the path it was declared at. A test that is declared in a
 * shared file is looked for in all that load it. All of `files` when one cannot be found.
 */
export function filesOfFailures(root, files, failures) {
  const found = new Set();
  for (const { name, location } of failures) {
    const path = location === '' ? name : location;
    const built = relative(root, path)
      .replace(/\.ts$/, '.js')
      .replace(/^test\//, 'dist/test/');
    const own = files.filter((file) => file === built);
    const holders = own.length > 0 ? own : files.filter((file) => loads(join(root, file), join(root, built)));
    if (holders.length === 0) return files;
    for (const file of holders) found.add(file);
  }
  return [...found];
}

/** Whether a built file imports another, itself or by files it imports. */
function loads(file, other, seen = new Set()) {
  if (file === other) return true;
  if (seen.has(file) || !existsSync(file)) return false;
  seen.add(file);
  const imports = readFileSync(file, 'utf8').matchAll(/from '(\.[^']+)'/g);
  return [...imports].some(([, path]) => loads(join(dirname(file), path), other, seen));
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
