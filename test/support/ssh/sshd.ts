/** A real OpenSSH server of a test's own, on loopback, that lets one key in. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { type Engine, EngineError } from '../../../proto/ports/engine.ts';
import { generateKeyPair, type KeyPair } from '../../../transports/ssh/keys.ts';
import { findProgram, skipUnless } from '../require.ts';
import { type Cleanup, freePort, tempDir } from '../temp.ts';
import { until } from '../until.ts';

/** The reason why no sshd can run here, or false. It must be root to log anyone in without PAM's help. */
export const skipWithoutSshd = skipUnless(
  findProgram('sshd') !== undefined && process.getuid?.() === 0,
  'OpenSSH server (needs sshd installed, and root)',
);

/** A running sshd. */
export interface Sshd {
  readonly port: number;
  readonly pid: number;
  readonly username: string;
  /** The key that may log in. */
  readonly user: KeyPair;
  readonly host: KeyPair;
  /** Dials the server, whatever container and port are asked for. */
  readonly dial: Engine['dial'];
}

/** Starts an sshd that ends with `t`. `config` lines come first, so they win over the defaults here. */
export async function startSshd(t: Cleanup, config: readonly string[] = []): Promise<Sshd> {
  const dir = await tempDir(t);
  const [user, host] = [generateKeyPair('user'), generateKeyPair('host')];
  await writeFile(join(dir, 'host'), host.privateKey, { mode: 0o600 });
  await writeFile(join(dir, 'authorized_keys'), `${user.publicKey}\n`);
  mkdirSync('/run/sshd', { recursive: true, mode: 0o755 }); // Debian's sshd jails its unprivileged half there.
  const port = await freePort();
  const lines = [
    ...config,
    `ListenAddress 127.0.0.1:${port}`,
    `HostKey ${join(dir, 'host')}`,
    `AuthorizedKeysFile ${join(dir, 'authorized_keys')}`,
    'PidFile none',
    'StrictModes no',
    'UsePAM no',
    'PermitRootLogin prohibit-password',
    'PasswordAuthentication no',
    'PrintMotd no',
    'PrintLastLog no',
    // The login shell reads nobody's own start files: what they do, and how long, is not the test's.
    `SetEnv HOME=${dir}`,
    'UseDNS no',
    'Subsystem sftp internal-sftp',
  ];
  await writeFile(join(dir, 'config'), `${lines.join('\n')}\n`);
  const program = findProgram('sshd') ?? 'sshd';
  const server = spawn(program, ['-D', '-e', '-f', join(dir, 'config')], { stdio: ['ignore', 'ignore', 'pipe'] });
  let log = '';
  server.stderr.setEncoding('utf8').on('data', (text: string) => {
    log = (log + text).slice(-8192);
  });
  const exited = once(server, 'exit');
  t.after(async () => {
    server.kill('SIGTERM');
    await exited;
  });
  await until(() => log.includes(`listening on 127.0.0.1 port ${port}`) || server.exitCode !== null, {
    what: 'sshd listens',
  });
  if (server.exitCode !== null) throw new Error(`sshd did not start: ${log}`);
  const dial: Engine['dial'] = (_id, _port, options) => dialLoopback(port, options.signal);
  return { port, pid: server.pid ?? 0, username: userInfo().username, user, host, dial };
}

/** An engine's `dial` for a port of 127.0.0.1. */
export function dialLoopback(port: number, signal?: AbortSignal): Promise<Duplex> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: '127.0.0.1', port, ...(signal === undefined ? {} : { signal }) });
    const refuse = (cause: Error) =>
      reject(new EngineError('no_listener', `Nothing listens on port ${port}.`, { cause }));
    socket.once('error', refuse);
    socket.once('connect', () => {
      socket.off('error', refuse);
      resolve(socket);
    });
  });
}
