/** The gateway's SSH server in front of a real sshd that stands in for containers, and real clients. */

import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import type { SshAnswer, SshAuthorizer, SshConnectionInfo, SshFound, SshQuestion } from '../../../proto/gateway/ssh.ts';
import type { Engine } from '../../../proto/ports/engine.ts';
import { SshGateway, type SshGatewayLimits } from '../../../transports/gateway/ssh/gateway.ts';
import { fingerprintOf } from '../../../transports/gateway/ssh/login.ts';
import { Admission } from '../../../transports/gateway/tcp/admission.ts';
import { listenRaw } from '../../../transports/gateway/tcp/listen.ts';
import { generateKeyPair, generateRsaKey } from '../../../transports/ssh/keys.ts';
import { silentLog } from '../log.ts';
import { skipWithout } from '../require.ts';
import { type Cleanup, tempDir } from '../temp.ts';
import { until } from '../until.ts';
import { type Sshd, skipWithoutSshd, startSshd } from './sshd.ts';

/** The reason why there can be no such test here, or false. */
export const skipWithoutSsh = skipWithoutSshd || skipWithout('ssh', 'scp', 'sftp', 'ssh-keygen', 'ssh-keyscan');

/** The one container there is, and one that its key does not open. */
export const CONTAINER = 'abcdefghijk1';
export const FOREIGN = 'zbcdefghijk9';

/** What a program left. */
export interface Ended {
  readonly code: number | null;
  readonly signal: string | null;
  readonly stdout: Buffer;
  readonly stderr: string;
}

/** A gateway with a container behind it. */
export interface SshSetup {
  readonly port: number;
  readonly gateway: SshGateway;
  readonly sshd: Sshd;
  readonly dir: string;
  /** The private key that opens the container, as a file. */
  readonly key: string;
  readonly fingerprint: string;
  /** Fingerprints of its owner's keys. */
  readonly owned: Set<string>;
  /** Logins that are open. */
  readonly open: Set<SshConnectionInfo>;
  readonly questions: SshQuestion[];
  /** What the authorizer says to the owner's key; `enter` at first. */
  answer: SshAnswer;
  /** Where the owner's key leads as `root`; to the container at first. */
  found: SshFound;
  /** How the engine dials; the sshd at first. */
  dial: Engine['dial'];
  /** Connections to the container that were made. */
  readonly dialled: Duplex[];
  readonly hostKey: string;
  /** Options that every OpenSSH client here is given. */
  readonly options: readonly string[];
  /** Runs `ssh [args] CONTAINER@gateway [command]` to its end. */
  ssh(args: readonly string[], command?: string, input?: Buffer | string): Promise<Ended>;
  /** Starts it only. */
  startSsh(args: readonly string[], options?: SpawnOptions): ChildProcess;
}

export interface SshOptions {
  readonly limits?: Partial<SshGatewayLimits>;
  readonly sshd?: readonly string[];
  readonly ingressPort?: number;
}

let rsa: Promise<string> | undefined;
/** One for a whole process: to make one takes a second. */
const rsaHostKey = () => {
  rsa ??= generateRsaKey();
  return rsa;
};

