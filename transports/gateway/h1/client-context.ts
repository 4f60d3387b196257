/** What all client connections of one listener share, and how their requests look from outside. */

import type { Entrance, GatewayDecider } from '../../../proto/gateway/gateway-decider.ts';
import type { AccessEntry, ProxyDecision, ProxyForward, ProxyRequest } from '../../../proto/gateway/traffic.ts';
import type { Deadlines, Timed } from '../../wire/deadlines.ts';
import { valuesOf } from '../../wire/h1/fields.ts';
import type { RequestHead } from '../../wire/h1/request-head.ts';
import { clientBehind, type IsTrusted, saysHttps } from '../../wire/peer-address.ts';
import type { Wire } from '../../wire/wire.ts';
import type { CacheHook } from './cache-hook.ts';
import type { LoopGuard } from './loop-detection.ts';
import type { Upstreams } from './upstreams.ts';
import type { Forwarded } from './write-heads.ts';

export interface ClientTimeouts {
  /** From the first byte of a head (or the connection's start) to its end, ms. */
  readonly headMs: number;
  /** Between requests, ms (60 s). */
  readonly idleMs: number;
  /** Without any progress of a request or a response, ms. */
  readonly stallMs: number;
}

export const CLIENT_TIMEOUTS: ClientTimeouts = { headMs: 10_000, idleMs: 60_000, stallMs: 60_000 };

/** A request after which another protocol is spoken. */
export interface SwitchedRequest {
  readonly host: string;
  readonly protocol: string;
  /** Of the client. */
  readonly address: string;
  readonly originHost: string;
  /** What the origin said in it so far, and the client was sent. */
  readonly rest: Buffer;
  /** By which way it came in; undefined for one that no container answers. */
  readonly entrance: Entrance | undefined;
}

/** What all connections of one listener share. */
export interface ClientContext {
  readonly decider: Pick<GatewayDecider, 'decide'>;
  readonly upstreams: Upstreams;
  readonly cache: CacheHook | undefined;
  readonly deadlines: Deadlines;
  readonly timeouts: ClientTimeouts;
  readonly onAccess: (entry: AccessEntry) => void;
  /** Client and origin speak another protocol from here on; whoever takes it owns both wires, which are paused. */
  readonly onSwitch: (client: Wire, origin: Wire, request: SwitchedRequest) => void;
  /** Told when the connection is over, or has been handed to `onSwitch`. */
  readonly onDone: (connection: Timed) => void;
  /** Whether a host is the platform's own: cookies of others do not count there. */
  readonly isPlatformHost: (host: string) => boolean;
  /** Our port. */
  readonly port: number;
  readonly isEncrypted: boolean;
  /** Peers whose X-Forwarded-For and X-Forwarded-Proto are believed; undefined: nobody's are. */
  readonly isTrusted: IsTrusted | undefined;
  /** Knows requests that come back; undefined: nobody does. */
  readonly loop?: LoopGuard | undefined;
}

/** Who a request comes from, and how. */
export type Requester = Pick<Forwarded, 'address' | 'isEncrypted'>;

/**
 * Who sent a request over the connection of `peer`: the peer itself, or, if the peer is a trusted proxy, who it says.
 * Such a proxy may also have ended TLS: then the request counts as encrypted.
 */
export function requesterOf(head: RequestHead, { isTrusted }: ClientContext, peer: Requester): Requester {
  if (isTrusted === undefined) return peer;
  const { address } = peer;
  return {
    address: clientBehind(address, valuesOf(head.fields, 'x-forwarded-for'), isTrusted),
    isEncrypted: peer.isEncrypted || (isTrusted(address) && saysHttps(valuesOf(head.fields, 'x-forwarded-proto'))),
  };
}

/** What an origin is told of a request. */
export function forwardedOf(
  head: RequestHead,
  { loop }: ClientContext,
  { address, isEncrypted }: Requester,
  decision: Omit<ProxyForward, 'forward' | 'target' | 'isService'>,
): Forwarded {
  const { gatewayToken, tenantOf, isGuarded, setsCookie, dropsAuthorization, strictTransport } = decision;
  const mark = loop?.line(head.host);
  const guarded = { isGuarded, setsCookie, dropsAuthorization };
  return { address, isEncrypted, gatewayToken, tenantOf, mark, ...guarded, strictTransport };
}

const FAILED: ProxyDecision = {
  reply: { status: 500, body: 'The gateway could not decide where this request goes.\n' },
};

/** The certificate that the client checked is good for one name only (RFC 9110, section 15.5.20). */
const MISDIRECTED: ProxyDecision = {
  reply: { status: 421, body: 'This connection was opened for another host name.\n' },
};

/** It would only come back again. */
const LOOP: ProxyDecision = {
  reply: {
    status: 508,
    body: 'This request has been here before: the service behind this address sends it back here.\n',
  },
};

/**
 * What becomes of a request of `requester` over a connection to `serverName` (undefined: without TLS). A decider
 * that throws or rejects costs its own request a 500, and no other anything.
 */
export function decisionOf(
  head: RequestHead,
  context: ClientContext,
  requester: Requester,
  serverName: string | undefined,
): ProxyDecision | Promise<ProxyDecision> {
  if (serverName !== undefined && head.host !== serverName) return MISDIRECTED;
  if (context.loop?.isLoop(head)) return LOOP;
  try {
    const decision = context.decider.decide(new Asked(head, context.port, requester));
    return decision instanceof Promise ? decision.catch(() => FAILED) : decision;
  } catch {
    return FAILED;
  }
}

/** A request as the decider sees it. What most decisions never ask for is looked up only when they do. */
class Asked implements ProxyRequest {
  readonly method: string;
  readonly host: string;
  readonly hostPort: number | undefined;
  readonly target: string;
  readonly hasBody: boolean;
  readonly address: string;
  readonly port: number;
  readonly isEncrypted: boolean;
  readonly #head: RequestHead;

  constructor(head: RequestHead, port: number, { address, isEncrypted }: Requester) {
    this.method = head.method;
    this.host = head.host;
    this.hostPort = head.port;
    this.target = head.target;
    this.hasBody = head.framing.kind !== 'none';
    this.address = address;
    this.port = port;
    this.isEncrypted = isEncrypted;
    this.#head = head;
  }

  field(name: string): string | undefined {
    return fieldOf(this.#head, name);
  }
}

/** A line for the log; without a head for what was no request. */
export function entryOf(
  head: RequestHead | undefined,
  about: Pick<AccessEntry, 'address' | 'upstream' | 'isBroken' | 'status' | 'bytes' | 'ms'>,
): AccessEntry {
  return {
    address: about.address,
    upstream: about.upstream,
    isBroken: about.isBroken,
    status: about.status,
    bytes: about.bytes,
    ms: about.ms,
    method: head?.method ?? '-',
    host: head?.host ?? '',
    target: head?.target ?? '-',
    minor: head?.minor ?? 1,
    referer: (head && fieldOf(head, 'referer')) ?? '',
    userAgent: (head && fieldOf(head, 'user-agent')) ?? '',
  };
}

function fieldOf(head: RequestHead, name: string): string | undefined {
  for (const field of head.fields) if (field.name === name) return field.value;
  return undefined;
}
