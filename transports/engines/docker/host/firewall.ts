import { existsSync } from 'node:fs';
import { errorText } from '../../../../lib/errors.ts';
import { EngineError } from '../../../../proto/ports/engine.ts';
import type { Log } from '../../../../proto/ports/log.ts';
import { egressRules } from '../../common/confinement.ts';
import { BRIDGE_PREFIX, PRIVATE_BRIDGE_PREFIX } from '../network.ts';
import { findProgram, type RunScript, rootScript, type ScriptWays } from '../run.ts';
import {
  countIn,
  countScript,
  dispatchScript,
  egressScript,
  glanceScript,
  NAMES_LEAK,
  releaseScript,
  sweepScript,
} from './egress-rules.ts';

/** Chains of ours, each followed by a sum of its rules. */
const CHAIN_PREFIX = 'TROUPE-';

/** Rules that hold are not looked at again for so long, in milliseconds. */
const TRUST_MS = 10_000;
/** How often they are looked at, at least, while containers have rules of their own. */
const LOOK_EVERY_MS = 30_000;
/** How often it is looked whether they are there at all, where that takes no helper. */
const GLANCE_EVERY_MS = 1000;

/** One rule speaks of all bridges, so there is nothing to take back when a container goes. */
const ours = `-i ${BRIDGE_PREFIX}+`;

/** To the machine itself: answers to what the machine began, and nothing else. */
const inward = `INPUT ${ours} -m conntrack ! --ctstate RELATED,ESTABLISHED -j DROP`;

/** Of earlier versions, without a chain of their own. */
const formerRules = [`${ours} -o ${BRIDGE_PREFIX}+ -j DROP`, `${ours} -d 169.254.0.0/16 -j DROP`];

/** Several processes set the rules one after the other, where flock(1) is. */
const ALONE = `lock=/run/troupe-firewall.lock
if command -v flock >/dev/null && true 2>/dev/null >>"$lock"; then
  exec 9>>"$lock"
  flock -w 30 9 || true
fi`;

/** What dockerd and systemd say of the machine's name servers, on Docker's machine. */
const RESOLVER_FILES = '/etc/resolv.conf /run/systemd/resolve/resolv.conf';
const DOCKER_SETTINGS = '/etc/docker/daemon.json';

/**
 * Makes the rules hold: INPUT for what is meant for the machine, and for what passes through it a chain of ours that
 * DOCKER-USER leads to, which Docker keeps before its own rules (FORWARD where nothing leads to such a chain: Docker
 * has none, or somebody emptied FORWARD). That chain is named after its rules: when they change, the new one is filled
 * and led to before the old one goes, so containers are never without. A container asks the machine's name servers
 * itself, for Docker's own answers with theirs: they stay within reach, for names only. Members of a private network
 * reach each other. One network and another are kept apart by Docker, whose own rules come after these, and by the
 * machine, which has no address in them and no route into them. Containers have no IPv6, and would not get out by it.
 * For sh(1); says what iptables says when it takes a rule not. `-w` waits for others who change the rules, Docker among
 * them.
 */
export function firewallScript(allowed: readonly string[] = []): string {
  return String.raw`set -e
${ALONE}
ipt() { iptables -w 10 "$@"; }
onwards=FORWARD
if ipt -S FORWARD | grep -q -- ' -j DOCKER-USER$'; then onwards=DOCKER-USER; fi
ipt -C ${inward} 2>/dev/null || ipt -I ${inward}
servers=$({
  sed -n 's/^[[:space:]]*nameserver[[:space:]]*//p' ${RESOLVER_FILES} || true
  tr -d '[:space:]' <${DOCKER_SETTINGS} | sed -n 's/.*"dns":\[\([^]]*\)\].*/\1/p' | tr -d '"' | tr , '\n'
} 2>/dev/null | sed -n 's/^\([0-9]\{1,3\}\(\.[0-9]\{1,3\}\)\{3\}\).*/\1/p' | sort -u)
${dispatchScript(ours)}
rules=$(
  echo '-i ${PRIVATE_BRIDGE_PREFIX}+ -o ${PRIVATE_BRIDGE_PREFIX}+ -j RETURN'
  echo '-i ${PRIVATE_BRIDGE_PREFIX}+ -j DROP'
  echo '-o ${BRIDGE_PREFIX}+ -j DROP'
  echo '-m conntrack --ctstate RELATED,ESTABLISHED -j RETURN'
  for server in $servers; do
    echo "-d $server/32 -p udp --dport 53 -j RETURN"
    echo "-d $server/32 -p tcp --dport 53 -j RETURN"
  done
${egressRules(allowed)
  .map((rule) => `  echo '${rule}'`)
  .join('\n')}
)
chain=${CHAIN_PREFIX}$(echo "$rules" | cksum | cut -d ' ' -f 1)
jump="${ours} -j $chain"
if ! ipt -C "$onwards" $jump 2>/dev/null || [ "$(ipt -S "$chain" | grep -c '^-A')" != "$(echo "$rules" | wc -l)" ]; then
  { echo '*filter'; echo ":$chain - [0:0]"; echo "$rules" | sed "s/^/-A $chain /"; echo COMMIT; } |
    iptables-restore -w 10 --noflush
  ipt -C "$onwards" $jump 2>/dev/null || ipt -I "$onwards" $jump
fi
# What was there before, whoever set it.
for from in DOCKER-USER FORWARD; do
${formerRules.map((rule) => `  while ipt -D "$from" ${rule} 2>/dev/null; do :; done`).join('\n')}
  { ipt -S "$from" 2>/dev/null || true; } | sed -n "s/^-A $from //p" | while read -r rule; do
    case "$from $rule" in
      "$onwards $jump") ;;
      *"${ours} -j ${CHAIN_PREFIX}"*) ipt -D "$from" $rule 2>/dev/null || true ;;
    esac
  done
done
ipt -S | sed -n 's/^-N \(${CHAIN_PREFIX}[0-9]*\)$/\1/p' | while read -r old; do
  [ "$old" = "$chain" ] || { ipt -F "$old" && ipt -X "$old"; } 2>/dev/null || true
done
if ip6tables -w 10 -S >/dev/null 2>&1; then
  for from in INPUT FORWARD; do
    ip6tables -w 10 -C "$from" ${ours} -j DROP 2>/dev/null || ip6tables -w 10 -I "$from" ${ours} -j DROP || true
  done
fi
${sweepScript}
${countScript}`;
}

