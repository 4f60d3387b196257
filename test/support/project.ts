/** Where the project lies, for sources and for the built tests in dist/ alike. */
import { existsSync } from 'node:fs';
import { dirname, extname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

/** Absolute path of the folder with package.json. */
export const projectRoot: string = findRoot(dirname(fileURLToPath(import.meta.url)));

/** A file of test/support as this process runs it, source or built: its path there, without an extension. */
export function supportFile(name: string): string {
  return fileURLToPath(new URL(`./${name}${extname(import.meta.url)}`, import.meta.url));
}

/** Arguments of node that run a file of test/support as a program. */
export function supportProgram(name: string): readonly string[] {
  const file = supportFile(name);
  return file.endsWith('.ts') ? ['--import', 'tsx', file] : [file];
}

/** Arguments of node that load a file of test/support/preload into a process under test. */
export function preloaded(name: string): readonly string[] {
  return ['--import', pathToFileURL(supportFile(`preload/${name}`)).href];
}

function findRoot(folder: string): string {
  if (existsSync(join(folder, 'package.json'))) return folder;
  const parent = dirname(folder);
  if (parent === folder) throw new Error('No package.json above this file.');
  return findRoot(parent);
}