/** Opens one that ends with `t`. */
export async function openSsh(t: Cleanup, options: SshOptions = {}): Promise<SshSetup> {
  const sshd = await startSshd(t, [
    'AcceptEnv LANG LC_* GIT_PROTOCOL',
    'MaxStartups 500',
    'MaxSessions 500',
    ...(options.sshd ?? []),
  ]);
  const dir = await tempDir(t);
  const [user, host] = [generateKeyPair('user'), generateKeyPair('gateway')];
  const key = join(dir, 'key');
  await writeFile(key, user.privateKey, { mode: 0o600 });
  await writeFile(`${key}.pub`, `${user.publicKey}\n`);
  const fingerprint = fingerprintOf(Buffer.from(user.publicKey.split(' ')[1] ?? '', 'base64'));
  const owned = new Set([fingerprint]);
  const open = new Set<SshConnectionInfo>();
  const questions: SshQuestion[] = [];
  const dialled: Duplex[] = [];

  const authorizer: SshAuthorizer = {
    ask: async (question) => {
      questions.push(question);
      if (question.containerId !== CONTAINER || !owned.has(question.fingerprint)) return { kind: 'stranger' };
      return setup.answer;
    },
    find: async ({ fingerprint }) => (owned.has(fingerprint) ? setup.found : { kind: 'none' }),
    adopt: (connection) => {
      open.add(connection);
      return () => open.delete(connection);
    },
  };
  const gateway = new SshGateway({
    // As the platform has them: RSA for clients that know nothing newer.
    hostKeys: [host.privateKey, await rsaHostKey()],
    authorizer,
    log: silentLog,
    containers: {
      dial: async (...args) => {
        const socket = await setup.dial(...args);
        dialled.push(socket);
        return socket;
      },
      privateKey: async () => sshd.user.privateKey,
      username: sshd.username,
      log: silentLog,
    },
    ...(options.limits === undefined ? {} : { limits: options.limits }),
  });
  const sockets = new Set<Socket>();
  const admission = new Admission({ total: 50_000, perAddress: 50_000 });
  const listener = await listenRaw('127.0.0.1', 0, admission, (socket, address) => {
    sockets.add(socket);
    gateway.serve(socket, address, options.ingressPort);
  });
  await writeFile(join(dir, 'known_hosts'), `[127.0.0.1]:${listener.port} ${host.publicKey}\n`);
  const children = new Set<ChildProcess>();
  t.after(async () => {
    for (const child of children) if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL');
    const closed = listener.close();
    await gateway.close();
    await closed;
    await until(() => dialled.every(({ destroyed }) => destroyed), { what: 'no connection to the container is left' });
  });
  const clientOptions = [
    ...['-F', 'none', '-i', key, '-o', `UserKnownHostsFile=${join(dir, 'known_hosts')}`],
    ...['-o', 'IdentitiesOnly=yes', '-o', 'StrictHostKeyChecking=yes', '-o', 'BatchMode=yes', '-o', 'LogLevel=INFO'],
  ];
  const startSsh: SshSetup['startSsh'] = (args, spawnOptions = {}) => {
    const child = spawn('ssh', [...clientOptions, '-p', String(listener.port), ...args], {
      stdio: 'pipe',
      ...spawnOptions,
    });
    children.add(child);
    return child;
  };
  const setup: SshSetup = {
    ...{ port: listener.port, gateway, sshd, dir, key, fingerprint, owned, open, questions, dialled, startSsh },
    answer: { kind: 'enter', userId: 'user00000001' },
    found: { kind: 'one', containerId: CONTAINER },
    dial: sshd.dial,
    hostKey: host.publicKey,
    options: clientOptions,
    ssh: (args, command, input) =>
      finish(startSsh([...args, `${CONTAINER}@127.0.0.1`, ...(command === undefined ? [] : [command])]), input),
  };
  return setup;
}

/** Feeds a program and waits for its end. */
export async function finish(child: ChildProcess, input: Buffer | string = ''): Promise<Ended> {
  const out: Buffer[] = [];
  let stderr = '';
  child.stdout?.on('data', (chunk: Buffer) => out.push(chunk));
  child.stderr?.on('data', (chunk: Buffer) => (stderr += chunk));
  child.stdin?.on('error', () => {}).end(input);
  const [code, signal] = await once(child, 'close');
  return {
    code: typeof code === 'number' ? code : null,
    signal: typeof signal === 'string' ? signal : null,
    stdout: Buffer.concat(out),
    stderr,
  };
}

/** Runs any program to its end. */
export function run(
  program: string,
  args: readonly string[],
  options: SpawnOptions & { input?: Buffer | string } = {},
): Promise<Ended> {
  const { input, ...rest } = options;
  return finish(spawn(program, [...args], { stdio: 'pipe', ...rest }), input);
}
