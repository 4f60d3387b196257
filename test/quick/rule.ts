/**
 * Which test files need no server: no PostgreSQL, Docker, NATS, SSH, browser or cluster.
 *
 * A server is either started by a test, which takes `node:child_process` (a browser: playwright-core), or lies on the machine, and then the
 * test says so through test/support/require.ts. What measures its process says so, too (test/support/own-process.ts). So a test file is quick when
 * it loads none of these, itself or by the files it imports.
 * There is no list to keep: whoever adds a test that needs a server has to import one of them.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, posix, sep } from 'node:path';
import { scan } from '../walls/scan.ts';

/** What a test cannot do without when it needs a server or a process of its own: modules, and files from the root of the project. */
const MARKS: readonly string[] = [
  'node:child_process',
  'child_process',
  'playwright-core',
  'test/support/own-process.ts',
  'test/support/require.ts',
];

/** The test files of a project, from its root, in order of their paths. */
export interface Sorted {
  readonly quick: readonly string[];
  /** Each file that is not quick, with the imports that lead from it to one of the marks. */
  readonly others: ReadonlyMap<string, readonly string[]>;
}

/** Sorts all `test/**\/*.test.ts` under `root`. Throws when a file cannot be read. */
export function sortTests(root: string): Sorted {
  const imports = importsUnder(root);
  const quick: string[] = [];
  const others = new Map<string, readonly string[]>();
  for (const file of testFiles(root)) {
    const way = wayToMark(file, imports);
    if (way === undefined) quick.push(file);
    else others.set(file, way);
  }
  return { quick, others };
}

/** The shortest way from a file to a mark, both ends included; undefined when there is none. */
function wayToMark(start: string, imports: (file: string) => readonly string[]): readonly string[] | undefined {
  const from = new Map<string, string | undefined>([[start, undefined]]);
  for (const file of from.keys()) {
    if (MARKS.includes(file)) return wayBack(file, from);
    for (const name of imports(file)) if (!from.has(name)) from.set(name, file);
  }
  return undefined;
}

function wayBack(end: string, from: ReadonlyMap<string, string | undefined>): string[] {
  const way: string[] = [];
  for (let at: string | undefined = end; at !== undefined; at = from.get(at)) way.unshift(at);
  return way;
}

/** What a file of the project loads when it runs: files from the root, and names of modules. Modules load nothing. */
function importsUnder(root: string): (file: string) => readonly string[] {
  const known = new Map<string, readonly string[]>();
  return (file) => {
    const path = join(root, file);
    if (!/\.[cm]?[jt]s$/.test(file) || !existsSync(path)) return [];
    const found = known.get(file) ?? loadedBy(file, readFileSync(path, 'utf8'));
    known.set(file, found);
    return found;
  };
}

/** `import type` loads nothing. */
const TYPES_ONLY = /^(?:import|export) type\b[^;]*? from '[^']*';$/gm;

function loadedBy(file: string, source: string): readonly string[] {
  return scan(source.replace(TYPES_ONLY, ''))
    .filter(({ kind }) => kind === 'import')
    .map(({ name }) => (name.startsWith('.') ? posix.join(posix.dirname(file), name) : name));
}

function testFiles(root: string): string[] {
  return readdirSync(join(root, 'test'), { recursive: true, encoding: 'utf8' })
    .map((file) => `test/${file.split(sep).join('/')}`)
    .filter((file) => file.endsWith('.test.ts'))
    .sort();
}
