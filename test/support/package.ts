/** The package as its users get it: packed by npm, and unpacked into a project of its own. */
import { execFile } from 'node:child_process';
import { mkdir, symlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { projectRoot } from './project.ts';
import { type Cleanup, tempDir } from './temp.ts';

const run = promisify(execFile);
const TSC = join(projectRoot, 'node_modules/typescript/bin/tsc');

/** How a program ended, and what it printed. */
export interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs node in `folder` with these arguments. */
export async function runNode(folder: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<Ended> {
  try {
    // Not as a part of the test that runs it: what it prints is for people.
    const options = { cwd: folder, env: { ...process.env, NODE_TEST_CONTEXT: undefined, ...env }, timeout: 60_000 };
    return { code: 0, ...(await run(process.execPath, [...args], options)) };
  } catch (error) {
    if (!(error instanceof Error && 'stdout' in error && 'stderr' in error)) throw error;
    const code = 'code' in error && typeof error.code === 'number' ? error.code : 1;
    return { code, stdout: String(error.stdout), stderr: String(error.stderr) };
  }
}

/** Checks the types of the project in `folder`, and builds it as its tsconfig.json says. */
export function compile(folder: string): Promise<Ended> {
  return runNode(folder, [TSC, '-p', 'tsconfig.json']);
}

/** An empty project with the package installed, and nothing that it depends on. Returns its folder. */
export async function projectWithPackage(t: Cleanup): Promise<string> {
  const folder = await tempDir(t);
  const installed = join(folder, 'node_modules/troupe');
  await mkdir(installed, { recursive: true });
  // What prepack does, but without building the sources a second time: other tests are running what was built.
  await run(process.execPath, [TSC, '-p', 'tsconfig.package.json'], { cwd: projectRoot });
  const pack = ['pack', '--ignore-scripts', '--json', '--pack-destination', folder];
  const { stdout } = await run('npm', pack, { cwd: projectRoot });
  const file = /"filename": "([^"]+)"/.exec(stdout)?.[1];
  if (file === undefined) throw new Error(`npm pack named no file: ${stdout}`);
  await run('tar', ['-xzf', join(folder, file), '-C', installed, '--strip-components=1']);
  return folder;
}

/** Adds packages to the project that are installed here already. */
export async function addPackages(folder: string, names: readonly string[]): Promise<void> {
  for (const name of names) {
    const link = join(folder, 'node_modules', name);
    await mkdir(dirname(link), { recursive: true });
    await symlink(join(projectRoot, 'node_modules', name), link);
  }
}
