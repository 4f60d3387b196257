/** Commands that sentences tell people to type next: as they stand, they work where they are read. */
import { delimiter, join, relative } from 'node:path';
import { isExecutable } from '../../lib/executable.ts';
import { defaultDataDir } from './default-data-dir.ts';
import { packageRoot } from './package-root.ts';

/**
 * `troupe <words>` between backticks, with the `--data` that is in use unless every shell would find that folder by
 * itself. A shell that has TROUPE_DATA set is not every shell.
 */
export function hint(words: string, data: string): string {
  const option = data === defaultDataDir({ ...process.env, TROUPE_DATA: undefined }) ? '' : ` --data ${quoted(data)}`;
  return `\`${programName()} ${words}${option}\``;
}

/** `troupe` where the shell finds it, else the path of bin/troupe. */
export function programName(): string {
  const folders = (process.env.PATH ?? '').split(delimiter).filter((folder) => folder !== '');
  if (folders.some((folder) => isExecutable(join(folder, 'troupe')))) return 'troupe';
  const path = join(packageRoot, 'bin', 'troupe');
  const near = relative(process.cwd(), path);
  return near.startsWith('..') ? quoted(path) : `./${near}`;
}

/** The word as a shell takes it. */
function quoted(word: string): string {
  return /^[\w./:@%+=,-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
