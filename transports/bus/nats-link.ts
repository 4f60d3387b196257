import { setTimeout as sleep } from 'node:timers/promises';
import { JetStreamApiCodes, JetStreamApiError } from '@nats-io/jetstream';
import {
  AuthorizationError,
  ClosedConnectionError,
  type ConnectionOptions,
  connect,
  credsAuthenticator,
  DrainingConnectionError,
  InvalidArgumentError,
  type Msg,
  type NatsConnection,
  NoRespondersError,
  PermissionViolationError,
  RequestError,
  type Subscription,
  UserAuthenticationExpiredError,
} from '@nats-io/transport-node';
import { backoffMs, WIDE_JITTER } from '../../lib/waiting.ts';
import { BusError } from '../../proto/ports/bus.ts';
import type { Log } from '../../proto/ports/log.ts';

/** How much too early the wall clock must be to count as set back, ms: more than it is slewed or read late. */
const NOTICEABLE = 500;

/**
 * Tells when the wall clock was set back. The client of NATS waits for a time of that clock before it tries a server
 * again: after one hour back it would stay away for an hour.
 */
class ClockStep {
  readonly #times: number;
  #ahead = aheadOfUptime();
  #left = 0;

  /** `times`: how many questions are answered with true for each time it was. */
  constructor(times: number) {
    this.#times = times;
  }

