/** What other commands need to find the platform that runs on a data folder: a file that `up` keeps while it serves. */
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { isCode } from '../../lib/errors.ts';
import { CliError } from './cli-error.ts';
import { hint } from './hints.ts';

const runningSchema = z.object({
  urls: z.object({ auth: z.url(), compute: z.url(), net: z.url(), monitor: z.url(), notify: z.url() }),
});
type Running = z.output<typeof runningSchema>;

const fileIn = (dataDir: string) => join(dataDir, 'up.json');

/** Says where the platform is; returns how to take it back. */
export function announce(dataDir: string, running: Running): () => void {
  writeFileSync(fileIn(dataDir), `${JSON.stringify(running)}\n`, { mode: 0o600 });
  return () => rmSync(fileIn(dataDir), { force: true });
}

/** Where the platform of this folder is; undefined when none runs. Throws CliError when that may not be read. */
export function readRunning(dataDir: string): Running | undefined {
  try {
    return runningSchema.parse(JSON.parse(readFileSync(fileIn(dataDir), 'utf8')));
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
