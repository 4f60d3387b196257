/** Logs in to the SSH server of a container with the platform's key: a connection of the engine, and SSH on it. */
import type { Duplex } from 'node:stream';
import ssh2, { type Client, type ConnectConfig, type ParsedKey, type PublicKeyAuthMethod } from 'ssh2';
import { type Engine, EngineError } from '../../proto/ports/engine.ts';
import type { Log } from '../../proto/ports/log.ts';
import { signingKey } from './keys.ts';
import { hangUp } from './shell-stream.ts';

/** Where containers are reached and who logs in; the times have defaults. */
export interface ContainerLoginOptions {
  /** Reaches a port inside a container. */
  readonly dial: Engine['dial'];
  /** The platform's private key in OpenSSH format, asked for at every opening. */
  readonly privateKey: () => Promise<string>;
  /** Whom to log in as. */
  readonly username: string;
  readonly log: Log;
  /** Decides about a container's host key (a blob of RFC 4253 section 6.6). Without it every key is taken. */
  readonly hostKeys?: (containerId: string, hostKey: Buffer) => boolean | Promise<boolean>;
  /** From the TCP connection until what was wanted of the server is there. Default 15 s. */
  readonly loginTimeoutMs?: number;
  /** Between keepalives; a server that answers none of three is given up. Default 15 s. */
  readonly keepaliveMs?: number;
}

const SSH_PORT = 22;
/** Until the TCP connection stands. */
const CONNECT_TIMEOUT_MS = 10_000;
/** For whoever wants in by SSH: what is missing is in the image. */
const NO_SERVER = 'The image of this container has no SSH server: nothing answers on its port 22.';

/** The connection ended too early, and the server may take another: a change of keys ends logins under way. */
export class LoginLost extends EngineError {
  constructor(options?: { cause?: unknown }) {
    super('unavailable', 'The connection to the container was lost.', options);
    // A caller that does not try again treats it as any error of the engine.
    this.name = 'EngineError';
  }
}

/**
 * What is done on a connection that is logged in: exactly one of the two is called once it is there or cannot be.
 * `succeed` makes the value in the turn in which it is called, unless it is too late.
 */
export type Proceed<T> = (
  client: Client,
  socket: Duplex,
  succeed: (make: () => T) => void,
  fail: (error: EngineError) => void,
) => void;

/**
 * Dials, logs in and proceeds. Rejects with EngineError only: what `dial` rejected with, `no_listener` when the
 * connection ended before SSH began, `refused` when the key or the host key was not accepted, `unavailable` on a
 * timeout, a lost connection (LoginLost) and when `signal` was aborted (its reason is the cause), and what `proceed`
 * failed with. Nothing stays open after a rejection.
 */
export async function logInto<T>(
  options: ContainerLoginOptions,
  containerId: string,
  signal: AbortSignal,
  config: Partial<ConnectConfig>,
  proceed: Proceed<T>,
): Promise<T> {
  const privateKey = signingKey(await options.privateKey());
  if (privateKey instanceof Error) {
    throw new EngineError('unavailable', 'The SSH key of the platform cannot be read.');
  }
  const socket = await dial(options, containerId, signal);
  return login(options, { containerId, socket, privateKey, signal, config, proceed });
}

/** The engine's connection; one that comes after `signal` was aborted is ended. */
function dial(options: ContainerLoginOptions, containerId: string, signal: AbortSignal): Promise<Duplex> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(abandoned(signal));
    if (signal.aborted) return onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
    options
      .dial(containerId, SSH_PORT, { timeoutMs: CONNECT_TIMEOUT_MS, signal })
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

interface Attempt<T> {
  readonly containerId: string;
  readonly socket: Duplex;
  readonly privateKey: ParsedKey;
  readonly signal: AbortSignal;
  readonly config: Partial<ConnectConfig>;
  readonly proceed: Proceed<T>;
}

/** SSH on an open connection, up to what was wanted of it. On failure the connection is ended. */
function login<T>(options: ContainerLoginOptions, attempt: Attempt<T>): Promise<T> {
  const { socket, signal } = attempt;
  return new Promise((resolve, reject) => {
    const client = new ssh2.Client();
    let settled = false;
    /** The key that the server proved first. */
    let accepted: Buffer | undefined;
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
    client.on('close', () => fail(new LoginLost()));
    client.on('ready', () => {
      try {
        attempt.proceed(
          client,
          socket,
          (make) => {
            if (settle()) resolve(make());
          },
          fail,
        );
      } catch (cause) {
        fail(new LoginLost({ cause }));
      }
    });
    const publicKey: PublicKeyAuthMethod = { type: 'publickey', username: options.username, key: attempt.privateKey };
    client.connect({
      ...attempt.config,
      sock: socket,
      readyTimeout: 0, // The timer above covers it, and what comes after it too.
      keepaliveInterval: options.keepaliveMs ?? 15_000,
      keepaliveCountMax: 3,
      // Without compression: a container could send a bomb.
      algorithms: { ...attempt.config.algorithms, compress: ['none'] },
      authHandler: [publicKey],
      username: options.username,
      hostVerifier: (key: Buffer, verify: (known: boolean) => void) => {
        // Asked at each exchange of keys. An answer that comes later would let ssh2 send what may not be sent before
        // NEWKEYS.
        if (accepted !== undefined) return verify(accepted.equals(key));
        const copy = Buffer.from(key);
        void verifyHost(options, attempt.containerId, copy).then((isKnown) => {
          if (isKnown) accepted = copy;
          verify(isKnown);
        });
      },
    });
    writeTogether(socket, [socket]);
    if (signal.aborted) onAbort();
  });
}

async function verifyHost(options: ContainerLoginOptions, containerId: string, key: Buffer): Promise<boolean> {
  if (options.hostKeys === undefined) return true;
  try {
    return await options.hostKeys(containerId, key);
  } catch (error) {
    options.log.warn({ containerId, err: error }, 'the host key of a container could not be checked');
    return false;
  }
}

function abandoned(signal: AbortSignal): EngineError {
  return new EngineError('unavailable', 'The connection was closed before it opened.', { cause: signal.reason });
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
  return new LoginLost(options);
}

/**
 * What is written to `others` because of bytes from `socket` leaves together, at the end of the loop's turn: ssh2
 * writes each packet by itself, and an answer is often three of them.
 */
export function writeTogether(socket: Duplex, others: readonly Duplex[]): void {
  let isHeld = false;
  const release = () => {
    isHeld = false;
    for (const other of others) other.uncork();
  };
  const hold = () => {
    if (isHeld) return;
    isHeld = true;
    for (const other of others) other.cork();
    setImmediate(release);
  };
  // Before ssh2 looks at the bytes.
  socket.prependListener('data', hold);
}
