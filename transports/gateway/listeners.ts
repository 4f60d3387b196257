/**
 * The gateway's listeners: HTTP, HTTPS, and one on each port from 8000 to 8999 while something uses it, where the first bytes tell
 * the protocol (interface section 4.5).
 */
import type { Socket } from 'node:net';
import type { SecureContext } from 'node:tls';
import type { AccessEntry, Route, UpstreamAddress } from '../../proto/gateway.ts';
import type { Log } from '../../proto/ports.ts';
import { HttpProxy } from '../h1/server.ts';
import { Upstreams } from '../h1/upstreams.ts';
import { plainAddress } from '../http/address.ts';
import type { SshGateway } from '../ssh/gateway.ts';
import { Admission, type ConnectionLimits } from '../tcp/admission.ts';
import { DETECT_BYTES, detect } from '../tcp/detect.ts';
import { readFirst } from '../tcp/first-bytes.ts';
import { listenRaw, type RawListener } from '../tcp/listen.ts';
import { splice } from '../tcp/splice.ts';
import { TlsFront } from '../tls/front.ts';

/** What becomes of a TLS connection by its server name. */
export type NameDecision = { readonly end: SecureContext } | { readonly passTo: UpstreamAddress } | 'refuse';

/** A connection that lives on its own: TLS passed through, or another protocol after an upgrade. */
export interface LongConnection {
  readonly kind: 'passthrough' | 'upgrade';
  /** Server name or host. */
  readonly host: string;
  readonly protocol: string;
  readonly address: string;
  /** Ends it at once. */
  readonly end: () => void;
}

export interface GatewayListenerOptions {
  readonly host: string;
  /** 0 takes any free port. */
  readonly ports: { readonly http: number; readonly https: number; readonly ssh: number };
  /** Serves SSH on its port, and where first bytes say that it is spoken. */
  readonly ssh: Pick<SshGateway, 'serve' | 'close'>;
  readonly route: Route;
  readonly decideName: (serverName: string | undefined, port: number) => NameDecision;
  readonly onAccess: (entry: AccessEntry) => void;
  /** Told of each long connection; what it returns is told when that ended, with the bytes from client and origin. */
  readonly onLong: (connection: LongConnection) => (fromClient: number, fromOrigin: number) => void;
  readonly log: Log;
  readonly limits?: Partial<ConnectionLimits>;
}

/** How long first bytes may be waited for, ms. */
const DETECT_MS = 10_000;
/** A long connection without a byte in either direction ends after this, ms. */
const LONG_IDLE_MS = 3_600_000;

/** Listening sockets and all that came in by them. */
export class GatewayListeners {
  readonly #options: GatewayListenerOptions;
  readonly #admission: Admission;
  readonly #upstreams = new Upstreams();
  readonly #proxy: HttpProxy;
  readonly #ingress = new Map<number, RawListener>();
  readonly #long = new Set<() => void>();
  #http: RawListener | undefined;
  #https: RawListener | undefined;
  #ssh: RawListener | undefined;
  #changing: Promise<void> = Promise.resolve();

