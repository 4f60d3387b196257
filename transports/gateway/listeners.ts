/**
 * The gateway's listeners: HTTP, HTTPS, and one on each port from 8000 to 8999 while something uses it, where the first
 * bytes tell the protocol.
 */
import type { Socket } from 'node:net';
import { errorText } from '../../lib/errors.ts';
import type {
  Entrance,
  GatewayDecider,
  IngressListeners,
  LongConnection,
  NameDecision,
  PassedName,
} from '../../proto/gateway/gateway-decider.ts';
import type { AccessEntry, UpstreamAddress } from '../../proto/gateway/traffic.ts';
import { PREDECESSOR_MS } from '../../proto/ports/engine.ts';
import type { Log } from '../../proto/ports/log.ts';
import type { IsTrusted } from '../wire/peer-address.ts';
import type { Wire } from '../wire/wire.ts';
import { wireOf } from '../wire/wires.ts';
import type { CacheHook } from './h1/cache-hook.ts';
import type { ClientTimeouts, SwitchedRequest } from './h1/client-context.ts';
import { LeftSockets } from './h1/left-sockets.ts';
import { LoopGuard } from './h1/loop-detection.ts';
import { HttpProxy } from './h1/server.ts';
import { ShutWays } from './h1/shut-ways.ts';
import { SocketDirection } from './h1/socket-direction.ts';
import { type UpstreamLimits, Upstreams } from './h1/upstreams.ts';
import type { SshGateway } from './ssh/gateway.ts';
import { Admission, type ConnectionLimits } from './tcp/admission.ts';
import { DETECT_BYTES, detect, readFirstOfSocket } from './tcp/first-bytes.ts';
import { type CopyListener, listenRaw, listenWires, type RawListener, type RawListenOptions } from './tcp/listen.ts';
import { type SpliceOptions, splice } from './tcp/splice.ts';
import { Turns } from './tcp/turns.ts';
import { type Certificate, type TlsDecision, TlsFront } from './tls/front.ts';
import type { MappedCertificates } from './tls/mapped-certificates.ts';

/** Certificates for the names for which TLS ends here. */
interface GatewayCertificates {
  /** Of the platform's own hosts. It may change: each handshake takes the one of its moment. */
  readonly platform: { readonly context: Certificate };
  /** Of mapped hostnames; undefined: TLS of these is refused. */
  readonly mapped?: Pick<MappedCertificates, 'certificate' | 'challenge'> | undefined;
}

export interface GatewayListenerOptions {
  readonly host: string;
  /** 0 takes any free port. */
  readonly ports: { readonly http: number; readonly https: number; readonly ssh: number };
  /** Serves SSH on its port, and on ports where the first bytes are SSH; undefined: there is no SSH. */
  readonly ssh: Pick<SshGateway, 'serve' | 'close'> | undefined;
  readonly decider: Pick<GatewayDecider, 'decide' | 'isPlatformHost' | 'decideName' | 'adopt' | 'clients'>;
  readonly certificates: GatewayCertificates;
  /** Is asked before a request is forwarded; undefined: nothing is kept. */
  readonly cache?: CacheHook | undefined;
  readonly onAccess: (entry: AccessEntry) => void;
  readonly log: Log;
  readonly limits?: Partial<ConnectionLimits>;
  /** Of connections to origins. */
  readonly upstreamLimits?: Partial<UpstreamLimits>;
  /** Origins that are asked for several things at a time on one connection. */
  readonly pipelined?: readonly UpstreamAddress[] | undefined;
  readonly timeouts?: Partial<ClientTimeouts> | undefined;
  /** How long first bytes, a hello or a handshake may be waited for, ms. */
  readonly firstBytesMs?: number;
  /** When a port that could not be opened is tried again, ms. */
  readonly retryMs?: number;
  /** How long after `leaveOrigin` WebSockets are left at the latest, ms. */
  readonly leaveMs?: number;
  /** What marks requests that were sent on, a token: those that come back get 508. Undefined: none are known again. */
  readonly loopId?: string | undefined;
  /** Lets HTTP and HTTPS accept more than one connection in a turn of the event loop when connections wait. */
  readonly copyListener?: CopyListener | undefined;
  /** Proxies in front of us. */
  readonly proxies?: FrontProxies | undefined;
}

