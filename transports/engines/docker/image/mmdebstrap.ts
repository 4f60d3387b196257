import { type ChildProcess, spawn } from 'node:child_process';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { errorText } from '../../../../lib/errors.ts';
import { EngineError } from '../../../../proto/ports/engine.ts';
import { toEngineError } from '../../common/calls.ts';
import { missingBuilders } from '../host/install-docker.ts';
import { signalTo } from '../host/processes.ts';
import { findProgram, isRoot, LineTail, SYSTEM_PATH } from '../run.ts';
import type { DebianRecipe } from './debian-recipe.ts';

/** How mmdebstrap (1.3) begins its steps, in order; how far along each is on a common machine; our name for it. */
const steps: readonly (readonly [begins: string, percent: number, name: string])[] = [
  ['running apt-get update', 2, 'reading package lists'],
  ['downloading packages with apt', 10, 'downloading packages'],
  ['extracting archives', 15, 'unpacking the core system'],
  ['installing essential packages', 22, 'setting up the core system'],
  ['installing remaining packages', 45, 'installing packages'],
  ['cleaning package lists', 84, 'cleaning up'],
  ['creating tarball', 86, 'importing the image'],
];

/**
 * Builds a Debian root file system and hands `use` its tar archive as a stream, which ends only when the build has
 * succeeded: a failed build breaks it, so nobody takes half a system for a whole one. Resolves when `use` has. Rejects
 * with EngineError `refused` when mmdebstrap or what it takes is not installed, else `unavailable` with its last lines.
 * Removes its temporary folder. `what` names the image in all that it says, such as "base image".
 */
export async function debianRootArchive(
  what: string,
  recipe: DebianRecipe,
  onProgress: (line: string) => void,
  signal: AbortSignal,
  use: (archive: Readable) => Promise<void>,
): Promise<void> {
  const program = findProgram('mmdebstrap');
  const missing = missingBuilders();
  if (program === undefined || missing.length > 0) {
    throw new EngineError('refused', `The ${what} is built with mmdebstrap: apt-get install ${missing.join(' ')}`);
  }
  const folder = await mkdtemp(join(tmpdir(), 'troupe-base-'));
  // Without root, mmdebstrap works in it as users of a namespace, who are others here.
  if (!isRoot()) await chmod(folder, 0o711);
  let build: Build | undefined;
  try {
    const args = await writeInputs(folder, recipe);
    build = startBuild({ what, program, args, folder }, onProgress, signal);
    await use(build.archive);
    onProgress(`100% ${what} ready`);
  } catch (error) {
    // Why the build failed says more than that its stream broke.
    throw toEngineError(build?.failure() ?? error);
  } finally {
    await build?.end();
    await rm(folder, { recursive: true, force: true, maxRetries: 3 });
  }
}

async function writeInputs(folder: string, recipe: DebianRecipe): Promise<string[]> {
  const sources = join(folder, 'sources.list');
  const files = join(folder, 'files.tar');
  if (recipe.sources !== undefined) await writeFile(sources, recipe.sources);
  await writeFile(files, recipe.files);
  const options = ['--variant=minbase', '--format=tar', `--include=${recipe.packages.join(',')}`];
  // By file: a proxy's password has no place in the list of processes. What is no root's, everybody can ask apt for.
  const settings = join(folder, 'apt.conf');
  await writeFile(settings, `${[RETRIES, ...recipe.buildSettings].join('\n')}\n`, { mode: isRoot() ? 0o600 : 0o644 });
  options.push(`--aptopt=${settings}`);
  options.push(...recipe.dpkgOptions.map((option) => `--dpkgopt=${option}`));
  options.push(...recipe.firstSteps.map((step) => `--essential-hook=${step}`));
  options.push(`--customize-hook=tar-in ${files} /`, ...recipe.lastSteps.map((step) => `--customize-hook=${step}`));
  return [...options, recipe.suite, '-', ...(recipe.sources === undefined ? [] : [sources])];
}

/** A mirror that fails one of hundreds of requests is asked again (apt.conf(5)). */
const RETRIES = 'Acquire::Retries "3";';

interface Build {
  readonly archive: Readable;
  /** Why it failed, once it has. */
  failure(): EngineError | undefined;
  /** Kills what still runs; resolves when nothing does. */
  end(): Promise<void>;
}

function startBuild(
  {
    what,
    program,
    args,
    folder,
  }: { readonly what: string; readonly program: string; readonly args: readonly string[]; readonly folder: string },
  onProgress: (line: string) => void,
  signal: AbortSignal,
): Build {
  // As root mmdebstrap mounts /proc and /dev into the new root. In a mount and process namespace of its own nothing of
  // that can be left behind, or be deleted through, however it is killed (unshare(1)).
  const unshare = isRoot() ? findProgram('unshare') : undefined;
  const [command, commandArgs]: [string, readonly string[]] =
    unshare === undefined
      ? [program, args]
      : [unshare, ['--mount', '--pid', '--fork', '--kill-child', '--mount-proc', '--', program, ...args]];
  const child = spawn(command, commandArgs, {
    cwd: '/',
    detached: true,
    env: { PATH: SYSTEM_PATH, LC_ALL: 'C.UTF-8', HOME: folder, TMPDIR: folder },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const started = Date.now();
  const tail = new LineTail(15, (line) => {
    const step = steps.find(([begins]) => line.startsWith(`I: ${begins}`));
    if (step !== undefined) onProgress(`${step[1]}% ${step[2]} (${Math.round((Date.now() - started) / 1000)} s)`);
  });
  child.stderr.setEncoding('utf8').on('data', tail.push);
  let failure: EngineError | undefined;
  const ended = new Promise<void>((resolve) => {
    const fail = (reason: string, cause?: unknown): void => {
      failure ??= new EngineError('unavailable', `The ${what} cannot be built: ${reason}`, { cause });
    };
    child.once('error', (cause) => {
      fail(errorText(cause), cause);
      resolve();
    });
    child.once('close', (code) => {
      tail.end();
      const errors = tail.lines.filter((line) => /^E: /.test(line));
      if (signal.aborted) fail('it was given up.');
      else if (code !== 0)
        fail((errors.length > 0 ? errors : tail.lines).slice(-3).join(' ') || `mmdebstrap ended with ${code}.`);
      resolve();
    });
  });
  const kill = (): void => killGroup(child, unshare === undefined ? 'SIGTERM' : 'SIGKILL');
  if (signal.aborted) kill();
  signal.addEventListener('abort', kill, { once: true });

  async function* archive(): AsyncGenerator<Buffer> {
    for await (const chunk of child.stdout) yield chunk;
    await ended;
    if (failure !== undefined) throw failure;
  }
  return {
    archive: Readable.from(archive(), { objectMode: false }),
    failure: () => failure,
    end: async () => {
      signal.removeEventListener('abort', kill);
      kill();
      child.stdout.resume();
      await ended;
    },
  };
}

function killGroup(child: ChildProcess, signal: NodeJS.Signals): void {
  if (child.pid !== undefined && child.exitCode === null && child.signalCode === null) signalTo(-child.pid, signal);
}
