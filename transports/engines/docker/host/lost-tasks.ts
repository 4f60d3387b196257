import { existsSync } from 'node:fs';
import type { Naming } from '../naming.ts';
import type { RunScript, ScriptWays } from '../run.ts';

/** One script is one argument of sh(1), which Linux bounds at 128 KiB. */
const LONGEST_SCRIPT = 120_000;
/** As much of Docker's ids as tells them apart. */
const ID_LENGTH = 24;

/**
 * Ends what containerd runs of containers and dockerd, which was killed while it started or removed them, knows nothing
 * of: nobody else can stop it, and it would go on beside whatever is started next. It is known by the volume of keys
 * that every container has mounted, which bears the platform's id of the container.
 */
export class LostTasks {
  readonly #naming: Naming;
  readonly #ways: ScriptWays;

  constructor(naming: Naming, ways: ScriptWays) {
    this.#naming = naming;
    this.#ways = ways;
  }

  /**
   * For a container that Docker takes for stopped. `bridge`: of its network, which tells whether this is Docker's
   * machine. Resolves in any case.
   */
  async endOf(id: string, bridge: string): Promise<void> {
    await this.#way(bridge)(endScript(this.#volumeOf(id), [], [])).catch(() => undefined);
  }

  /** For a container that is gone: the same where it costs a moment only, that is on this machine. */
  async endHere(id: string): Promise<void> {
    await this.#ways.direct?.(endScript(this.#volumeOf(id), [], [])).catch(() => undefined);
  }

  /** For all containers of this installation but those that run (Docker's ids) or are about to (the platform's). */
  async endAllBut(running: readonly string[], starting: readonly string[], bridge: string | undefined): Promise<void> {
    const any = `/troupe-${this.#naming.installation}-[a-z0-9]+-[0-9a-f]{12}/_data`;
    const script = endScript(
      any,
      running.filter((id) => /^[0-9a-f]{64}$/.test(id)).map((id) => id.slice(0, ID_LENGTH)),
      starting.map((id) => this.#volumeOf(id)),
    );
    if (script.length <= LONGEST_SCRIPT) await this.#way(bridge)(script).catch(() => undefined);
  }

  #way(bridge: string | undefined): RunScript {
    const { direct, helper } = this.#ways;
    const isHere = bridge !== undefined && existsSync(`/sys/class/net/${bridge}`);
    return isHere && direct !== undefined ? direct : helper;
  }

  #volumeOf(id: string): string {
    return `/${this.#naming.container(id)}-[0-9a-f]{12}/_data`;
  }
}

/**
 * Ends every process in a container that has a volume like `volume` mounted, unless its control group bears one of
 * `ids`, or it has one of `volumes` mounted. For sh(1), on Docker's machine. The patterns are grep -E's.
 */
function endScript(volume: string, ids: readonly string[], volumes: readonly string[]): string {
  return [
    `for mounts in $(grep -lE '${volume}' /proc/[0-9]*/mountinfo 2>/dev/null); do`,
    '  pid=$(echo "$mounts" | cut -d / -f 3)',
    '  grep -qE "[0-9a-f]{64}" "/proc/$pid/cgroup" 2>/dev/null || continue',
    ...(ids.length === 0 ? [] : [`  grep -qE '${ids.join('|')}' "/proc/$pid/cgroup" && continue`]),
    ...(volumes.length === 0 ? [] : [`  grep -qE '${volumes.join('|')}' "$mounts" && continue`]),
    '  kill -9 "$pid" 2>/dev/null',
    'done',
    'true',
  ].join('\n');
}