  private constructor(options: GatewayListenerOptions) {
    this.#options = options;
    this.#admission = new Admission(options.limits);
    this.#proxy = new HttpProxy({
      route: options.route,
      upstreams: this.#upstreams,
      onAccess: options.onAccess,
      onSwitch: (client, origin, { host, protocol }) =>
        this.#join(client, origin, { kind: 'upgrade', host, protocol, address: plainAddress(client.remoteAddress) }),
    });
  }

  /** Listens. Rejects when a port is taken. */
  static async open(options: GatewayListenerOptions): Promise<GatewayListeners> {
    const listeners = new GatewayListeners(options);
    try {
      const { host, ports } = options;
      listeners.#http = await listenRaw(host, ports.http, listeners.#admission, (socket, address) =>
        listeners.#proxy.serve(socket, listeners.ports.http, false, address),
      );
      listeners.#https = await listenRaw(host, ports.https, listeners.#admission, (socket, address) =>
        listeners.#front(listeners.ports.https).accept(socket, address),
      );
      listeners.#ssh = await listenRaw(host, ports.ssh, listeners.#admission, (socket, address) =>
        options.ssh.serve(socket, address, undefined),
      );
      return listeners;
    } catch (error) {
      await listeners.close(0);
      throw error;
    }
  }

  get ports(): { http: number; https: number; ssh: number } {
    return { http: this.#http?.port ?? 0, https: this.#https?.port ?? 0, ssh: this.#ssh?.port ?? 0 };
  }

  /** Listens on exactly these ports beside the two. Connections of a port that is left stay. One that is taken is tried again next time. */
  listenOn(ports: ReadonlySet<number>): Promise<void> {
    this.#changing = this.#changing.then(async () => {
      for (const [port, listener] of this.#ingress) {
        if (ports.has(port)) continue;
        this.#ingress.delete(port);
        // Resolves when its last connection ends: not waited for.
        void listener.close();
      }
      for (const port of ports) {
        if (this.#ingress.has(port)) continue;
        try {
          const listener = await listenRaw(this.#options.host, port, this.#admission, (socket, address) =>
            this.#detect(socket, port, address),
          );
          this.#ingress.set(port, listener);
        } catch (error) {
          this.#options.log.warn({ port, err: error }, 'a port of a container cannot be opened');
        }
      }
    });
    return this.#changing;
  }

  /** Takes no more connections, lets answers under way finish (at most `graceMs`), then ends everything. */
  async close(graceMs: number): Promise<void> {
    const closing = [this.#http, this.#https, this.#ssh, ...this.#ingress.values()].map((listener) =>
      listener?.close(),
    );
    await Promise.all([this.#proxy.close(graceMs), this.#options.ssh.close()]);
    for (const end of this.#long) end();
    this.#upstreams.close();
    await Promise.all(closing);
  }

  #detect(socket: Socket, port: number, address: string): void {
    readFirst(
      socket,
      DETECT_MS,
      (bytes) => {
        const detected = detect(bytes);
        return detected === 'undecided' && bytes.length < DETECT_BYTES ? undefined : detected;
      },
      (protocol, bytes) => {
        if (protocol === 'http') this.#proxy.serve(socket, port, false, address, bytes);
        else if (protocol === 'tls') {
          socket.unshift(bytes);
          this.#front(port).accept(socket, address);
        } else if (protocol === 'ssh') {
          socket.unshift(bytes);
          this.#options.ssh.serve(socket, address, port);
        } else socket.destroy();
      },
      () => socket.destroy(),
    );
  }

  readonly #fronts = new Map<number, TlsFront>();

  #front(port: number): TlsFront {
    let front = this.#fronts.get(port);
    if (front === undefined) {
      front = new TlsFront({
        decide: (name) => {
          const decision = this.#options.decideName(name, port);
          return decision === 'refuse' ? { refuse: true } : decision;
        },
        onPlain: (socket, address) => this.#proxy.serve(socket, port, true, address),
        onPass: (socket, hello, to, name) => this.#pass(socket, hello, to, name),
      });
      this.#fronts.set(port, front);
    }
    return front;
  }

  #pass(socket: Socket, hello: Buffer, to: UpstreamAddress, host: string): void {
    this.#upstreams.open(to).then(
      (lease) => {
        if (socket.destroyed) lease.release(false);
        else
          this.#join(
            socket,
            lease.socket,
            { kind: 'passthrough', host, protocol: 'tls', address: plainAddress(socket.remoteAddress) },
            hello,
          );
      },
      // TLS has no way to say that a server behind the door is away.
      () => socket.destroy(),
    );
  }

  #join(client: Socket, origin: Socket, about: Omit<LongConnection, 'end'>, first?: Buffer): void {
    let ended: (fromClient: number, fromOrigin: number) => void = () => {};
    const end = splice(client, origin, {
      idleMs: LONG_IDLE_MS,
      ...(first === undefined ? {} : { first }),
      onEnd: (fromClient, fromOrigin) => {
        this.#long.delete(end);
        ended(fromClient, fromOrigin);
      },
    });
    this.#long.add(end);
    ended = this.#options.onLong({ ...about, end });
  }
}
