import { existsSync } from 'node:fs';
import { EngineError, type Log } from '../../proto/ports.ts';
import { textOf } from './errors.ts';
import { bridgePrefix } from './network.ts';
import { findProgram, type RunScript, rootScript } from './run.ts';

/** Rules that hold are not looked at again for so long, in milliseconds. */
const trustMs = 10_000;

/** What containers may not do, as iptables rules. One speaks of all bridges, so there is nothing to take back when a container goes. */
const ours = `-i ${bridgePrefix}+`;
const rules = [
  // To the machine itself: answers to what the machine began, and nothing else.
  `INPUT ${ours} -m conntrack ! --ctstate RELATED,ESTABLISHED -j DROP`,
  // To other containers, and to what clouds tell a machine about itself (addresses of RFC 3927).
  `$onwards ${ours} -o ${bridgePrefix}+ -j DROP`,
  `$onwards ${ours} -d 169.254.0.0/16 -j DROP`,
];

/**
 * Puts what is missing of the rules in front of the chains they belong to: INPUT for what is meant for the machine, DOCKER-USER for what
 * passes through it, which Docker keeps before its own rules (FORWARD where Docker has no such chain). For sh(1); says what iptables says
 * when it takes one not. `-w` waits for others who change the rules, Docker among them.
 */
export const firewallScript = [
  'set -e',
  'onwards=FORWARD',
  'if iptables -w 10 -S DOCKER-USER >/dev/null 2>&1; then onwards=DOCKER-USER; fi',
  ...rules.map((rule) => `iptables -w 10 -C ${rule} 2>/dev/null || iptables -w 10 -I ${rule}`),
].join('\n');

/** The two ways to the firewall of Docker's machine. */
export interface FirewallWays {
  /** On this machine, which may not be Docker's; undefined when this process may not. */
  readonly direct: RunScript | undefined;
  /** Through Docker. */
  readonly helper: RunScript;
}

/** Keeps containers away from the machine they run on, from each other, and from link-local addresses. */
export class HostFirewall {
  readonly #log: Log;
  readonly #ways: FirewallWays;
  #running: Promise<void> | undefined;
  #holdsUntil = Number.NEGATIVE_INFINITY;
  #warned = false;

  constructor(log: Log, ways: FirewallWays) {
    this.#log = log;
    this.#ways = ways;
  }

  /**
   * Makes the rules hold before a container of `bridge` runs. Rejects `unavailable` where this process may set them and is refused. Where
   * only Docker can, and it does not work, a warning says so once: the container runs all the same.
   */
  ensure(bridge: string): Promise<void> {
    if (performance.now() < this.#holdsUntil) return Promise.resolve();
    this.#running ??= this.#apply(bridge)
      .then(() => {
        this.#holdsUntil = performance.now() + trustMs;
      })
      .finally(() => {
        this.#running = undefined;
      });
    return this.#running;
  }

  async #apply(bridge: string): Promise<void> {
    const { direct, helper } = this.#ways;
    // The bridge is here: so is Docker.
    if (direct !== undefined && existsSync(`/sys/class/net/${bridge}`)) {
      const { code, said } = await direct(firewallScript);
      if (code === 0) return;
      throw new EngineError('unavailable', `The containers cannot be kept apart from this machine: ${said}`);
    }
    const { code, said } = await helper(firewallScript).catch((error: unknown) => ({ code: -1, said: textOf(error) }));
    if (code === 0 || this.#warned) return;
    this.#warned = true;
    this.#log.warn({ reason: said }, 'containers can reach the machine they run on: its firewall could not be set');
  }
}

/** This machine's iptables, which only root may use; undefined otherwise. */
export function systemFirewall(): RunScript | undefined {
  return findProgram('iptables') === undefined ? undefined : rootScript();
}