  /** Whether it was, since the last question. */
  ask(): boolean {
    const ahead = aheadOfUptime();
    if (ahead < this.#ahead - NOTICEABLE) this.#left = this.#times;
    this.#ahead = ahead;
    if (this.#left === 0) return false;
    this.#left -= 1;
    return true;
  }
}

function aheadOfUptime(): number {
  return Date.now() - performance.now();
}

/** Where the servers are and how to be let in. */
export interface NatsAddress {
  /** `host:port` each. */
  readonly servers: readonly string[];
  readonly user?: string;
  readonly password?: string;
  readonly token?: string;
  /** The text of a .creds file. */
  readonly credentials?: string;
  /** Speak TLS, or do not connect. PEM texts; without `ca` the system's authorities count. */
  readonly tls?: { readonly ca?: string; readonly cert?: string; readonly key?: string };
}

/** First and longest pause between two attempts to connect; each is drawn from half to one and a half of it. */
const BACKOFF = { minMs: 200, maxMs: 5000 };
const CONNECT_TIMEOUT_MS = 5000;
/** A server that answers no ping for two of these counts as gone. */
const PING_MS = 10_000;
/** Servers of a cluster, with those that the client hears of. */
const MAX_SERVERS = 9;

export interface LinkSubscription {
  /** No message is handed out from here on. */
  end(): void;
  /** Ends once what the server has sent by now was handed out. */
  drain(): Promise<void>;
}

interface Registered {
  readonly pattern: string;
  readonly queue: string | undefined;
  readonly handler: (message: Msg) => void;
  live: Subscription | undefined;
}

/**
 * One connection that is made again for ever, until closed. Subscriptions outlive it; what is published while there is
 * none is dropped here, since the client would keep it without bound and then throw it away.
 */
export class NatsLink {
  readonly #log: Log;
  readonly #address: NatsAddress;
  readonly #ending = new AbortController();
  readonly #running: Promise<void>;
  readonly #subscriptions = new Set<Registered>();
  readonly #onUp = new Set<() => void>();
  readonly #waiting = new Set<() => void>();
  #connection: NatsConnection | undefined;
  #up = false;
  #problem: { readonly text: string; readonly refused: boolean } | undefined;
  #downSince = performance.now();
  readonly #setBack = new ClockStep(MAX_SERVERS);

  constructor(address: NatsAddress, name: string, log: Log) {
    this.#address = address;
    this.#log = log.child({ nats: address.servers.join(',') });
    this.#running = this.#run(name);
  }

  get isUp(): boolean {
    return this.#up;
  }

  get isClosed(): boolean {
    return this.#ending.signal.aborted;
  }

  /** What is wrong, for people; undefined while connected. */
  get problem(): string | undefined {
    if (this.#up) return undefined;
    const seconds = Math.round((performance.now() - this.#downSince) / 1000);
    const reason = this.#problem === undefined ? '' : ` (${this.#problem.text})`;
    return `NATS at ${this.#address.servers.join(', ')} has not been reached for ${seconds} s${reason}`;
  }

  /** Whether the last attempt was turned away because of who we are. */
  get isRefused(): boolean {
    return this.#problem?.refused === true;
  }

  /** The connection, while it stands. Throws BusError `unavailable`, or `closed`. */
  get connection(): NatsConnection {
    this.check();
    if (!this.#up || this.#connection === undefined) {
      throw new BusError('unavailable', this.problem ?? 'NATS is not connected yet');
    }
    return this.#connection;
  }

  /** Throws BusError `closed` when it is. */
  check(): void {
    if (this.isClosed) throw new BusError('closed', 'The bus is closed.');
  }

  /** The connection, waited for at most `ms`. Rejects like `connection` throws. */
  async wait(ms: number): Promise<NatsConnection> {
    this.check();
    if (!this.#up) {
      await new Promise<void>((resolve) => {
        const done = () => {
          clearTimeout(timer);
          this.#waiting.delete(done);
          resolve();
        };
        const timer = setTimeout(done, ms);
        this.#waiting.add(done);
      });
    }
    return this.connection;
  }

  /** Calls `handler` after each time the connection came to stand. */
  onUp(handler: () => void): void {
    this.#onUp.add(handler);
  }

  /** Forgets `handler`. */
  offUp(handler: () => void): void {
    this.#onUp.delete(handler);
  }

  /** Subscribes now, and again on every connection. */
  subscribe(pattern: string, handler: (message: Msg) => void, queue?: string): LinkSubscription {
    const entry: Registered = { pattern, queue, handler, live: undefined };
    this.#subscriptions.add(entry);
    if (this.#connection?.isClosed() === false) this.#begin(entry, this.#connection);
    return {
      end: () => {
        this.#subscriptions.delete(entry);
        entry.live?.unsubscribe();
      },
      drain: async () => {
        this.#subscriptions.delete(entry);
        if (entry.live?.isClosed() === false) await entry.live.drain().catch(() => undefined);
      },
    };
  }

  /** Sends what is published and ends. */
  async close(): Promise<void> {
    if (!this.isClosed) {
      if (this.#up)
        await Promise.race([this.#connection?.flush().catch(() => undefined), sleep(1000, undefined, { ref: false })]);
      this.#ending.abort();
      for (const done of [...this.#waiting]) done();
      await this.#connection?.close();
    }
    await this.#running;
  }

  async #run(name: string): Promise<void> {
    const { signal } = this.#ending;
    let failures = 0;
    while (!signal.aborted) {
      try {
        const connection = await connect({ ...this.#options(name), servers: await this.#reachableFirst(name) });
        failures = 0;
        await this.#follow(connection);
      } catch (error) {
        failures += 1;
        this.#problem = { text: messageOf(error), refused: isRefusedLogin(error) };
        this.#log.warn({ error: messageOf(error) }, 'cannot connect to NATS');
        for (const done of [...this.#waiting]) if (this.#problem.refused) done();
      }
      if (!signal.aborted) await sleep(pause(failures), undefined, { signal }).catch(() => undefined);
    }
  }

  /**
   * The servers, one that answers in front. The client forgets for ever those that it cannot reach before its first
   * connection, also if they are only late; so it is made to begin with one that it can.
   */
  async #reachableFirst(name: string): Promise<string[]> {
    const servers = [...this.#address.servers];
    if (servers.length === 1) return servers;
    // Many clients spread over the servers.
    for (let left = servers.length; left > 1; left -= 1) {
      const [moved] = servers.splice(Math.floor(Math.random() * left), 1);
      if (moved !== undefined) servers.push(moved);
    }
    let problem: unknown;
    for (const server of servers) {
      if (this.isClosed) break;
      try {
        await (await connect({ ...this.#options(name), servers: server })).close();
        return [server, ...servers.filter((other) => other !== server)];
      } catch (error) {
        problem = error;
      }
    }
    throw problem ?? new BusError('closed', 'The bus is closed.');
  }

  /** Keeps track of a connection that reconnects by itself, until it is closed for good. */
  async #follow(connection: NatsConnection): Promise<void> {
    this.#connection = connection;
    if (this.isClosed) await connection.close();
    const statuses = connection.status();
    for (const entry of this.#subscriptions) this.#begin(entry, connection);
    this.#rise(connection);
    for await (const status of statuses) {
      if (status.type === 'reconnect') this.#rise(connection);
      else if (status.type === 'disconnect') this.#fall('the connection was lost');
      else if (status.type === 'error') {
        if (!this.#up) this.#problem = { text: messageOf(status.error), refused: isRefusedLogin(status.error) };
        this.#log.warn({ error: messageOf(status.error) }, 'NATS reports an error');
      }
    }
    const reason = await connection.closed();
    this.#fall(reason === undefined ? 'the connection was closed' : messageOf(reason));
    this.#connection = undefined;
  }

  #rise(connection: NatsConnection): void {
    if (this.isClosed) return;
    this.#up = true;
    this.#problem = undefined;
    this.#log.info({ server: connection.getServer() }, 'connected to NATS');
    for (const handler of [...this.#onUp]) handler();
    for (const done of [...this.#waiting]) done();
  }

  #fall(reason: string): void {
    if (!this.#up) return;
    this.#up = false;
    this.#downSince = performance.now();
    this.#problem = { text: reason, refused: false };
    if (!this.isClosed) this.#log.warn({ reason }, 'NATS is away');
  }

  #begin(entry: Registered, connection: NatsConnection): void {
    const { pattern, queue, handler } = entry;
    entry.live = connection.subscribe(pattern, {
      ...(queue === undefined ? {} : { queue }),
      callback: (error, message) => {
        if (error === null) handler(message);
        else this.#log.error({ subject: pattern, error: messageOf(error) }, 'NATS ended a subscription');
      },
    });
  }

  #options(name: string): ConnectionOptions {
    const { user, password, token, credentials, tls } = this.#address;
    return {
      name,
      noRandomize: true,
      timeout: CONNECT_TIMEOUT_MS,
      pingInterval: PING_MS,
      maxPingOut: 2,
      maxReconnectAttempts: -1,
      // A wrong password may be put right on the server: it does not end the reconnecting.
      ignoreAuthErrorAbort: true,
      // Its last try of a server then lies in the future: none is waited for.
      reconnectDelayHandler: () =>
        this.#setBack.ask()
          ? Number.NEGATIVE_INFINITY
          : pause(Math.log2(1 + (performance.now() - this.#downSince) / 1000)),
      noAsyncTraces: true,
      ...(user === undefined ? {} : { user }),
      ...(password === undefined ? {} : { pass: password }),
      ...(token === undefined ? {} : { token }),
      ...(credentials === undefined ? {} : { authenticator: credsAuthenticator(Buffer.from(credentials)) }),
      ...(tls === undefined ? {} : { tls }),
    };
  }
}

/** Grows with `failures`, jittered so that many clients do not come back together. */
function pause(failures: number): number {
  return backoffMs(failures, BACKOFF, WIDE_JITTER);
}

/** API errors that pass: the server has no resources, elects a leader, or is starting (nats-server's errors.json). */
const passing = new Set([500, 503]);

/** What a NATS client's error means on the bus. A BusError stays itself; TypeErrors are the caller's and stay too. */
export function asBusError(error: unknown, doing: string): Error {
  if (error instanceof BusError || error instanceof TypeError) return error;
  const because = (code: BusError['code'], reason = messageOf(error)) =>
    new BusError(code, `NATS cannot ${doing}: ${reason}`, { cause: error });
  if (error instanceof JetStreamApiError) {
    if (error.code === JetStreamApiCodes.StreamNotFound) return because('no_stream');
    return because(passing.has(error.status) ? 'unavailable' : 'refused');
  }
  if (error instanceof PermissionViolationError || error instanceof InvalidArgumentError) return because('refused');
  if (isNoResponders(error)) return because('unavailable', 'JetStream is not running on the server');
  if (error instanceof ClosedConnectionError || error instanceof DrainingConnectionError) {
    return because('unavailable', 'the connection is closed');
  }
  return because('unavailable');
}

/** Whether nobody listens on a subject, or takes a message into a stream (for the client: no JetStream). */
function isNoResponders(error: unknown): boolean {
  if (error instanceof NoRespondersError) return true;
  // Its class is not exported.
  if (error instanceof Error && error.name === 'JetStreamNotEnabled') return true;
  return error instanceof RequestError && error.isNoResponders();
}

/** Whether the server does not let us in: waiting does not help. */
function isRefusedLogin(error: unknown): boolean {
  return error instanceof AuthorizationError || error instanceof UserAuthenticationExpiredError;
}

/** An error's text for a log; NATS never puts credentials into it. */
export function messageOf(error: unknown): string {
  return error instanceof Error && error.message !== '' ? error.message : String(error);
}
