/** What other commands need to find the platform that runs on a data folder: a file that `up` keeps while it serves. */
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { CliError } from './cli-error.ts';
import { isCode } from './data-dir.ts';

const runningSchema = z.object({ urls: z.object({ auth: z.url(), compute: z.url() }) });
type Running = z.output<typeof runningSchema>;

const fileIn = (dataDir: string) => join(dataDir, 'up.json');

/** Says where the platform is; returns how to take it back. */
export function announce(dataDir: string, running: Running): () => void {
  writeFileSync(fileIn(dataDir), `${JSON.stringify(running)}\n`, { mode: 0o600 });
  return () => rmSync(fileIn(dataDir), { force: true });
}

/** Where the platform of this folder is. Throws CliError when none runs. */
export function findRunning(dataDir: string): Running {
  try {
    return runningSchema.parse(JSON.parse(readFileSync(fileIn(dataDir), 'utf8')));
  } catch (cause) {
    if (!isCode(cause, 'ENOENT') && !(cause instanceof z.ZodError) && !(cause instanceof SyntaxError)) throw cause;
    throw new CliError(
      `No Troupe runs on ${dataDir}. Start it with \`troupe up\`, or name its folder with --data DIR.`,
      { cause },
    );
  }
}
