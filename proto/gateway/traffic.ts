/** Requests at the gateway, and what is decided about them. */
import type { CacheMode } from './cache-mode.ts';
import type { SignGatewayToken } from './gateway-token.ts';

/** Where an HTTP request came in, and what it asks for. */
export interface ProxyRequest {
  readonly method: string;
  /** In lower case, without port and trailing dot. */
  readonly host: string;
  /** Port that the Host names, if it does. */
  readonly hostPort: number | undefined;
  /** Path and query as sent. */
  readonly target: string;
  /** Whether the request has a body, and header fields by lower-case name. */
  readonly hasBody: boolean;
  field(name: string): string | undefined;
  /** Address of the client. */
  readonly address: string;
  /** Port of ours on which it came. */
  readonly port: number;
  /** Whether TLS was ended here. */
  readonly isEncrypted: boolean;
}

/** A TCP address of an origin. */
export interface UpstreamAddress {
  readonly host: string;
  readonly port: number;
}

/** An answer of the gateway itself. `body` is text for people, plain unless `contentType` says otherwise. */
export interface ProxyReply {
  readonly status: number;
  readonly headers?: readonly (readonly [name: string, value: string])[];
  readonly contentType?: string;
  readonly body?: string;
  /** Sent with 200 in the place of `body`, in parts as the client takes them: bytes that stay as they are. */
  readonly bytes?: Buffer;
}

/** What to do with a request. */
export type ProxyDecision = { readonly reply: ProxyReply } | ProxyForward;

/** Where a request goes. */
export interface ProxyForward {
  readonly forward: UpstreamAddress;
  /** Path and query to ask the origin for. */
  readonly target: string;
  /** A service of the platform, which everybody needs: short bodies are read first, and it takes more connections. */
  readonly isService?: boolean;
  /** Signs the request, so that the service believes the client's address; for services of the platform only. */
  readonly gatewayToken?: SignGatewayToken;
  /**
   * The origin is a user's container, of the platform with these domains: what opens the platform is not passed on to
   * it, and it sets no cookies for names of the platform and of other containers.
   */
  readonly tenantOf?: readonly string[];
  /** The container; undefined for one that no container answers. */
  readonly containerId?: string;
  /** What may be kept of the answers, and given from what is kept; undefined: `default`. */
  readonly cache?: CacheMode | undefined;
  /** The visitor was let in at a guarded port: neither kept nor answered from what is kept. */
  readonly isGuarded?: true;
  /** The rule that let the visitor in; undefined: nobody was asked. */
  readonly rule?: number;
  /** A cookie for the answer, the value of a Set-Cookie. */
  readonly setsCookie?: string | undefined;
  /** `Authorization` is not for the origin. */
  readonly dropsAuthorization?: true | undefined;
  /** Strict-Transport-Security for the answer, if the origin says nothing of it. */
  readonly strictTransport?: string | undefined;
  /** Told once when the request is over, however it ended. */
  readonly onOver?: (() => void) | undefined;
  /**
   * Told once when it is forwarded what ends the request before its time: with an answer where it has none yet. That
   * does nothing once the request is over.
   */
  readonly onBegin?: ((end: (reply: ProxyReply) => void) => void) | undefined;
  /** Told the size of each part of the body before it goes on. An answer ends the request with it. */
  readonly onBody?: ((bytes: number) => ProxyReply | undefined) | undefined;
}

/**
 * The field in which a gateway sends its token (gateway-token.ts) to services of its own platform, which then believe
 * its X-Forwarded-For. It is never taken from a client, and never sent to a container.
 */
export const GATEWAY_FIELD = 'X-Troupe-Gateway';

/** One finished request, for the access log and the metrics. */
export interface AccessEntry {
  readonly address: string;
  readonly method: string;
  readonly host: string;
  readonly target: string;
  readonly minor: 0 | 1;
  /** What was answered; 499 when the client left before. */
  readonly status: number;
  /** Bytes of body sent to the client. */
  readonly bytes: number;
  /** Milliseconds from the end of the request's head to the end of the response. */
  readonly ms: number;
  /** `host:port` of the origin; `cache` when it was not asked; empty when the gateway answered itself. */
  readonly upstream: string;
  /** Whether the origin gave no answer, or not all of it. */
  readonly isBroken: boolean;
  readonly referer: string;
  readonly userAgent: string;
}
