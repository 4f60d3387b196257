/** The Docker Engine of a chaos trial: killed and started again, and started again when it crashes, as its operator's init would. */

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { dockerdFiles } from '../../../transports/engines/docker/host/dockerd-files.ts';
import { shimsOf } from '../../../transports/engines/docker/host/dockerd-leftovers.ts';
import { startPrivateDockerd, stopPrivateDockerd } from '../../../transports/engines/docker/host/private-dockerd.ts';
import { isAlive } from '../../../transports/engines/docker/host/processes.ts';
import { BRIDGE_PREFIX } from '../../../transports/engines/docker/network.ts';
import { runProgram } from '../../../transports/engines/docker/run.ts';
import { silentLog } from '../log.ts';
import { pause } from '../pause.ts';
import { type Cleanup, tempDir } from '../temp.ts';
import { until } from '../until.ts';

/** A dockerd that may be killed. */
export interface TrialEngine {
  readonly host: string;
  /** SIGKILL, a pause, and a new start. Rejects when it does not come up. */
  killAndStart(pauseMs: number): Promise<void>;
  /** Starts it when it ended by itself. Resolves with how often that was so. */
  keep(): Promise<number>;
  /** Docker's ids of the containers that have a process, whatever dockerd knows of it. */
  tasks(): string[];
  /** What it said last, for people. */
  lastLines(): string;
}

/** Starts it in a folder of its own; everything of it goes when `t` ends, the bridges that it lost track of included. */
export async function trialEngine(t: Cleanup): Promise<TrialEngine> {
  const dataDir = await tempDir(t);
  const files = dockerdFiles(dataDir);
  const start = () => startPrivateDockerd({ dataDir, log: silentLog });
  let { host, pid } = await start();
  let starting: Promise<unknown> | undefined;
  let crashes = 0;
  t.after(async () => {
    await starting?.catch(() => {});
    await stopPrivateDockerd({ dataDir, log: silentLog, graceSeconds: 0 });
    await removeBridges(join(files.dataRoot, 'network/files'));
  });
  const begin = (): Promise<void> => {
    const begun = start().then((started) => {
      ({ host, pid } = started);
    });
    starting = begun;
    return begun.finally(() => {
      starting = undefined;
    });
  };
  return {
    host,
    killAndStart: async (pauseMs) => {
      if (isAlive(pid)) process.kill(pid, 'SIGKILL');
      await until(async () => !isAlive(pid), { what: 'dockerd dies' });
      await pause(pauseMs, 'fault');
      await begin();
    },
    keep: async () => {
      await starting?.catch(() => {});
      if (!isAlive(pid)) {
        crashes++;
        await begin();
      }
      return crashes;
    },
    tasks: () => withProcesses(files.execRoot),
    lastLines: () => {
      const said = readFileSync(files.logFile, 'utf8');
      const panic = said.lastIndexOf('panic: ');
      return `${isAlive(pid) ? 'runs' : 'has ended'}; ${panic < 0 ? '' : `it crashed: ${said.slice(panic, panic + 1500)}\n...\n`}${said.slice(-1500)}`;
    },
  };
}

/** By the shims of its containerd that have a child. */
function withProcesses(execRoot: string): string[] {
  return shimsOf(execRoot).flatMap((pid) => {
    const words = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim();
    return children === '' ? [] : (words[words.indexOf('-id') + 1] ?? []);
  });
}

/** A bridge outlives its dockerd, and one that dockerd was killed over is in no list: the file that dockerd keeps them in knows all. */
async function removeBridges(folder: string): Promise<void> {
  const names = readdirSync(folder).flatMap(
    (file) => readFileSync(join(folder, file), 'latin1').match(new RegExp(`${BRIDGE_PREFIX}[0-9a-f]{12}`, 'g')) ?? [],
  );
  for (const name of new Set(names)) await runProgram('ip', ['link', 'delete', name]);
}
