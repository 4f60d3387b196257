/** This program: its files and version, where its data is, and the commands that sentences tell people to type next. */
import { readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { delimiter, join, relative } from 'node:path';
import { isExecutable } from '../../lib/executable.ts';
import { packageFile } from '../../lib/package-file.ts';
import { shellWord } from '../../lib/shell-word.ts';

/** The version of this Troupe. Without zod, which takes longer to load than most commands take. */
export const version = versionIn(JSON.parse(readFileSync(packageFile('package.json'), 'utf8')));

/** Where `npm run build` puts the console. */
export const consoleFolder = packageFile('dist/console');

function versionIn(manifest: unknown): string {
  const isKnown = typeof manifest === 'object' && manifest !== null && 'version' in manifest;
  if (!isKnown || typeof manifest.version !== 'string') throw new Error('package.json names no version');
  return manifest.version;
}

/**
 * TROUPE_DATA, else /var/lib/troupe for root and the user's data folder for others (XDG base directory specification).
 */
export function defaultDataDir(env: Readonly<Record<string, string | undefined>>): string {
  if (env.TROUPE_DATA) return env.TROUPE_DATA;
  if (process.getuid?.() === 0) return '/var/lib/troupe';
  return join(env.XDG_DATA_HOME || join(homedir(), '.local', 'share'), 'troupe');
}

/**
 * `troupe <words>` between backticks, with the `--data` that is in use unless every shell would find that folder by
 * itself. A shell that has TROUPE_DATA set is not every shell.
 */
export function hint(words: string, data: string): string {
  return `\`${commandLine(words, data)}\``;
}

/** The same without marks, for a line of its own. */
export function commandLine(words: string, data: string): string {
  const option =
    data === defaultDataDir({ ...process.env, TROUPE_DATA: undefined }) ? '' : ` --data ${shellWord(data)}`;
  return `${programName()} ${words}${option}`;
}

/** `troupe` where the shell finds it, else the path of bin/troupe. */
export function programName(): string {
  const folders = (process.env.PATH ?? '').split(delimiter).filter((folder) => folder !== '');
  if (folders.some((folder) => isExecutable(join(folder, 'troupe')))) return 'troupe';
  const path = packageFile('bin/troupe');
  const near = relative(process.cwd(), path);
  return near.startsWith('..') ? shellWord(path) : `./${near}`;
}