/** Proxies in front of the gateway. */
export interface FrontProxies {
  readonly isTrusted: IsTrusted;
  /** Whether connections begin with a header of the PROXY protocol; else X-Forwarded-For names the client. */
  readonly sendHeader: boolean;
}

const REFUSE = { refuse: true } as const;
const FIRST_BYTES_MS = 10_000;
/** When a port of a container that could not be opened is tried again, ms. */
const RETRY_MS = 30_000;
/** A long connection without a byte in either direction ends after this, ms. */
const LONG_IDLE_MS = 3_600_000;
/** WebSockets are left until so long before their origin is ended, ms. */
const LEAVE_BEFORE_MS = 3000;

/** Listening sockets and all that came in by them. */
export class GatewayListeners implements IngressListeners {
  readonly #options: GatewayListenerOptions;
  readonly #admission: Admission;
  readonly #turns: Turns;
  readonly #raw: RawListenOptions;
  readonly #upstreams: Upstreams;
  readonly #proxy: HttpProxy;
  readonly #ingress = new Map<number, RawListener>();
  readonly #long = new Map<() => void, LongConnection['kind']>();
  readonly #sockets: LeftSockets;
  readonly #ways = new ShutWays();
  #http: RawListener | undefined;
  #https: RawListener | undefined;
  #ssh: RawListener | undefined;
  #changing: Promise<void> = Promise.resolve();
  #wanted: ReadonlySet<number> = new Set();
  /** Ports of containers that could not be opened, until the next try; and those that were logged. */
  readonly #refused = new Set<number>();
  readonly #told = new Set<number>();
  #again: NodeJS.Timeout | undefined;

