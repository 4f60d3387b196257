/** Which test files a run has, and on which day. */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** Within so many days each file of the rest has its turn. */
export const TURN_DAYS = 14;

const NEVER = Number.POSITIVE_INFINITY;
/** Files on a cluster have their turn on so many of these days: its programs take long to build. */
const CLUSTER_DAYS = 2;

/** A file that imports this has a process of its own. */
const OWN_PROCESS = 'dist/test/support/own-process.js';
/** A file that imports one of these starts platforms, containers or a browser: it takes minutes, so it begins first. */
const TAKES_LONG = [
  'dist/test/support/cluster/platform.js',
  'dist/test/support/cluster/setup.js',
  'dist/test/support/engine/docker-client.js',
  'dist/test/support/engine/docker-under-test.js',
  'dist/test/support/readme/machine.js',
  'dist/test/support/web/served-console.js',
];
/** A file that imports this needs the programs of a Kubernetes cluster. */
const CLUSTER_PROGRAMS = 'dist/test/support/kubernetes/programs.js';

/**
 * All test files of a project, by tier. Goes by the sources, so that a file that was deleted but is still in dist/ does not run.
 * Throws when one was not built.
 *
 * `quick` need no server, `standard` are the others of `npm test`, `rest` those that only `npm run test:all` has: `*.long.test.ts`, and those that need
 * a Kubernetes cluster. Each is `{ source, built, alone, onCluster }`: paths from `root`, whether it needs a process of its own, and a cluster.
 */
export async function sortTests(root) {
  const { sortTests: byServers } = await import(join(root, 'dist/test/quick/rule.js'));
  const quick = new Set(byServers(root).quick);
  const graph = importsOf(root);
  const tiers = { quick: [], standard: [], rest: [] };
  for (const source of testSources(root)) {
    const built = `dist/${source.replace(/\.ts$/, '.js')}`;
    if (!existsSync(join(root, built))) throw new Error(`${source} is not built: run npm run build`);
    const distances = distancesFrom(built, graph);
    const onCluster = distances.has(CLUSTER_PROGRAMS);
    const test = { source, built, onCluster, alone: distances.has(OWN_PROCESS), distances };
    if (onCluster || source.endsWith('.long.test.ts')) tiers.rest.push(test);
    else if (quick.has(source)) tiers.quick.push(test);
    else tiers.standard.push(test);
  }
  tiers.standard.sort((a, b) => Number(takesLong(b)) - Number(takesLong(a)));
  return tiers;
}

/**
 * The order in which the rest has its turn on a day: what changed itself, then what has its turn on this day, then what imports something that
 * changed, the nearest first. Files on a cluster run on the day of their turn only. `day`: of the year. `changed`: sources. Returns `{ turn, later }`; of `later`, each has the `day` of its turn.
 */
export function turnOf(rest, day, changed) {
  const byHash = rest.toSorted((a, b) => (hashOf(a.source) < hashOf(b.source) ? -1 : 1));
  const today = day % TURN_DAYS;
  const changedBuilt = changed.map((file) => `dist/${file.replace(/\.tsx?$/, '.js')}`);
  const ranked = byHash.map((test, i) => {
    const distance = Math.min(...changedBuilt.map((file) => test.distances.get(file) ?? NEVER));
    const slot = test.onCluster ? (i % CLUSTER_DAYS) * (TURN_DAYS / CLUSTER_DAYS) : i % TURN_DAYS;
    const daysLeft = (slot - today + TURN_DAYS) % TURN_DAYS;
    const rank = daysLeft === 0 ? 1 : distance === 0 && !test.onCluster ? 0 : test.onCluster ? NEVER : 1 + distance;
    return { test, rank, daysLeft };
  });
  const turn = ranked.filter(({ rank }) => rank < NEVER).sort((a, b) => a.rank - b.rank);
  const later = ranked.filter(({ daysLeft }) => daysLeft > 0);
  return { turn: turn.map(({ test }) => test), later: later.map(({ test, daysLeft }) => ({ ...test, daysLeft })) };
}

function takesLong({ distances }) {
  return TAKES_LONG.some((file) => distances.has(file));
}

function hashOf(text) {
  return createHash('sha256').update(text).digest('hex');
}

function testSources(root) {
  return readdirSync(join(root, 'test'), { recursive: true })
    .map((file) => `test/${file}`)
    .filter((file) => file.endsWith('.test.ts'))
    .sort();
}

/** A function that gives the project's built files which a built file imports, all as paths from the root. */
function importsOf(root) {
  const known = new Map();
  return (file) => {
    const found = known.get(file) ?? readImports(root, file);
    known.set(file, found);
    return found;
  };
}

function readImports(root, file) {
  if (!existsSync(join(root, file))) return [];
  const imports = readFileSync(join(root, file), 'utf8').matchAll(/(?:from|import|import\() ?'(\.[^']+)'/g);
  return [...imports].map(([, path]) => join(dirname(file), path));
}

/** How many imports lead from a file to each that it loads. */
function distancesFrom(start, graph) {
  const distances = new Map([[start, 0]]);
  for (const [file, distance] of distances) {
    for (const next of graph(file)) if (!distances.has(next)) distances.set(next, distance + 1);
  }
  return distances;
}
