/**
 * The platform that runs on a data folder: the lock that it holds, and the file that tells other commands where it is.
 */
import { linkSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { isCode } from '../../lib/errors.ts';
import { CliError } from './cli-error.ts';
import { hint } from './program.ts';

const runningSchema = z.object({
  urls: z.object({ auth: z.url(), compute: z.url(), net: z.url(), monitor: z.url(), notify: z.url() }),
});
type Running = z.output<typeof runningSchema>;

/** `console` is null when it was not built. */
const entranceSchema = z.object({ urls: z.object({ console: z.url().nullish(), https: z.url() }) });

const fileIn = (dataDir: string) => join(dataDir, 'up.json');

/** Says where the platform is; returns how to take it back. */
export function announce(dataDir: string, running: Running): () => void {
  writeFileSync(fileIn(dataDir), `${JSON.stringify(running)}\n`, { mode: 0o600 });
  return () => rmSync(fileIn(dataDir), { force: true });
}

/** Where the platform of this folder is; undefined when none runs. Throws CliError when that may not be read. */
export function readRunning(dataDir: string): Running | undefined {
  return read(dataDir, runningSchema);
}

/** Where the platform of this folder is opened in a browser; undefined when none runs. Throws as `readRunning`. */
export function runningConsole(dataDir: string): string | undefined {
  const urls = read(dataDir, entranceSchema)?.urls;
  return urls?.console ?? urls?.https;
}

function read<S extends z.ZodType>(dataDir: string, schema: S): z.output<S> | undefined {
  try {
    return schema.parse(JSON.parse(readFileSync(fileIn(dataDir), 'utf8')));
  } catch (cause) {
    if (isCode(cause, 'EACCES'))
      throw new CliError(`You may not read ${fileIn(dataDir)}: run the command as the user who runs Troupe.`, {
        cause,
      });
    if (!isCode(cause, 'ENOENT') && !(cause instanceof z.ZodError) && !(cause instanceof SyntaxError)) throw cause;
    return undefined;
  }
}

/** The same. Throws CliError when none runs, too. */
export function findRunning(dataDir: string): Running {
  const running = readRunning(dataDir);
  if (running !== undefined) return running;
  throw new CliError(
    `No Troupe runs on ${dataDir}. Start it with ${hint('up', dataDir)}, or name its folder with --data DIR.`,
  );
}

/** What `up` says to do when another one holds the folder. */
const STOP_OR_APART =
  'Stop it first, or give this one its own folder with --data DIR and other ports with --port-offset N.';

/**
 * Takes the folder's lock; returns how to give it back. Throws CliError while another living process holds it, with
 * `advice` on what to do about it.
 */
export function lockDataDir(dir: string, advice: string = STOP_OR_APART): () => void {
  const path = join(dir, 'up.lock');
  const mine = identity(process.pid);
  const draft = `${path}.${process.pid}`;
  for (let attempt = 0; ; attempt++) {
    writeFileSync(draft, `${process.pid} ${mine}\n`, { mode: 0o600 });
    try {
      // A link is made whole or not at all, so of two starts at once only one gets it.
      linkSync(draft, path);
      return () => {
        if (holder(path)?.pid === process.pid) rmSync(path, { force: true });
      };
    } catch (error) {
      if (!isCode(error, 'EEXIST')) throw error;
      const held = holder(path);
      if (held !== undefined && identity(held.pid) === held.identity && attempt < 3) {
        throw new CliError(`Troupe already runs on ${dir} (process ${held.pid}). ${advice}`);
      }
      rmSync(path, { force: true });
    } finally {
      rmSync(draft, { force: true });
    }
  }
}

function holder(path: string): { pid: number; identity: string } | undefined {
  try {
    const [pid = '', id = ''] = readFileSync(path, 'utf8').trim().split(' ');
    return /^[0-9]+$/.test(pid) ? { pid: Number(pid), identity: id } : undefined;
  } catch (error) {
    if (isCode(error, 'ENOENT')) return undefined;
    throw error;
  }
}

/** Tells a process from a later one with its number: the kernel's start time. Empty for none, and for a zombie. */
function identity(pid: number): string {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The command, in parentheses, may hold spaces; the fields after it do not. proc(5): state is field 3, start time
    // 22.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return fields[0] === 'Z' ? '' : (fields[19] ?? '');
  } catch {
    return '';
  }
}
