/** Files that come with this program. */
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The folder with package.json: above the sources, dist/ and the bundle alike. */
const root = find();

/** A file that comes with this program, by its path below the folder of package.json. */
export const packageFile = (path: string): string => join(root, path);

function find(): string {
  let dir = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(dir, 'package.json'))) {
    const parent = dirname(dir);
    if (parent === dir) throw new Error('package.json was not found above this file');
    dir = parent;
  }
  return dir;
}
