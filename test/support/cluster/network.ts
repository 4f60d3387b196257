/** A network of the test's own: each process in a namespace with an address, on one bridge, and cut off from others when the test wants. */
import { spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { guard } from '../guard.ts';
import { findProgram, skipUnless, skipWithout } from '../require.ts';
import type { Cleanup } from '../temp.ts';

/** For the `skip` option of tests that need one. */
export function skipWithoutNetwork(): string | false {
  return skipWithout('ip', 'nft', 'nsenter') || skipUnless(process.getuid?.() === 0, 'namespaces take root');
}

/** Packets that do not pass: to or from an address, or a port of it. */
export interface Cut {
  readonly address: string;
  /** Default: all of its ports. */
  readonly port?: number;
  /** `out`: what the place sends is lost; `in`: what is sent to it. */
  readonly direction: 'both' | 'in' | 'out';
}

/** One place on the network. */
export interface Place {
  readonly address: string;
  /** Program and arguments that run a command there, in front of it. */
  readonly enter: readonly string[];
  /** Loses these packets from now on, and only these; none: all is well again. */
  cut(cuts: readonly Cut[]): Promise<void>;
}

/** A bridge, and places on it. */
export interface TestNetwork {
  /** Where the test itself is, and what it serves to the places. */
  readonly broadcaster: string;
  /** The same as a network, `a.b.c.0/24`. */
  readonly subnet: string;
  place(): Promise<Place>;
}

/** Test networks take what documentation and Docker do not. */
const FIRST = '10.77';
const CHAINS = 'add table inet trial\nadd chain inet trial in { type filter hook input priority 0; }\n';
const MORE_CHAINS = 'add chain inet trial out { type filter hook output priority 0; }\n';

/** Makes a network, which ends with `t`, or with this process: what still runs in its places is killed. */
export async function startNetwork(t: Cleanup): Promise<TestNetwork> {
  let bridge = '';
  let prefix = '';
  for (let attempt = 1; prefix === ''; attempt++) {
    const third = randomInt(1, 255);
    bridge = `trb${third}`;
    try {
      // The name is the lock: two networks never have one subnet.
      await run(['ip', 'link', 'add', bridge, 'type', 'bridge']);
      prefix = `${FIRST}.${third}`;
    } catch (error) {
      if (attempt === 20) throw error;
    }
  }
  const release = guard([END], bridge, findProgram('ip') ?? 'ip');
  t.after(async () => {
    await run(['/bin/sh', '-c', END, 'end', bridge, findProgram('ip') ?? 'ip']);
    release();
  });
  const broadcaster = `${prefix}.1`;
  await run(['ip', 'address', 'add', `${broadcaster}/24`, 'dev', bridge]);
  await run(['ip', 'link', 'set', bridge, 'up']);
  let count = 0;

  return {
    broadcaster,
    subnet: `${prefix}.0/24`,
    async place() {
      count += 1;
      const name = `${bridge}-${count}`;
      const address = `${prefix}.${10 + count}`;
      await run(['ip', 'netns', 'add', name]);
      const outside = `tr${prefix.split('.')[2]}n${count}`;
      await run(['ip', 'link', 'add', outside, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', name]);
      await run(['ip', 'link', 'set', outside, 'master', bridge, 'up']);
      const inside = [`address add ${address}/24 dev eth0`, 'link set eth0 up', 'link set lo up'];
      await run(['ip', '-n', name, '-batch', '-'], inside.join('\n'));
      const enter = [findProgram('nsenter') ?? 'nsenter', `--net=/run/netns/${name}`];
      await run([...enter, 'nft', '-f', '-'], `${CHAINS}${MORE_CHAINS}`);
      return {
        address,
        enter,
        cut: (cuts) =>
          run([...enter, 'nft', '-f', '-'], ['flush table inet trial', ...cuts.flatMap(rulesOf), ''].join('\n')),
      };
    },
  };
}

/** $1: the bridge, whose places are called after it. */
const END = `
for place in $("$2" netns list | cut -d ' ' -f 1 | grep "^$1-"); do
  for pid in $("$2" netns pids "$place"); do kill -KILL "$pid" 2>/dev/null; done
  "$2" netns delete "$place"
done
"$2" link delete "$1" 2>/dev/null
true`;

/** A connection that is cut in one direction is cut as a cable with one broken wire: what comes the other way still arrives. */
function rulesOf({ address, port, direction }: Cut): string[] {
  const to = port === undefined ? '' : ` tcp dport ${port}`;
  const from = port === undefined ? '' : ` tcp sport ${port}`;
  return [
    ...(direction === 'in' ? [] : [`add rule inet trial out ip daddr ${address}${to} drop`]),
    ...(direction === 'out' ? [] : [`add rule inet trial in ip saddr ${address}${from} drop`]),
  ];
}

/** Runs a program to its end. Rejects with what it said when it fails. */
async function run([program = '', ...args]: readonly string[], input = ''): Promise<void> {
  const child = spawn(findProgram(program) ?? program, args, { stdio: ['pipe', 'ignore', 'pipe'] });
  let said = '';
  child.stderr.on('data', (chunk: Buffer) => (said += chunk));
  child.stdin.on('error', () => {});
  child.stdin.end(input);
  const [code] = await once(child, 'close');
  if (code !== 0) throw new Error(`${program} ${args.join(' ')} failed: ${said.trim()}`);
}
