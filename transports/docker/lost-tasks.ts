import { existsSync } from 'node:fs';
import type { RunScript } from './run.ts';

/** Ids in one script: it is one argument of sh(1), which Linux bounds at 128 KiB. */
const idsAtOnce = 1000;

/** The two ways to the processes of Docker's machine. */
export interface ProcessWays {
  /** On this machine, which may not be Docker's; undefined when this process is not root. */
  readonly direct: RunScript | undefined;
  /** Through Docker. */
  readonly helper: RunScript;
}

/**
 * Ends what containerd runs of containers and dockerd, which was killed while it started them, knows nothing of: nobody else can stop it,
 * and it would go on beside whatever is started next. Only for containers that Docker takes for stopped, by Docker's own ids.
 */
export class LostTasks {
  readonly #ways: ProcessWays;

  constructor(ways: ProcessWays) {
    this.#ways = ways;
  }

  /** `bridge`: of one of Docker's networks, which tells whether this is Docker's machine. Resolves in any case. */
  async end(dockerIds: readonly string[], bridge: string | undefined): Promise<void> {
    const { direct, helper } = this.#ways;
    const isHere = bridge !== undefined && existsSync(`/sys/class/net/${bridge}`);
    await run(isHere && direct !== undefined ? direct : helper, dockerIds);
  }

  /** The same where it costs a moment only, that is on this machine. */
  async endHere(dockerIds: readonly string[]): Promise<void> {
    if (this.#ways.direct !== undefined) await run(this.#ways.direct, dockerIds);
  }
}

async function run(way: RunScript, dockerIds: readonly string[]): Promise<void> {
  const ids = dockerIds.filter((id) => /^[0-9a-f]{64}$/.test(id));
  for (let first = 0; first < ids.length; first += idsAtOnce) {
    // What cannot be ended shows when its container is started.
    await way(endTasksScript(ids.slice(first, first + idsAtOnce))).catch(() => undefined);
  }
}

/** Ends every process whose control group bears one of the ids. For sh(1), on Docker's machine. */
function endTasksScript(ids: readonly string[]): string {
  return [
    `for group in $(printf '%s\\n' ${ids.join(' ')} | grep -lFf - /proc/[0-9]*/cgroup 2>/dev/null); do`,
    '  kill -9 "$(echo "$group" | cut -d / -f 3)" 2>/dev/null',
    'done',
  ].join('\n');
}
