/**
 * The gateway's SSH server: a client proves a key, the gateway logs in to the container with
 * the platform's, and each channel of the one is joined with one of the other. It ends the SSH of both, so the client
 * needs no key of the container, and the container none of the gateway's.
 */
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import ssh2, { type Client, type Connection, type ParsedKey } from 'ssh2';
import type { SshAccount, SshAccountAuthorizer, SshAuthorizer, SshQuestion } from '../../../proto/gateway/ssh.ts';
import type { AccountCommands } from '../../../proto/ports/account-commands.ts';
import { EngineError } from '../../../proto/ports/engine.ts';
import type { Log } from '../../../proto/ports/log.ts';
import { type ContainerLoginOptions, logInto, writeTogether } from '../../ssh/container-login.ts';
import { signingKey } from '../../ssh/keys.ts';
import { hangUp } from '../../ssh/shell-stream.ts';
import { serveAccountSession } from './account-session.ts';
import { SshAdmission, type SshAdmissionLimits, type Visitor } from './admission.ts';
import { ConnectionLimiter, type SshConnectionLimits } from './connection-limits.ts';
import { serveForwards } from './forwards.ts';
import { Identification, OFFERED, RSA_SIGNATURES, TOWARDS_CONTAINERS } from './handshake.ts';
import {
  agentAsEvent,
  allowGuesses,
  announceSignatures,
  disconnect,
  limitChannels,
  type RawRequest,
  rawRequests,
  socketOf,
} from './internals.ts';
import { serveLogin } from './login.ts';
import { serveSession } from './session.ts';
import { SshEnd } from './ssh-end.ts';

/** Bounds, each with a default. */
export interface SshGatewayLimits extends SshAdmissionLimits, SshConnectionLimits {
  /** From the connection to the login, ms. */
  readonly loginMs: number;
  /** Channels open at once on one connection: sessions, forwarded connections, agents. */
  readonly channels: number;
  /** Between two questions whether the client is there, ms; the third without an answer ends the connection. */
  readonly keepaliveMs: number;
}

const LOGIN_MS = 30_000;
const CHANNELS = 100;
/** The same on a connection to an account. */
const ACCOUNT_CHANNELS = 10;
const KEEPALIVE_MS = 15_000;
/** What the person was told, and what is still under way, may take so long at the end, ms. */
const GOODBYE_MS = 500;
/** Made once: without a reason each abort makes an exception with a stack. */
const GONE = new Error('The client is gone.');
/** A reason of RFC 4253 section 11.1 that OpenSSH shows with its text. */
const PROTOCOL_ERROR = 2;

/** What `SshGateway` needs. */
interface SshGatewayOptions {
  /** How containers are logged in to. */
  readonly containers: ContainerLoginOptions;
  /** Private keys in OpenSSH or PEM form, the preferred one first; all gateways of a platform have the same. */
  readonly hostKeys: readonly string[];
  readonly authorizer: SshAuthorizer;
  /** Who logs in to accounts, and what runs their commands; undefined: nobody does. */
  readonly accounts?: { readonly authorizer: SshAccountAuthorizer; readonly commands: AccountCommands } | undefined;
  readonly log: Log;
  readonly limits?: Partial<SshGatewayLimits>;
}

/** A connection that is open, in whichever state. */
interface Guest {
  readonly socket: Socket;
  readonly address: string;
  readonly port: number | undefined;
  readonly visitor: Visitor;
  readonly end: (text: string) => void;
  /** Aborted when the connection ends. */
  readonly gone: AbortSignal;
  readonly loginTimer: NodeJS.Timeout;
}

/** Serves SSH on sockets that others accept. */
export class SshGateway {
  readonly #options: SshGatewayOptions;
  readonly #admission: SshAdmission;
  readonly #sweeper: ConnectionLimiter;
  readonly #server: ssh2.Server;
  /** By the socket, since ssh2 does not say which of them it speaks of. */
  readonly #guests = new Map<unknown, Guest>();

