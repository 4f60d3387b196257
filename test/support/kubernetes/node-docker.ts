/** A dockerd for a kubelet alone: with a bridge, a data folder and a runtime of its own. */
import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { tar } from '../../../lib/tar.ts';
import { DockerClient } from '../../../transports/engines/docker/api/client.ts';
import { importImage } from '../../../transports/engines/docker/image/base-image.ts';
import { findProgram } from '../require.ts';
import { until } from '../until.ts';
import { type Part, part } from './programs.ts';

const run = promisify(execFile);

/** A node's container runtime. */
export interface NodeDocker {
  readonly client: DockerClient;
  readonly socket: string;
  /** The machine's address on the bridge that pods are on. */
  readonly address: string;
  readonly sandboxImage: string;
  /** Lets pods reach each other, as a network plugin would, where the machine's firewall keeps all apart. */
  joinPods(): Promise<void>;
  stop(): Promise<void>;
}

/** Starts it below `folder`, which must be short: sockets are in it. Once it is stopped, what ran in containers is ended with the cluster. */
export async function startNodeDocker(folder: string): Promise<NodeDocker> {
  const { bridge, address } = await makeBridge(folder);
  const socket = join(folder, 'd.sock');
  const dockerd = part(
    'dockerd',
    [
      ...['--host', `unix://${socket}`, '--data-root', join(folder, 'd'), '--exec-root', join(folder, 'x')],
      ...['--pidfile', join(folder, 'd.pid'), '--config-file', emptyConfig(folder), '--bridge', bridge],
      // Pods talk to the machine only, unless they are joined: nothing of its firewall is touched.
      ...['--iptables=false', '--ip6tables=false', '--ip-masq=false', '--userland-proxy=false'],
      ...runtimeFlags(folder),
    ],
    join(folder, 'dockerd.log'),
  );
  const client = new DockerClient(`unix://${socket}`);
  const stop = async (): Promise<void> => {
    client.close();
    await dockerd.kill();
  };
  try {
    dockerd.start();
    await answers(client, dockerd);
    const sandboxImage = 'troupe/sandbox:1';
    await importImage(client, sandboxImage, await sandbox(), ['CMD ["/bin/sh", "/pause"]']);
    const joinPods = async (): Promise<void> => {
      // It goes with the bridge (leftovers.ts).
      await run('iptables', ['-w', '-I', 'FORWARD', '-i', bridge, '-o', bridge, '-j', 'ACCEPT']);
    };
    return { client, socket, address, sandboxImage, joinPods, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

function emptyConfig(folder: string): string {
  const file = join(folder, 'daemon.json');
  writeFileSync(file, '{}');
  return file;
}

async function answers(client: DockerClient, dockerd: Part): Promise<void> {
  const pings = async (): Promise<boolean> => {
    if (!dockerd.running) throw new Error(`dockerd ended:\n${dockerd.log()}`);
    return client.ping(1000).then(
      () => true,
      () => false,
    );
  };
  await until(pings, { what: 'dockerd answers', timeoutMs: 60_000, everyMs: 100 });
}

/** A bridge with a network nobody on this machine has. Its name is in `folder`, for whoever tidies up. */
async function makeBridge(folder: string): Promise<{ bridge: string; address: string }> {
  for (let tries = 1; ; tries += 1) {
    const third = Math.floor(Math.random() * 256);
    // Not of the names that an installation on Docker gives, and guards.
    const bridge = `trk${process.pid.toString(36)}${third.toString(36)}`.slice(0, 15);
    const address = `10.201.${third}.1`;
    const { stdout } = await run('ip', ['-o', 'addr']);
    if (stdout.includes(`${address}/`) && tries < 50) continue;
    writeFileSync(join(folder, 'bridge'), bridge);
    // Without one of its own it has that of a pod, and another when that pod ends: the others would not find it then.
    const hardware = `02:42:c9:00:${third.toString(16).padStart(2, '0')}:01`;
    await run('ip', ['link', 'add', bridge, 'address', hardware, 'type', 'bridge']);
    await run('ip', ['addr', 'add', `${address}/24`, 'dev', bridge]);
    await run('ip', ['link', 'set', bridge, 'up']);
    return { bridge, address };
  }
}

/**
 * Where this process may not lower OOM scores (no CAP_SYS_RESOURCE, bit 24), runc fails on a sandbox's negative one: a runtime that
 * leaves it out.
 */
function runtimeFlags(folder: string): string[] {
  const effective = /CapEff:\s*([0-9a-f]+)/.exec(readFileSync('/proc/self/status', 'utf8'))?.[1] ?? '0';
  if ((BigInt(`0x${effective}`) >> 24n) % 2n === 1n) return [];
  const wrapper = join(folder, 'runc');
  writeFileSync(
    wrapper,
    [
      '#!/bin/sh',
      'for arg in "$@"; do',
      '  [ "$before" = --bundle ] && sed -i -E \'s/"oomScoreAdj":-[0-9]+,?//; s/,}/}/\' "$arg/config.json"',
      '  before=$arg',
      'done',
      `exec ${findProgram('runc')} "$@"`,
      '',
    ].join('\n'),
    { mode: 0o755 },
  );
  return ['--add-runtime', `node=${wrapper}`, '--default-runtime', 'node'];
}

/** An image that sleeps, reaps and ends on SIGTERM: what a pod's namespaces hang on. */
async function sandbox(): Promise<Buffer> {
  const script = 'trap "exit 0" TERM INT\nwhile :; do sleep 1000000 & wait; done\n';
  const { readFile } = await import('node:fs/promises');
  return tar([
    { kind: 'directory', path: 'bin', mode: 0o755 },
    { kind: 'file', path: 'bin/busybox', mode: 0o755, data: await readFile('/usr/bin/busybox') },
    { kind: 'symlink', path: 'bin/sh', target: '/bin/busybox' },
    { kind: 'symlink', path: 'bin/sleep', target: '/bin/busybox' },
    { kind: 'file', path: 'pause', mode: 0o755, data: Buffer.from(script) },
  ]);
}