  private constructor(options: GatewayListenerOptions) {
    this.#options = options;
    const { proxies, loopId } = options;
    this.#upstreams = new Upstreams(options.upstreamLimits, options.pipelined, ({ host }) =>
      options.cache?.forget?.(host),
    );
    this.#sockets = new LeftSockets(options.leaveMs ?? PREDECESSOR_MS - LEAVE_BEFORE_MS);
    this.#admission = new Admission(options.limits, proxies?.isTrusted);
    this.#turns = new Turns({
      isShared: () => this.#admission.isShared,
      // Turns can only be given to those who have been accepted.
      onWait: () => {
        for (const listener of [this.#http, this.#https]) void listener?.acceptMore();
      },
      isTrusted: proxies?.isTrusted,
    });
    this.#raw = { proxiesWithHeader: proxies?.sendHeader ? proxies.isTrusted : undefined, copy: options.copyListener };
    this.#proxy = new HttpProxy({
      decider: options.decider,
      clients: options.decider.clients,
      upstreams: this.#upstreams,
      cache: options.cache,
      onAccess: options.onAccess,
      isTrusted: proxies?.sendHeader ? undefined : proxies?.isTrusted,
      loop: loopId === undefined ? undefined : new LoopGuard(loopId),
      timeouts: options.timeouts,
      onSwitch: (client, origin, request) => this.#switch(client, origin, request),
    });
  }

  /** Listens. Rejects when a port is taken. */
  static async open(options: GatewayListenerOptions): Promise<GatewayListeners> {
    const listeners = new GatewayListeners(options);
    try {
      const { host, ports } = options;
      listeners.#http = await listeners.#listenWires(host, ports.http, (wire, address) =>
        listeners.#proxy.serveWire(wire, listeners.ports.http, address),
      );
      listeners.#https = await listeners.#listenWires(host, ports.https, (wire, address) =>
        listeners.#front(listeners.ports.https).accept(wire, address),
      );
      const { ssh } = options;
      if (ssh !== undefined)
        listeners.#ssh = await listeners.#listen(host, ports.ssh, (socket, address) =>
          ssh.serve(socket, address, undefined),
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

  /** Open connections by kind: clients of HTTP, long ones, those to origins, and of these the idle ones. */
  connections(): Record<'http' | LongConnection['kind'] | 'origin' | 'origin_idle', number> {
    const counts = { http: this.#proxy.size, upgrade: 0, passthrough: 0, origin: 0, origin_idle: 0 };
    for (const kind of this.#long.values()) counts[kind]++;
    for (const { connections, idle } of this.#upstreams.counts()) {
      counts.origin += connections;
      counts.origin_idle += idle;
    }
    return counts;
  }

  /**
   * Listens on exactly these ports beside its own. Connections of a port that is left stay. One that cannot be opened
   * is told of once, and tried again after a while.
   */
  listenOn(ports: ReadonlySet<number>): Promise<void> {
    this.#changing = this.#changing.then(async () => {
      this.#wanted = ports;
      for (const [port, listener] of this.#ingress) {
        if (ports.has(port)) continue;
        this.#ingress.delete(port);
        // Resolves when its last connection ends: not waited for.
        void listener.close();
      }
      for (const port of this.#refused) if (!ports.has(port)) this.#refused.delete(port);
      for (const port of ports) if (!this.#ingress.has(port) && !this.#refused.has(port)) await this.#openIngress(port);
    });
    return this.#changing;
  }

  async #openIngress(port: number): Promise<void> {
    const isOwn = Object.values(this.ports).includes(port);
    let reason = 'it is a port of the gateway itself';
    if (!isOwn) {
      try {
        const listener = await this.#listen(this.#options.host, port, (socket, address) =>
          this.#detect(socket, port, address),
        );
        this.#ingress.set(port, listener);
        this.#told.delete(port);
        return;
      } catch (error) {
        reason = errorText(error);
      }
    }
    this.#refused.add(port);
    if (!this.#told.has(port)) this.#options.log.warn({ port, reason }, 'a port of a container cannot be opened');
    this.#told.add(port);
    this.#again ??= setTimeout(() => {
      this.#again = undefined;
      this.#refused.clear();
      void this.listenOn(this.#wanted);
    }, this.#options.retryMs ?? RETRY_MS).unref();
  }

  /** The container at this address was just started: requests wait until its program takes connections. */
  expectProgram(address: string): void {
    this.#upstreams.expect(address);
  }

  /** The container at this address is ended soon, since another has its place: clients of WebSockets come again. */
  leaveOrigin(address: string): void {
    this.#sockets.leaveOrigin(address);
  }

  /** Rules or names were taken away, or ask visitors now: what `admits` says no of ends within seconds. */
  endShut(admits: (entrance: Entrance) => boolean): void {
    this.#ways.end(admits, this.#proxy.connections);
  }

  /** Takes no more connections, lets answers under way finish (at most `graceMs`), then ends everything. */
  async close(graceMs: number): Promise<void> {
    clearTimeout(this.#again);
    this.#turns.close();
    this.#sockets.close();
    this.#ways.close();
    const closing = [this.#http, this.#https, this.#ssh, ...this.#ingress.values()].map((listener) =>
      listener?.close(),
    );
    await Promise.all([this.#proxy.close(graceMs), this.#options.ssh?.close()]);
    for (const end of this.#long.keys()) end();
    this.#upstreams.close();
    await Promise.all(closing);
  }

  #listen(host: string, port: number, onConnection: (socket: Socket, address: string) => void): Promise<RawListener> {
    return listenRaw(host, port, this.#admission, onConnection, this.#raw);
  }

  #listenWires(host: string, port: number, onConnection: (wire: Wire, address: string) => void): Promise<RawListener> {
    return listenWires(host, port, this.#admission, onConnection, this.#raw);
  }

  #detect(socket: Socket, port: number, address: string): void {
    readFirstOfSocket(
      socket,
      this.#options.firstBytesMs ?? FIRST_BYTES_MS,
      (bytes) => {
        const detected = detect(bytes);
        return detected === 'undecided' && bytes.length < DETECT_BYTES ? undefined : detected;
      },
      (protocol, bytes) => {
        if (protocol === 'http') this.#proxy.serve(socket, port, address, bytes);
        else if (protocol === 'tls') this.#front(port).accept(wireOf(socket), address, bytes);
        else if (protocol === 'ssh' && this.#options.ssh !== undefined) {
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
        helloMs: this.#options.firstBytesMs ?? FIRST_BYTES_MS,
        turns: this.#turns,
        decide: (name, isChallenge) => {
          const decision = this.#options.decider.decideName(name, port, isChallenge);
          if (decision instanceof Promise) return decision.then((later) => this.#certified(later, name));
          return this.#certified(decision, name);
        },
        onPlain: (socket, address, name) => this.#proxy.serve(socket, port, address, undefined, name),
        onPass: (wire, address, hello, to, name) => this.#pass(wire, { address, host: name, port }, hello, to),
      });
      this.#fronts.set(port, front);
    }
    return front;
  }

  /** The decision with the certificate that it names. */
  #certified(decision: NameDecision, name: string | undefined): TlsDecision | Promise<TlsDecision> {
    if (typeof decision === 'object') return decision;
    const { platform, mapped } = this.#options.certificates;
    if (decision === 'platform') return { end: platform.context };
    if (decision === 'refuse' || name === undefined || mapped === undefined) return REFUSE;
    return decision === 'challenge' ? mapped.challenge(name) : mapped.certificate(name);
  }

  #pass(
    wire: Wire,
    { address, host, port }: Pick<LongConnection, 'address' | 'host'> & { readonly port: number },
    hello: Buffer,
    { passTo, containerId }: PassedName,
  ): void {
    this.#upstreams.open(passTo, address).then(
      (borrowed) => {
        if (wire.isDestroyed) borrowed.release(false);
        else if (!borrowed.outlives()) {
          borrowed.release(false);
          wire.destroy();
        } else {
          const entrance = { host, port, isEncrypted: true, containerId, rule: undefined };
          let [isOver, forget] = [false, () => {}];
          const onEnd = () => {
            isOver = true;
            forget();
          };
          const about = { kind: 'passthrough', host, protocol: 'tls', address } as const;
          const end = this.#join(wire, borrowed.own, about, { first: hello, onEnd });
          if (!isOver) forget = this.#ways.add({ entrance, direction: undefined, end });
        }
      },
      // TLS has no alert for an origin that cannot be reached.
      () => wire.destroy(),
    );
  }

  #switch(client: Wire, origin: Wire, request: SwitchedRequest): void {
    const { host, protocol, address, rest, originHost, entrance } = request;
    let direction: SocketDirection | undefined;
    const back = (...parts: ConstructorParameters<typeof SocketDirection>) => {
      direction = new SocketDirection(...parts);
      direction.begin(rest);
      return direction;
    };
    const forgets: (() => void)[] = [];
    let isOver = false;
    const onEnd = () => {
      isOver = true;
      for (const forget of forgets) forget();
    };
    const isSocket = protocol.toLowerCase() === 'websocket';
    const about = { kind: 'upgrade', host, protocol, address } as const;
    const end = this.#join(client, origin, about, { back: isSocket ? back : undefined, onEnd });
    if (isOver) return;
    if (direction !== undefined) forgets.push(this.#sockets.add(originHost, { direction, end }));
    if (entrance !== undefined) forgets.push(this.#ways.add({ entrance, direction, end }));
  }

  #join(
    client: Wire,
    origin: Wire,
    about: Omit<LongConnection, 'end'>,
    { onEnd, ...options }: Pick<SpliceOptions, 'first' | 'back'> & { readonly onEnd?: () => void },
  ): () => void {
    let ended = () => {};
    const end = splice(client, origin, {
      idleMs: LONG_IDLE_MS,
      ...options,
      onEnd: () => {
        this.#long.delete(end);
        onEnd?.();
        ended();
      },
    });
    this.#long.set(end, about.kind);
    ended = this.#options.decider.adopt({ ...about, end });
    return end;
  }
}