  constructor(options: SshGatewayOptions) {
    this.#options = options;
    this.#admission = new SshAdmission(options.limits);
    this.#sweeper = new ConnectionLimiter(options.limits);
    this.#server = new ssh2.Server(
      {
        hostKeys: options.hostKeys.flatMap(hostKeysOf),
        algorithms: OFFERED,
        ident: 'Troupe',
        keepaliveInterval: options.limits?.keepaliveMs ?? KEEPALIVE_MS,
        keepaliveCountMax: 3,
      },
      (client) => this.#greet(client),
    );
  }

  /** Connections that are open. */
  get size(): number {
    return this.#guests.size;
  }

  /** Serves a connection, and owns its socket; `port`: the one from 8000 to 8999 by which it came, if it did. */
  serve(socket: Socket, address: string, port: number | undefined): void {
    const visitor = this.#admission.admit(address, () => socket.destroy());
    if (typeof visitor === 'string') {
      // Lines before the identification are for people (RFC 4253 section 4.2).
      const why = visitor === 'punished' ? 'Too many failed logins' : 'Too many logins at once';
      socket.end(`${why} from your address: try again in a few minutes.\r\n`);
      setTimeout(() => socket.destroy(), GOODBYE_MS);
      return;
    }
    const gone = new AbortController();
    const loginMs = this.#options.limits?.loginMs ?? LOGIN_MS;
    const loginTimer = setTimeout(() => socket.destroy(), loginMs);
    this.#guests.set(socket, {
      socket,
      address,
      port,
      visitor,
      loginTimer,
      gone: gone.signal,
      end: () => socket.destroy(),
    });
    socket
      .on('error', () => {})
      .once('close', () => {
        this.#guests.delete(socket);
        clearTimeout(loginTimer);
        visitor.leave();
        gone.abort(GONE);
      });
    // A peer that says goodbye and stays would keep the socket half open.
    socket.once('end', () => setTimeout(() => socket.destroy(), GOODBYE_MS));
    const identification = new Identification();
    const onData = (bytes: Buffer) => {
      const verdict = identification.push(bytes);
      if (verdict === 'more') return;
      socket.off('data', onData);
      if (verdict === 'good') return;
      visitor.mistake();
      socket.end('Invalid SSH identification string.\r\n');
      setTimeout(() => socket.destroy(), GOODBYE_MS);
    };
    socket.on('data', onData);
    socket.setNoDelay(true);
    this.#server.injectSocket(socket);
    writeTogether(socket, [socket]);
  }

  /** Ends all connections, with a word to those behind them. */
  async close(): Promise<void> {
    this.#sweeper.close();
    for (const { end } of [...this.#guests.values()]) end('The gateway is stopping: connect again.');
    await new Promise<void>((resolve) => {
      const look = () => (this.#guests.size === 0 ? resolve() : void setTimeout(look, 10));
      look();
    });
  }

  /** A client that has sent its identification. */
  #greet(client: Connection): void {
    const guest = this.#guests.get(socketOf(client));
    client.on('error', (error: Error & { level?: string; code?: unknown }) => {
      // Bytes that make no sense; a socket that broke and a goodbye have a level or a number.
      if (error.level === undefined && error.code === undefined) guest?.visitor.mistake();
    });
    if (guest === undefined) return void client.end();
    const { socket } = guest;
    let isEnding = false;
    const end = (text: string) => {
      if (isEnding) return;
      isEnding = true;
      if (!socket.destroyed && socket.writable) {
        disconnect(client, PROTOCOL_ERROR, text);
        socket.end();
      }
      setTimeout(() => socket.destroy(), GOODBYE_MS);
    };
    const known: Guest = { ...guest, end };
    this.#guests.set(socket, known);
    announceSignatures(client);
    allowGuesses(client);
    const raw = rawRequests(client);
    let container: ContainerConnection | undefined;
    let account: SshAccount | undefined;
    const { accounts } = this.#options;
    serveLogin(client, {
      port: guest.port,
      ask: (question) => this.#options.authorizer.ask(question),
      find: (question) => this.#options.authorizer.find(question),
      onMistake: guest.visitor.mistake,
      end,
      onProven: async (question, userId) => {
        const result = await this.#enter(known, question, userId);
        if (typeof result === 'string') return result;
        container = result;
        return undefined;
      },
      account: accounts && ((question) => accounts.authorizer.account(question)),
      onAccount: async (proven) => {
        const problem = await this.#enterAccount(known, proven);
        if (problem === undefined) account = proven;
        return problem;
      },
    });
    client.once('ready', () => {
      clearTimeout(guest.loginTimer);
      if (container !== undefined) this.#join(client, socket, container, known, raw);
      else if (account !== undefined) this.#serveAccount(client, account, known);
    });
  }

  /** Takes a proven key in, and logs in to its container. A sentence when that cannot be. */
  async #enter(guest: Guest, question: SshQuestion, userId: string): Promise<ContainerConnection | string> {
    const { address, visitor, end, gone } = guest;
    if (!visitor.enter()) return 'There are too many SSH connections: try again later.';
    const release = this.#options.authorizer.adopt({ ...question, userId, address, end });
    if (release === undefined) return 'You have too many SSH connections: close one.';
    if (gone.aborted) release();
    else gone.addEventListener('abort', release, { once: true });
    const { containerId, fingerprint } = question;
    try {
      const connection = await logInto<ContainerConnection>(
        this.#options.containers,
        containerId,
        gone,
        { agent: new NoAgent(), algorithms: TOWARDS_CONTAINERS },
        (client, socket, succeed) => succeed(() => ({ client, socket })),
      );
      const hangUpInside = () => hangUp(connection.client, connection.socket);
      if (gone.aborted) hangUpInside();
      else gone.addEventListener('abort', hangUpInside, { once: true });
      this.#options.log.info({ containerId, userId, address, fingerprint }, 'SSH login');
      return connection;
    } catch (error) {
      return error instanceof EngineError ? error.message : 'The container cannot be reached.';
    }
  }

  /** Takes a proven key in to its account. A sentence when that cannot be. */
  async #enterAccount({ address, visitor, end, gone }: Guest, account: SshAccount): Promise<string | undefined> {
    if (!visitor.enter()) return 'There are too many SSH connections: try again later.';
    const release = await this.#options.accounts?.authorizer.adoptAccount({ ...account, address, end });
    if (release === undefined) return 'There is no login to accounts here.';
    if (typeof release === 'string') return release;
    if (gone.aborted) release();
    else gone.addEventListener('abort', release, { once: true });
    const { userId, fingerprint } = account;
    this.#options.log.info({ userId, address, fingerprint }, 'SSH login to an account');
    return undefined;
  }

  #serveAccount(client: Connection, account: SshAccount, { socket, address, end, gone }: Guest): void {
    const { accounts } = this.#options;
    if (gone.aborted || accounts === undefined) return;
    const { commands } = accounts;
    limitChannels(client, ACCOUNT_CHANNELS);
    const side = new SshEnd(client, socket);
    gone.addEventListener('abort', this.#sweeper.add([side], end));
    client.on('session', (accept) => {
      serveAccountSession(accept(), { client, end: side, account, address, commands, gone });
    });
  }

  #join(
    client: Connection,
    socket: Socket,
    container: ContainerConnection,
    { end, gone }: Guest,
    raw: () => RawRequest,
  ): void {
    if (gone.aborted) return;
    let isAgentLent = false;
    agentAsEvent(container.client, () => isAgentLent);
    for (const peer of [client, container.client]) limitChannels(peer, this.#options.limits?.channels ?? CHANNELS);
    const sides = {
      client: new SshEnd(client, socket),
      container: new SshEnd(container.client, container.socket),
    };
    writeTogether(socket, [container.socket]);
    writeTogether(container.socket, [socket]);
    const forget = this.#sweeper.add([sides.client, sides.container], end);
    gone.addEventListener('abort', forget);
    container.client.on('close', () => {
      // What it said last goes first.
      setTimeout(() => end('The connection to the container has ended.'), GOODBYE_MS / 2);
    });
    const onAgent = () => {
      isAgentLent = true;
    };
    client.on('session', (accept) => {
      serveSession(accept(), { client, container: container.client, sides, raw, onAgent });
    });
    serveForwards({ client, container: container.client, sides });
  }
}

/** Throws what is wrong with a key that cannot be read. */
function hostKeysOf(text: string): { readonly key: ParsedKey }[] {
  const key = signingKey(text);
  if (key instanceof Error) throw key;
  if (key.type !== 'ssh-rsa') return [{ key }];
  // Under its own name ssh2 would offer SHA-1 with it, whatever algorithms it was told.
  return RSA_SIGNATURES.map((type) => ({ key: Object.create(key, { type: { value: type, enumerable: true } }) }));
}

interface ContainerConnection {
  readonly client: Client;
  readonly socket: Duplex;
}

/** ssh2 asks a server for agent forwarding only when it has an agent itself; this one is never used. */
class NoAgent extends ssh2.BaseAgent {
  override getIdentities(done: (error: Error | undefined, keys?: never[]) => void): void {
    done(undefined, []);
  }
  override sign(): void {}
}
