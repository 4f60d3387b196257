import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { Agent, type ClientRequest, request as httpRequest, type RequestOptions } from 'node:http';
import { Agent as TlsAgent, request as tlsRequest } from 'node:https';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { EngineError } from '../../../../proto/ports/engine.ts';
import { cleanReason } from '../../common/calls.ts';
import { findProgram, LineTail, SYSTEM_PATH } from '../run.ts';
import { type DockerTarget, parseDockerHost, type SshTarget } from './address.ts';

const AGENT_OPTIONS = { keepAlive: true, maxSockets: 32, maxFreeSockets: 8 };

/** The way to a Docker Engine: its socket, TCP, TLS with a client certificate, or a tunnel through SSH. */
export class DockerWay {
  readonly #target: DockerTarget;
  readonly #tunnel: SshTunnel | undefined;
  readonly #agent: Agent;
  #certificates: Certificates | undefined;

  /** Throws EngineError `refused` for an address that cannot be used. Connects on the first request. */
  constructor(address: string) {
    this.#target = parseDockerHost(address);
    this.#tunnel = 'ssh' in this.#target ? new SshTunnel(this.#target.ssh) : undefined;
    this.#agent = 'certs' in this.#target ? new TlsAgent(AGENT_OPTIONS) : new Agent(AGENT_OPTIONS);
  }

  /** A function that makes requests, when the way is open: as node:http's. Rejects with EngineError. */
  async open(): Promise<(options: RequestOptions, own: boolean) => ClientRequest> {
    const target = this.#target;
    const agentOf = (own: boolean): Agent | false => (own ? false : this.#agent);
    if ('ssh' in target) {
      const socketPath = await this.#tunnel?.socketPath();
      return (options, own) => httpRequest({ ...options, socketPath, agent: agentOf(own) });
    }
    if (!('certs' in target) || target.certs === undefined) {
      return (options, own) => httpRequest({ ...target, ...options, agent: agentOf(own) });
    }
    const { host, port } = target;
    this.#certificates ??= certificatesIn(target.certs);
    const tls = { ...this.#certificates, host, port, servername: /^[\d.]+$|:/.test(host) ? '' : host };
    return (options, own) => tlsRequest({ ...tls, ...options, agent: agentOf(own) });
  }

  /** Closes the kept-alive connections, and a tunnel with all that is in it. */
  close(): void {
    this.#agent.destroy();
    this.#tunnel?.close();
  }
}

interface Certificates {
  readonly ca: Buffer;
  readonly cert: Buffer;
  readonly key: Buffer;
}

/** The files as `docker` has them: the authority of the engine, and our certificate with its key. */
function certificatesIn(folder: string): Certificates {
  const read = (name: string): Buffer => {
    try {
      return readFileSync(join(folder, name));
    } catch (cause) {
      const message =
        `${join(folder, name)} cannot be read: TLS to a Docker Engine takes ca.pem, cert.pem and key.pem in ` +
        'DOCKER_CERT_PATH.';
      throw new EngineError('refused', message, { cause });
    }
  };
  return { ca: read('ca.pem'), cert: read('cert.pem'), key: read('key.pem') };
}

/** Longest wait until the other machine has let us in, in milliseconds. */
const LOGIN_MS = 20_000;

/** Runs a program that ends with this process, whose pipe to its standard input closes then. A folder goes, too. */
const LEASH = `
folder=$1; shift
exec 3<&0
"$@" </dev/null 3<&- &
child=$!
{ cat <&3 >/dev/null; kill $child 2>/dev/null; } &
exec 3<&-
wait $child
code=$?
rm -rf "$folder"
exit $code`;

/**
 * A Docker Engine's socket on another machine, as a socket on this one: one `ssh` (OpenSSH) keeps one connection, in
 * which each connection to the local socket is a channel. So keys, agents, jumps and known hosts are what ssh_config(5)
 * says; the other machine must be a known host.
 */
class SshTunnel {
  readonly #target: SshTarget;
  #opening: Promise<OpenedTunnel> | undefined;
  #closed = false;

  constructor(target: SshTarget) {
    this.#target = target;
  }

  /** The local socket's path, once it leads there. Rejects `unavailable` with ssh's words, `refused` without ssh. */
  async socketPath(): Promise<string> {
    if (this.#closed) throw new EngineError('unavailable', 'The connection to the container engine was closed.');
    const before = this.#opening;
    if (before !== undefined) {
      const opened = await before.catch(() => undefined);
      if (opened !== undefined && !opened.hasEnded()) return opened.path;
      if (this.#opening === before) this.#opening = undefined;
    }
    this.#opening ??= open(this.#target);
    return (await this.#opening).path;
  }

  /** Ends the connection, and with it every channel. */
  close(): void {
    this.#closed = true;
    void this.#opening?.then(({ end }) => end()).catch(() => undefined);
  }
}

interface OpenedTunnel {
  readonly path: string;
  hasEnded(): boolean;
  end(): void;
}

async function open(target: SshTarget): Promise<OpenedTunnel> {
  const program = findProgram('ssh');
  if (program === undefined) {
    throw new EngineError('refused', 'ssh:// needs the ssh program: apt-get install openssh-client');
  }
  const folder = await mkdtemp(join(tmpdir(), 'troupe-ssh-'));
  const path = join(folder, 's');
  const child = spawn('/bin/sh', ['-c', LEASH, 'sh', folder, program, ...sshArguments(target, path)], {
    env: {
      PATH: SYSTEM_PATH,
      LC_ALL: 'C.UTF-8',
      ...(target.agent === undefined ? {} : { SSH_AUTH_SOCK: target.agent }),
    },
    stdio: ['pipe', 'ignore', 'pipe'],
  });
  const said = new LineTail(3);
  child.stderr.setEncoding('utf8').on('data', said.push);
  child.stdin.on('error', () => undefined);
  let ended = false;
  child.once('error', () => {
    ended = true;
  });
  child.once('exit', () => {
    ended = true;
    child.stdin.destroy();
    said.end();
    // The shell was killed before it could.
    void rm(folder, { recursive: true, force: true }).catch(() => undefined);
  });
  const until = performance.now() + LOGIN_MS;
  while (!(await listens(path))) {
    if (ended || performance.now() > until) {
      child.stdin.destroy();
      const reason = cleanReason(said.lines.join(' ')) || 'it did not let us in';
      throw new EngineError(
        'unavailable',
        `The container engine cannot be reached by ssh to ${target.host}: ${reason}`,
      );
    }
    await delay(20);
  }
  return { path, hasEnded: () => ended, end: () => child.stdin.destroy() };
}

/** Whether somebody listens: the socket is there a moment before that. */
function listens(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path, () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}

function sshArguments(target: SshTarget, path: string): string[] {
  const options = {
    // Nobody is there to be asked.
    BatchMode: 'yes',
    StrictHostKeyChecking: 'yes',
    ExitOnForwardFailure: 'yes',
    StreamLocalBindMask: '0177',
    ControlMaster: 'no',
    ControlPath: 'none',
    // A machine that is gone without a word is found out.
    ServerAliveInterval: '10',
    ServerAliveCountMax: '3',
  };
  return [
    ...(target.config === undefined ? [] : ['-F', target.config]),
    '-N',
    '-T',
    ...Object.entries(options).flatMap(([name, value]) => ['-o', `${name}=${value}`]),
    '-L',
    `${path}:${target.socket}`,
    ...(target.user === undefined ? [] : ['-l', target.user]),
    ...(target.port === undefined ? [] : ['-p', String(target.port)]),
    '--',
    target.host,
  ];
}
