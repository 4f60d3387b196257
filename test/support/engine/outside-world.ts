/** A network namespace of this machine that stands for the world outside, at addresses set aside for documentation. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { findProgram, isRoot } from '../../../transports/engines/docker/run.ts';
import { until } from '../until.ts';
import { dockerSkip, realRequired } from './docker-under-test.ts';

/** Why there is none; false: there is. */
export function skipWithoutWorld(): string | false {
  if (realRequired) return false;
  if (!isRoot() || findProgram('ip') === undefined) return 'makes a network namespace: needs root and iproute2';
  return dockerSkip();
}

/** One side of the way between the machine and the world: addresses with the length of their network. */
interface Side {
  readonly ipv4: readonly string[];
  readonly ipv6?: string;
}

/**
 * Makes it, with `server`, a script of Node.js that prints `up` once it listens. `here` are the machine's addresses
 * there. `said`: the lines that the script printed.
 */
export async function outsideWorld(options: { readonly here: Side; readonly there: Side; readonly server: string }) {
  const { here, there, server } = options;
  const [name, near, far] = [`troupe-w${process.pid}`, `tw${process.pid}a`, `tw${process.pid}b`];
  const ip = (...args: string[]): void => void execFileSync('ip', args, { stdio: ['ignore', 'ignore', 'pipe'] });
  const dress = (device: string, { ipv4, ipv6 }: Side, ...inside: string[]) => {
    for (const address of ipv4) ip(...inside, 'addr', 'add', address, 'dev', device);
    if (ipv6 !== undefined) ip(...inside, '-6', 'addr', 'add', ipv6, 'dev', device, 'nodad');
    ip(...inside, 'link', 'set', device, 'up');
  };
  const said: string[] = [];
  let child: ChildProcess | undefined;
  const end = async () => {
    child?.kill();
    if (child !== undefined && child.exitCode === null && child.signalCode === null) await once(child, 'exit');
    // The pair goes with the namespace.
    ip('netns', 'del', name);
  };
  ip('netns', 'add', name);
  try {
    ip('link', 'add', near, 'type', 'veth', 'peer', 'name', far);
    ip('link', 'set', far, 'netns', name);
    dress(near, here);
    dress(far, there, '-n', name);
    const args = ['netns', 'exec', name, process.execPath, '-e', server];
    child = spawn('ip', args, { stdio: ['ignore', 'pipe', 'ignore'] });
    child.stdout?.on('data', (text) => said.push(...String(text).trim().split('\n')));
    await until(() => said.includes('up'), { what: 'the world is up' });
  } catch (error) {
    await end();
    throw error;
  }
  return { said, end };
}
