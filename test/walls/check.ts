/** Checks the house rules on imports over a whole tree. `npm run check:walls` runs it. */
import { existsSync, readdirSync, readFileSync, realpathSync } from 'node:fs';
import { posix, relative, resolve, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { projectRoot } from '../support/project.ts';
import { type Edge, findCircles } from './circles.ts';
import { oddLines } from './idioms.ts';
import { environmentOutside, libraryOutside, misplaced, networkOutside, ROOMS, wallBetween } from './rules.ts';
import { scan } from './scan.ts';
import { foreignTables } from './tables.ts';
import { formerWords } from './words.ts';

/** One thing that is not as it should be. */
export interface Finding {
  /** Path from the root, with `/`. */
  readonly file: string;
  /** From 1. */
  readonly line: number;
  readonly rule:
    | 'wall'
    | 'circle'
    | 'library'
    | 'environment'
    | 'network'
    | 'length'
    | 'idiom'
    | 'place'
    | 'table'
    | 'word';
  readonly message: string;
}

const MAX_LINES = 400;

/** All findings in the rooms under `root`, by file and line. Files that cannot be read throw. */
export function checkWalls(root: string): Finding[] {
  const edges: Edge[] = [];
  const findings = sourceFiles(root).flatMap((file): Finding[] => {
    const source = readFileSync(resolve(root, file), 'utf8');
    const found = scan(source).flatMap(({ kind, name, line }): Finding[] => {
      const error = (rule: Finding['rule'], message: string | undefined): Finding[] =>
        message === undefined ? [] : [{ file, line, rule, message }];
      if (kind === 'environment') return error('environment', environmentOutside(file));
      if (kind === 'network') return error('network', networkOutside(file, name));
      if (!name.startsWith('.')) return error('library', libraryOutside(file, name));
      const to = posix.join(posix.dirname(file), name);
      edges.push({ from: file, to, line });
      const wall = wallBetween(file, to);
      return error('wall', wall === undefined ? undefined : `imports ${to}, but ${wall}`);
    });
    const odd = oddLines(file, source).map((found): Finding => ({ file, rule: 'idiom', ...found }));
    const message = misplaced(file);
    const place: Finding[] = message === undefined ? [] : [{ file, line: 1, rule: 'place', message }];
    const tables = foreignTables(file, source).map((found): Finding => ({ file, rule: 'table', ...found }));
    const words = formerWords(file, source).map((former): Finding => ({ file, rule: 'word', ...former }));
    return [...found, ...odd, ...place, ...tables, ...words, ...tooLong(file, source)];
  });
  const circles = findCircles(edges).map(([first, ...rest]): Finding => {
    const names = [first, ...rest].map((edge) => edge?.from);
    const message = `imports in a circle: ${[...names, first?.from].join(' -> ')}`;
    return { file: first?.from ?? '', line: first?.line ?? 1, rule: 'circle', message };
  });
  return [...findings, ...circles].sort((a, b) => a.file.localeCompare(b.file) || a.line - b.line);
}

function tooLong(file: string, source: string): Finding[] {
  const lines = source.split('\n').length - 1;
  if (lines <= MAX_LINES || /^(test|bench)\/|\/generated\//.test(file)) return [];
  const message = `has ${lines} lines, more than ${MAX_LINES}: split it by noun`;
  return [{ file, line: lines, rule: 'length', message }];
}

/** Every .ts and .tsx file of the rooms, as paths from the root. */
export function sourceFiles(root: string): string[] {
  return ROOMS.filter((room) => existsSync(resolve(root, room)))
    .flatMap((room) =>
      readdirSync(resolve(root, room), { recursive: true, encoding: 'utf8' }).map((file) => `${room}/${file}`),
    )
    .map((file) => file.split(sep).join('/'))
    .filter((file) => /\.tsx?$/.test(file) && !/(^|\/)(node_modules|dist)\//.test(file))
    .sort();
}

/** Prints the findings of the project, or of the tree given as argument; exit code 1 when there is one. */
function main(): void {
  const root = resolve(process.argv[2] ?? projectRoot);
  const findings = checkWalls(root);
  for (const { file, line, rule, message } of findings) {
    process.stdout.write(`${relative('.', resolve(root, file))}:${line}: error: ${rule}: ${message}\n`);
  }
  const errors = findings.length;
  process.stdout.write(errors === 0 ? 'The walls stand.\n' : `${errors} walls are broken.\n`);
  process.exitCode = errors === 0 ? 0 : 1;
}

if (process.argv[1] !== undefined && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) main();
