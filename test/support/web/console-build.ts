/** The console as it was built. */
import { existsSync } from 'node:fs';
import { cp, mkdir, symlink } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { projectRoot } from '../project.ts';
import { skipUnless } from '../require.ts';
import { type Cleanup, tempDir } from '../temp.ts';

const folder = join(projectRoot, 'dist/console');

/** Where it is, and what to put into a test's `skip` option. */
export const buildOfConsole: { readonly folder: string; readonly skip: string | false } = {
  folder,
  skip: skipUnless(existsSync(join(folder, 'index.html')), 'the console is not built: npm run build'),
};

const COPIED = ['actors', 'bin', 'client', 'cmd', 'deploy', 'lib', 'proto', 'storage', 'supervision', 'transports'];

/**
 * The same platform with a console in which each file has another name, as that of the next version has. Returns what Node
 * runs in place of this one's program.
 */
export async function nextVersion(t: Cleanup): Promise<string[]> {
  // Large, and needed here only.
  const { build } = await import('vite');
  const root = await tempDir(t);
  const isCompiled = import.meta.url.endsWith('.js');
  for (const part of COPIED) {
    await cp(join(projectRoot, part), join(root, part), { recursive: true });
    if (isCompiled && existsSync(join(projectRoot, 'dist', part)))
      await cp(join(projectRoot, 'dist', part), join(root, 'dist', part), { recursive: true });
  }
  await cp(join(projectRoot, 'package.json'), join(root, 'package.json'));
  await symlink(join(projectRoot, 'node_modules'), join(root, 'node_modules'));
  await mkdir(join(root, 'dist'), { recursive: true });
  await build({
    configFile: join(projectRoot, 'web/vite.config.ts'),
    logLevel: 'warn',
    build: {
      outDir: relative(join(projectRoot, 'web'), join(root, 'dist/console')),
      rolldownOptions: {
        output: {
          entryFileNames: 'assets/[name]-next-[hash].js',
          chunkFileNames: 'assets/[name]-next-[hash].js',
        },
      },
    },
  });
  return isCompiled ? [join(root, 'dist/cmd/main.js')] : ['--import', 'tsx', join(root, 'cmd/main.ts')];
}
