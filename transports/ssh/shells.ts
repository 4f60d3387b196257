/** Opens shells in containers (Shells of proto/ports.ts): a connection of the engine, SSH on it, a PTY and a shell. */
import type { Duplex } from 'node:stream';
import ssh2, { type PublicKeyAuthMethod } from 'ssh2';
import { type Engine, EngineError, type Log, type Shell, type Shells } from '../../proto/ports.ts';
import { cells, hangUp, shellOver } from './shell-stream.ts';

/** What `sshShells` needs; the times have defaults. */
export interface SshShellsOptions {
  /** Reaches a port inside a container. */
  readonly dial: Engine['dial'];
  /** The platform's private key in OpenSSH format, asked for at every opening. */
  readonly privateKey: () => Promise<string>;
  /** Whom to log in as. */
  readonly username: string;
  readonly log: Log;
  /** Decides about a container's host key (a blob of RFC 4253 section 6.6). Without it every key is taken. */
  readonly hostKeys?: (containerId: string, hostKey: Buffer) => boolean | Promise<boolean>;
  /** Until the TCP connection stands. Default 10 s. */
  readonly connectTimeoutMs?: number;
  /** From there until the shell runs. Default 15 s. */
  readonly loginTimeoutMs?: number;
  /** Between keepalives; a server that answers none of three is given up. Default 15 s. */
  readonly keepaliveMs?: number;
}

const SSH_PORT = 22;
/** For whoever wants in by SSH: what is missing is in the image. */
const NO_SERVER = 'The image of this container has no SSH server: nothing answers on its port 22.';
const LOST = 'The connection to the container was lost.';
const TERM = /^[A-Za-z0-9][A-Za-z0-9.+_-]{0,63}$/;

/**
 * Shells over SSH. `open` rejects with EngineError only: what `dial` rejected with, `no_listener` when the connection
 * ended before SSH began, `refused` when the key or the host key was not accepted or no PTY shell was granted,
 * `unavailable` on a timeout, a lost connection and when `signal` was aborted (its reason is the cause). Nothing stays
 * open after a rejection.
 */
export function sshShells(options: SshShellsOptions): Shells {
  return {
    async open(containerId, size, signal) {
      const privateKey = await options.privateKey();
      if (ssh2.utils.parseKey(privateKey) instanceof Error) {
        throw new EngineError('unavailable', 'The SSH key of the platform cannot be read.');
      }
      const socket = await dial(options, containerId, signal);
      return login(options, { containerId, socket, privateKey, size, signal });
    },
  };
}

/** The engine's connection; one that comes after `signal` was aborted is ended. */
function dial(options: SshShellsOptions, containerId: string, signal: AbortSignal): Promise<Duplex> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(abandoned(signal));
    if (signal.aborted) return onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
    options
      .dial(containerId, SSH_PORT, { timeoutMs: options.connectTimeoutMs ?? 10_000, signal })
      .then(
        (socket) => (signal.aborted ? void socket.destroy() : resolve(socket)),
        (cause: unknown) => reject(explainDial(cause)),
      )
      .finally(() => signal.removeEventListener('abort', onAbort));
  });
}

function explainDial(cause: unknown): EngineError {
  if (!(cause instanceof EngineError)) {
    return new EngineError('unavailable', 'The container cannot be reached.', { cause });
  }
  return cause.code === 'no_listener' ? new EngineError('no_listener', NO_SERVER, { cause }) : cause;
}

interface Login {
  readonly containerId: string;
  readonly socket: Duplex;
  readonly privateKey: string;
  readonly size: { readonly cols: number; readonly rows: number; readonly term: string };
  readonly signal: AbortSignal;
}

/** SSH on an open connection, up to a running shell. On failure the connection is ended. */
function login(options: SshShellsOptions, attempt: Login): Promise<Shell> {
  const { socket, signal } = attempt;
  return new Promise((resolve, reject) => {
    const client = new ssh2.Client();
    let settled = false;
    const settle = (): boolean => {
      if (settled) return false;
      settled = true;
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
      return true;
    };
    const fail = (error: EngineError): void => {
      if (!settle()) return;
      hangUp(client, socket);
      reject(error);
    };
    const onAbort = () => fail(abandoned(signal));
    const timer = setTimeout(
      () => fail(new EngineError('unavailable', 'The SSH server of the container did not answer in time.')),
      options.loginTimeoutMs ?? 15_000,
    );
    signal.addEventListener('abort', onAbort, { once: true });

    // These stay for the client's life: an 'error' that nobody listens to would end the process.
    client.on('error', (error) => fail(explain(error)));
    client.on('close', () => fail(new EngineError('unavailable', LOST)));
    client.on('ready', () => {
      try {
        client.shell(window(attempt.size), (cause, channel) => {
          if (cause) fail(new EngineError('refused', 'The container does not grant a terminal.', { cause }));
          else if (settle()) resolve(shellOver(client, socket, channel));
        });
      } catch (cause) {
        fail(new EngineError('unavailable', LOST, { cause }));
      }
    });
    const publicKey: PublicKeyAuthMethod = { type: 'publickey', username: options.username, key: attempt.privateKey };
    client.connect({
      sock: socket,
      readyTimeout: 0, // The timer above covers it, and the shell's opening too.
      keepaliveInterval: options.keepaliveMs ?? 15_000,
      keepaliveCountMax: 3,
      algorithms: { compress: ['none'] }, // A container could send a bomb.
      authHandler: [publicKey],
      username: options.username,
      hostVerifier: (key: Buffer, verify: (known: boolean) => void) => {
        void verifyHost(options, attempt.containerId, key).then(verify);
      },
    });
    if (signal.aborted) onAbort();
  });
}

async function verifyHost(options: SshShellsOptions, containerId: string, key: Buffer): Promise<boolean> {
  if (options.hostKeys === undefined) return true;
  try {
    return await options.hostKeys(containerId, key);
  } catch (error) {
    options.log.warn({ containerId, err: error }, 'the host key of a container could not be checked');
    return false;
  }
}

function window(size: Login['size']) {
  const term = TERM.test(size.term) ? size.term : 'xterm-256color';
  return { term, cols: cells(size.cols), rows: cells(size.rows), width: 0, height: 0 };
}

function abandoned(signal: AbortSignal): EngineError {
  return new EngineError('unavailable', 'The terminal was closed before it opened.', { cause: signal.reason });
}

/** What an error of ssh2 means to the one who wanted a shell; `level` is how ssh2 tells them apart. */
function explain(cause: Error & { level?: string; code?: unknown }): EngineError {
  const options = { cause };
  if (cause.level === 'client-authentication') {
    return new EngineError('refused', 'The container does not accept the key of the platform.', options);
  }
  if (cause.level === 'protocol' && cause.message === 'Connection lost before handshake') {
    return new EngineError('no_listener', NO_SERVER, options);
  }
  if (cause.level === 'handshake' && cause.message.startsWith('Host denied')) {
    return new EngineError('refused', 'The container has another host key than before.', options);
  }
  // Bytes that make no sense come without a level; a disconnect that the server announced has a number.
  const isNonsense = cause.level === undefined && typeof cause.code !== 'number';
  if (isNonsense || cause.level === 'handshake' || cause.level === 'protocol') {
    return new EngineError('refused', 'The SSH server of the container cannot be talked to.', options);
  }
  return new EngineError('unavailable', LOST, options);
}