/** What a container may reach, as `ContainerSpec.egress`, and the bridge by which it would. */
interface Confined {
  readonly bridge: string;
  readonly egress: readonly string[] | undefined;
}

/** Keeps containers from their machine, from each other, and from private networks, metadata and mail. */
export class HostFirewall {
  readonly #log: Log;
  readonly #ways: ScriptWays;
  readonly #script: string;
  /** By the network of the container, as Docker calls it. Undefined `egress`: that was taken back. */
  readonly #confined = new Map<string, Confined>();
  #running: Promise<void> | undefined;
  #holdsUntil = Number.NEGATIVE_INFINITY;
  #warned = false;
  /** Networks of containers whose rules are being changed here. */
  readonly #changing = new Set<string>();
  #glance: NodeJS.Timeout | undefined;
  /** That rules were gone is in the log already. */
  #isTold = false;
  #closed = false;
  /** How many containers had rules of their own when that was first known; undefined: it is not. */
  #foundAtFirst: number | undefined;

  /** `allowed`: networks that containers may reach all the same, as `parseEgress` has them. */
  constructor(log: Log, ways: ScriptWays, allowed: readonly string[] = []) {
    this.#log = log;
    this.#ways = ways;
    this.#script = firewallScript(allowed);
  }

  /**
   * Makes the rules hold before a container of `bridge` runs. Rejects `unavailable` where this process may set them and
   * is refused. Where only Docker can, and it does not work, a warning says so once: the container runs all the same.
   */
  ensure(bridge: string): Promise<void> {
    if (performance.now() < this.#holdsUntil) return Promise.resolve();
    this.#running ??= this.#apply(bridge)
      .then(() => {
        this.#holdsUntil = performance.now() + TRUST_MS;
      })
      .finally(() => {
        this.#running = undefined;
      });
    return this.#running;
  }

  /**
   * Lets what has this network for itself, behind this bridge, reach `egress` (`ContainerSpec.egress`) and no more.
   * Rejects `unavailable` where that cannot be made so: then nothing of it may start.
   */
  async confine(network: string, bridge: string, egress: readonly string[] | undefined): Promise<void> {
    if (egress === undefined) {
      await this.ensure(bridge);
      const isNew = !this.#confined.has(network);
      if (isNew && (this.#foundAtFirst ?? 0) === 0) return;
    }
    this.#changing.add(network);
    try {
      const { code, said } = await this.#run(bridge, `${this.#script}\n${egressScript(network, bridge, egress)}`);
      if (code !== 0) {
        if (egress === undefined && !this.#confined.has(network)) return;
        throw new EngineError('unavailable', whyNotConfined(code, said));
      }
      this.#confined.set(network, { bridge, egress });
    } finally {
      this.#changing.delete(network);
    }
    this.#glanceLater();
  }

  /** As `ensure`, for a container whose network is there, maybe anew: what it may reach is as it was told last. */
  async guard(network: string, bridge: string): Promise<void> {
    const known = this.#confined.get(network);
    if (known?.egress === undefined) return this.ensure(bridge);
    if (known.bridge !== bridge) return this.confine(network, bridge, known.egress);
    await this.ensure(bridge);
  }

  /** The rules of a container go with its network. */
  async release(network: string): Promise<void> {
    const isUnknown = !this.#confined.has(network) && (this.#foundAtFirst ?? 0) === 0;
    if (isUnknown) return;
    this.#confined.delete(network);
    await this.#run('lo', releaseScript(network)).catch((error: unknown) => {
      this.#log.debug({ reason: errorText(error) }, 'rules of a container stay until its bridge is missed');
    });
  }

  /** Looks no more by itself. The rules stay. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#glance);
  }

  /** What a container may reach, as far as it is known here. */
  egressOf(network: string): readonly string[] | 'any' | 'unknown' {
    const known = this.#confined.get(network);
    if (known !== undefined) return known.egress ?? 'any';
    return (this.#foundAtFirst ?? 0) > 0 ? 'unknown' : 'any';
  }

  /** Whether it is time to look whether the rules of containers still are there. */
  isDue(): boolean {
    return this.#confined.size > 0 && performance.now() > this.#holdsUntil + LOOK_EVERY_MS - TRUST_MS;
  }

  async #apply(bridge: string): Promise<void> {
    const { code, said, isDirect } = await this.#run(bridge, this.#script);
    if (code !== 0) {
      if (isDirect)
        throw new EngineError('unavailable', `The containers cannot be kept apart from this machine: ${said}`);
      if (this.#warned) return;
      this.#warned = true;
      this.#log.warn({ reason: said }, 'containers can reach the machine they run on: its firewall could not be set');
      return;
    }
    const count = countIn(said);
    if (count === undefined) return;
    this.#foundAtFirst ??= count;
    if (count < this.#restricted().length) await this.#restore();
  }

  /** The containers that have rules of their own. */
  #restricted(): readonly Confined[] {
    return [...this.#confined.values()].filter(({ egress }) => egress !== undefined);
  }

  #glanceLater(): void {
    if (this.#glance !== undefined || this.#closed || this.#restricted().length === 0) return;
    this.#glance = setTimeout(() => {
      void this.#glanceNow()
        .catch((error: unknown) =>
          this.#log.debug({ reason: errorText(error) }, 'the rules of containers could not be set again'),
        )
        .finally(() => {
          this.#glance = undefined;
          this.#glanceLater();
        });
    }, GLANCE_EVERY_MS).unref();
  }

  /** Somebody may have loaded the firewall anew: until the rules are set again, containers reach what all may reach. */
  async #glanceNow(): Promise<void> {
    const { direct } = this.#ways;
    const bridges = this.#restricted().map(({ bridge }) => bridge);
    const [bridge, ...more] = bridges.filter(isHere);
    if (direct === undefined || bridge === undefined || this.#isBusy()) return;
    const { code, said } = await direct(glanceScript(ours));
    const isWell = code === 0 && (countIn(said) ?? 0) > more.length;
    // What was changed here meanwhile may have been seen half done.
    if (isWell || this.#isBusy()) {
      if (isWell) this.#isTold = false;
      return;
    }
    if (!this.#isTold)
      this.#log.warn({}, 'the firewall of this machine was loaded anew: the rules of containers are set again');
    this.#isTold = true;
    this.#holdsUntil = Number.NEGATIVE_INFINITY;
    await this.ensure(bridge);
  }

  #isBusy(): boolean {
    return this.#closed || this.#running !== undefined || this.#changing.size > 0;
  }

  /** Somebody loaded the firewall anew: the rules of containers are set again. */
  async #restore(): Promise<void> {
    for (const [network, { bridge, egress }] of this.#confined) {
      if (egress === undefined || this.#changing.has(network)) continue;
      const script = `${this.#script}\n${egressScript(network, bridge, egress, { isKept: true })}`;
      const { code, said } = await this.#run(bridge, script);
      if (code !== 0) throw new EngineError('unavailable', whyNotConfined(code, said));
    }
  }

  async #run(bridge: string, script: string): Promise<{ code: number | null; said: string; isDirect: boolean }> {
    const { direct, helper } = this.#ways;
    // The bridge is here: so is Docker.
    if (direct !== undefined && isHere(bridge)) return { ...(await direct(script)), isDirect: true };
    const ran = await helper(script).catch((error: unknown) => ({ code: -1, said: errorText(error) }));
    return { ...ran, isDirect: false };
  }
}

/** Whether a bridge is on this machine. */
function isHere(bridge: string): boolean {
  return existsSync(`/sys/class/net/${bridge}`);
}

/** Why a container may not start, or goes on reaching more than it should. */
function whyNotConfined(code: number | null, said: string): string {
  if (code === NAMES_LEAK)
    return (
      'Names would go on leading out of the container: Docker asks the name server of this machine (127.0.0.1) in ' +
      'its place. Name another in /etc/docker/daemon.json ("dns") and restart Docker, or set "egress" to "any".'
    );
  return `What the container may reach cannot be limited: ${said}. Mend that, or set "egress" to "any".`;
}

/** This machine's iptables, which only root may use; undefined otherwise. */
export function systemFirewall(): RunScript | undefined {
  return findProgram('iptables') === undefined ? undefined : rootScript();
}
