/** Who a request comes from, when others stand before the service: the platform's own gateway, or proxies that the operator named. */
import { createHash, timingSafeEqual } from 'node:crypto';
import { isIP } from 'node:net';
import { GATEWAY_FIELD } from '../../proto/gateway.ts';
import type { HttpRequest } from '../../proto/http.ts';
import { clientBehind, type IsTrusted } from '../tcp/trusted.ts';

/** The address of the client of a request, in text. */
export type ClientAddress = (request: HttpRequest) => string;

export interface Vouchers {
  /** What the platform's gateway says in `GATEWAY_FIELD`: whoever knows it is the gateway, wherever it comes from. */
  readonly gatewaySecret: string | undefined;
  /** Peers whose X-Forwarded-For is believed. */
  readonly isTrusted: IsTrusted | undefined;
}

const FIELD = GATEWAY_FIELD.toLowerCase();
const FORWARDED_FOR = 'x-forwarded-for';

/** Believes the gateway and the trusted peers; of everybody else the socket's address counts. */
export function clientAddress({ gatewaySecret, isTrusted }: Vouchers): ClientAddress {
  const known = gatewaySecret === undefined ? undefined : digest(gatewaySecret);
  return (request) => {
    const peer = request.remoteAddress;
    const given = known === undefined ? undefined : request.header(FIELD);
    const forwarded = request.header(FORWARDED_FOR);
    if (forwarded === undefined) return peer;
    // Digests have one length, and comparing them tells nothing of the secret.
    if (known !== undefined && given !== undefined && timingSafeEqual(digest(given), known))
      return isIP(forwarded) === 0 ? peer : forwarded;
    return isTrusted === undefined ? peer : clientBehind(peer, [forwarded], isTrusted);
  };
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
