import { existsSync } from 'node:fs';
import { EngineError, type Log } from '../../proto/ports.ts';
import { bridgePrefix } from './network.ts';
import { findProgram, isRoot, runProgram } from './run.ts';

/** Rules that hold are not looked at again for so long, in milliseconds. */
const trustMs = 10_000;

const ours = ['-i', `${bridgePrefix}+`];

/**
 * What containers may not do, as iptables rules without their chain. One rule speaks of all bridges, so there is nothing to take back when
 * a container goes, and another platform on the machine wants the very same rules.
 */
const rules = {
  /** To this machine itself: answers to what the machine began, and nothing else. */
  toMachine: [...ours, '-m', 'conntrack', '!', '--ctstate', 'RELATED,ESTABLISHED', '-j', 'DROP'],
  /** To other containers, and to what clouds tell a machine about itself (RFC 3927 addresses). */
  onwards: [
    [...ours, '-o', `${bridgePrefix}+`, '-j', 'DROP'],
    [...ours, '-d', '169.254.0.0/16', '-j', 'DROP'],
  ],
};

/** Runs iptables with arguments; resolves with its exit code and the last thing it said. */
export type RunIptables = (args: readonly string[]) => Promise<{ code: number | null; said: string }>;

/**
 * Puts what is missing of the rules in front of the chains they belong to: INPUT for what is meant for this machine, DOCKER-USER for what
 * passes through it, which Docker keeps before its own rules (FORWARD where Docker has no such chain). Rejects `unavailable` when
 * iptables does not take one.
 */
export async function applyRules(run: RunIptables): Promise<void> {
  const forward = (await run(['-S', 'DOCKER-USER'])).code === 0 ? 'DOCKER-USER' : 'FORWARD';
  const wanted = [
    { chain: 'INPUT', rule: rules.toMachine },
    ...rules.onwards.map((rule) => ({ chain: forward, rule })),
  ];
  for (const { chain, rule } of wanted) {
    if ((await run(['-C', chain, ...rule])).code === 0) continue;
    const { code, said } = await run(['-I', chain, ...rule]);
    if (code !== 0) {
      throw new EngineError('unavailable', `The containers cannot be kept apart from this machine: ${said}`);
    }
  }
}

/** Keeps containers away from the machine they run on, from each other, and from link-local addresses. */
export class HostFirewall {
  readonly #log: Log;
  readonly #run: RunIptables | undefined;
  #running: Promise<void> | undefined;
  #holdsUntil = 0;
  #warned = false;

  /** `run` is for tests; by default this machine's iptables, which only root may use. */
  constructor(log: Log, run: RunIptables | undefined = systemIptables()) {
    this.#log = log;
    this.#run = run;
  }

  /**
   * Makes the rules hold before a container of `bridge` runs. Where they cannot be made (not root, no iptables, a Docker Engine on another
   * machine) a warning says so once; where they can and are refused it rejects `unavailable`.
   */
  ensure(bridge: string): Promise<void> {
    const run = this.#run;
    if (run === undefined || !existsSync(`/sys/class/net/${bridge}`)) {
      if (!this.#warned)
        this.#log.warn({ bridge }, 'containers can reach this machine: its firewall is not ours to set');
      this.#warned = true;
      return Promise.resolve();
    }
    if (Date.now() < this.#holdsUntil) return Promise.resolve();
    this.#running ??= applyRules(run)
      .then(() => {
        this.#holdsUntil = Date.now() + trustMs;
      })
      .finally(() => {
        this.#running = undefined;
      });
    return this.#running;
  }
}

function systemIptables(): RunIptables | undefined {
  const program = findProgram('iptables');
  if (program === undefined || !isRoot()) return undefined;
  return async (args) => {
    // -w: waits for others who change the rules, Docker among them.
    const { code, tail } = await runProgram(program, ['-w', '10', ...args]);
    return { code, said: tail.at(-1) ?? '' };
  };
}
