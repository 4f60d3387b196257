/** What `troupe doctor` finds of a platform that runs on the data folder, or of the ports that one would take. */
import { z } from 'zod';
import { CliError } from '../config/cli-error.ts';
import { portsWith } from '../config/config.ts';
import { hint } from '../config/hints.ts';
import { readRunning } from '../config/running.ts';
import type { Finding } from './finding.ts';
import { takenPorts, wordsOf } from './free-ports.ts';

const healthSchema = z.object({ problems: z.array(z.string()).min(1) });

/** How long a service may take to answer, ms. */
const TIMEOUT_MS = 5000;

/** The health of what runs; where nothing does, whether the ports are free. */
export async function doctorRunning(dataDir: string, listen: string, portOffset: number): Promise<Finding[]> {
  const running = runningOf(dataDir);
  if (running instanceof CliError) return [{ name: 'Platform', ok: false, what: running.message }];
  if (running !== undefined) {
    const found = await Promise.all(Object.entries(running.urls).map(([name, url]) => healthOf(name, url, dataDir)));
    // One that was killed left its note: what it had is free again.
    if (found.some(({ answers }) => answers)) return found.map(({ finding }) => finding);
  }
  const taken = await takenPorts(listen, portsWith(portOffset));
  const runs: Finding = { name: 'Platform', ok: true, what: 'not running' };
  if (taken.length === 0) return [runs, { name: 'Ports', ok: true, what: `all free on ${listen}` }];
  const what = wordsOf(taken).replaceAll('\n', ' ');
  return [runs, { name: 'Ports', ok: false, what, how: 'stop what uses them, or start with --port-offset N' }];
}

function runningOf(dataDir: string): ReturnType<typeof readRunning> | CliError {
  try {
    return readRunning(dataDir);
  } catch (error) {
    if (error instanceof CliError) return error;
    throw error;
  }
}

async function healthOf(
  service: string,
  url: string,
  dataDir: string,
): Promise<{ readonly answers: boolean; readonly finding: Finding }> {
  const name = `Platform, ${service}`;
  try {
    const response = await fetch(`${url}/healthz`, { signal: AbortSignal.timeout(TIMEOUT_MS) });
    const { status } = response;
    if (status === 200) return { answers: true, finding: { name, ok: true, what: `runs and is well at ${url}` } };
    const body = healthSchema.safeParse(await response.json().catch(() => undefined));
    const why = body.success ? body.data.problems.join('; ') : `its health page answers ${status}`;
    return { answers: true, finding: { name, ok: false, what: `runs at ${url}, but is not well: ${why}` } };
  } catch {
    const how = `start it again: ${hint('up', dataDir)}`;
    return { answers: false, finding: { name, ok: false, what: `does not answer at ${url}`, how } };
  }
}
