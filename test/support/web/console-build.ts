/** The console as it was built. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot } from '../project.ts';
import { skipUnless } from '../require.ts';

const folder = join(projectRoot, 'dist/console');

/** Where it is, and what to put into a test's `skip` option. */
export const buildOfConsole: { readonly folder: string; readonly skip: string | false } = {
  folder,
  skip: skipUnless(existsSync(join(folder, 'index.html')), 'the console is not built: npm run build'),
};
