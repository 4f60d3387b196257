/**
 * Where the package lies, from the sources as from dist/: its files (migrations, image recipes) are found from here.
 */
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';

function find(): string {
  let dir = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(dir, 'package.json'))) {
    const parent = dirname(dir);
    if (parent === dir) throw new Error('package.json was not found above this file');
    dir = parent;
  }
  return dir;
}

/** The folder with package.json. */
export const packageRoot = find();

/** The version of this Troupe. */
export const version = z
  .object({ version: z.string() })
  .parse(JSON.parse(readFileSync(join(packageRoot, 'package.json'), 'utf8'))).version;
