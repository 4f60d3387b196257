/**
 * What does SSH cost through the gateway? Megabytes a second beside OpenSSH's own client straight to the same sshd, in turns, and logins a
 * second of one processor.
 *
 * `npm run bench -- ssh [MEGABYTES [ROUNDS [LOGINS]]]`: default 300, 5, 300. Needs root and OpenSSH.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { arch, cpus, release } from 'node:os';
import { join } from 'node:path';
import { CONTAINER, openSsh } from '../test/support/ssh/gateway.ts';

const megabytes = Number(process.argv[2] ?? 300);
const rounds = Number(process.argv[3] ?? 5);
const logins = Number(process.argv[4] ?? 300);

const ends: (() => Promise<void> | void)[] = [];
const setup = await openSsh(
  { after: (end) => void ends.unshift(end) },
  { limits: { perAddress: 10_000, waitingPerAddress: 1000 } },
);
const direct = join(setup.dir, 'direct');
await writeFile(direct, setup.sshd.user.privateKey, { mode: 0o600 });
const common = ['-F', 'none', '-o', 'IdentitiesOnly=yes', '-o', 'BatchMode=yes', '-o', 'LogLevel=ERROR'];
common.push('-o', 'UserKnownHostsFile=/dev/null', '-o', 'StrictHostKeyChecking=no');

/** Arguments of `ssh` through the gateway, or straight to the sshd. */
function client(isOurs: boolean, more: readonly string[], command: string): string[] {
  const [key, port, user] = isOurs
    ? [setup.key, setup.port, CONTAINER]
    : [direct, setup.sshd.port, setup.sshd.username];
  return [...common, '-i', key, '-p', String(port), ...more, `${user}@127.0.0.1`, command];
}

/** Megabytes a second from the container or into it, from the first byte to the last. */
async function rate(isOurs: boolean, more: readonly string[], isUpload: boolean): Promise<number> {
  const command = isUpload ? 'echo; cat >/dev/null' : `echo; head -c ${megabytes}M /dev/zero`;
  const ssh = ['ssh', ...client(isOurs, more, command)].map((word) => `'${word}'`).join(' ');
  // No byte passes this process but by the gateway.
  const line = isUpload ? `head -c ${megabytes}M /dev/zero | ${ssh}` : `${ssh} | (head -c 1; cat >/dev/null)`;
  const child = spawn('sh', ['-c', line], { stdio: ['ignore', 'pipe', 'ignore'] });
  await once(child.stdout, 'data');
  const began = performance.now();
  child.stdout.resume();
  await once(child, 'close');
  return megabytes / ((performance.now() - began) / 1000);
}

/** Processor time of the gateway, both its sides, since then. */
function cpuSeconds(since: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(since);
  return (user + system) / 1e6;
}

const median = (numbers: readonly number[]) => [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? 0;
const rows: { row: string; unit: string; ours: number; peers: Record<string, number> }[] = [];

try {
  for (const [name, more] of [
    ['OpenSSH default', []],
    ['aes128-gcm', ['-c', 'aes128-gcm@openssh.com']],
  ] as const) {
    for (const isUpload of [false, true]) {
      const [ours, theirs, spent]: [number[], number[], number[]] = [[], [], []];
      for (let round = 0; round < rounds; round++) {
        theirs.push(await rate(false, more, isUpload));
        const before = process.cpuUsage();
        ours.push(await rate(true, more, isUpload));
        spent.push(megabytes / cpuSeconds(before));
      }
      const row = {
        row: `${name}, ${isUpload ? 'up' : 'down'}`,
        ours: median(ours),
        peers: { openssh: median(theirs) },
      };
      rows.push({ ...row, unit: 'MB/s' });
      // Holds on a busy machine, too.
      rows.push({ row: `${row.row}, of one processor`, unit: 'MB/s', ours: median(spent), peers: {} });
      const ratio = (row.ours / row.peers.openssh).toFixed(2);
      process.stdout.write(
        `${row.row.padEnd(24)} ${row.ours.toFixed(0)} of ${row.peers.openssh.toFixed(0)} MB/s: ${ratio} (${median(spent).toFixed(0)} MB/s of one processor)\n`,
      );
    }
  }
  // Started by a process of its own: what this one spends is the gateway's, both its sides.
  const words = ['ssh', '-n', ...client(true, [], 'true')].map((word) => `'${word}'`).join(' ');
  const logIn = (count: number) =>
    once(spawn('sh', ['-c', `seq ${count} | xargs -P 4 -I {} ${words}`], { stdio: 'ignore' }), 'close');
  await logIn(20);
  const before = process.cpuUsage();
  const began = performance.now();
  await logIn(logins);
  const seconds = (performance.now() - began) / 1000;
  const perCore = logins / cpuSeconds(before);
  rows.push({ row: 'logins with a command, of one processor', unit: 'logins/s', ours: perCore, peers: {} });
  process.stdout.write(
    `logins with a command: ${perCore.toFixed(0)}/s of one processor (${(logins / seconds).toFixed(0)}/s with client and sshd on this machine)\n`,
  );
  const machine = `${cpus().length} x ${cpus()[0]?.model ?? arch()}, ${release()}, node ${process.version}`;
  process.stdout.write(`${JSON.stringify({ bench: 'ssh', machine, rows })}\n`);
} finally {
  for (const end of ends) await end();
}
