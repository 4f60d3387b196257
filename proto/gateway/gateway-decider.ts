/** What the gateway's listeners ask of whoever decides where traffic goes. */
import type { SshAuthorizer } from './ssh.ts';
import type { ProxyDecision, ProxyRequest, UpstreamAddress } from './traffic.ts';

/**
 * What becomes of a TLS connection by its server name:
 *
 * - `platform`, `mapped`: TLS ends at the gateway, with the certificate of the platform's hosts or of the mapped name
 * - `challenge`: the gateway answers a certificate authority that checks the name
 * - `passTo`: the bytes go to this address as they are, to this container
 * - `refuse`: no such name is served
 */
export type NameDecision = 'platform' | 'mapped' | 'challenge' | PassedName | 'refuse';

/** TLS that is passed on. */
export interface PassedName {
  readonly passTo: UpstreamAddress;
  readonly containerId: string;
}

/** By which way something came in that goes on: a request, or TLS that is passed on. */
export interface Entrance {
  /** Host, or server name. */
  readonly host: string;
  /** Ours. */
  readonly port: number;
  readonly isEncrypted: boolean;
  /** Where the host led. */
  readonly containerId: string;
  /** The rule that let the visitor in; undefined: nobody was asked. */
  readonly rule: number | undefined;
}

/** A connection that outlives a request: TLS passed through, or another protocol after an upgrade. */
export interface LongConnection {
  readonly kind: 'passthrough' | 'upgrade';
  /** Server name or host. */
  readonly host: string;
  readonly protocol: string;
  /** Address of the client. */
  readonly address: string;
  /** Ends it at once. */
  readonly end: () => void;
}

/** A client's connection for requests, one after the other. */
export interface EndableConnection {
  /** Ends it: now if it is idle, else with the answer under way. */
  drain(): void;
}

/** Connections for requests, by the address of the client. */
export interface ClientConnections {
  /** Takes it under supervision until `remove`. */
  add(address: string, connection: EndableConnection): void;
  remove(address: string, connection: EndableConnection): void;
}

/** Decides about traffic. Decisions are synchronous whenever they can be, and never throw or reject. */
export interface GatewayDecider {
  /** About one request. */
  decide(request: ProxyRequest): ProxyDecision | Promise<ProxyDecision>;
  /** Whether a host is the platform's own: its domain, or that of a service or the registry. */
  isPlatformHost?(host: string): boolean;
  /**
   * About a TLS connection on our `port`. `serverName` is undefined when the client named none. `isChallenge`: it
   * offers `acme-tls/1` and nothing else, as certificate authorities do (RFC 8737).
   */
  decideName(serverName: string | undefined, port: number, isChallenge: boolean): NameDecision | Promise<NameDecision>;
  /** Takes a long connection under supervision; call what comes back when it ended. */
  adopt(connection: LongConnection): () => void;
  /** Has those of all clients. */
  readonly clients: ClientConnections;
  /** About logins by SSH. */
  readonly ssh: SshAuthorizer;
}

/** The listeners, as the decider sees them. */
export interface IngressListeners {
  /** The ports on which the gateway listens. */
  readonly ports: { readonly http: number; readonly https: number; readonly ssh: number };
  /** Listens on exactly these ports besides. Resolves when it was tried; a port that cannot be opened is retried. */
  listenOn(ports: ReadonlySet<number>): Promise<void>;
}
