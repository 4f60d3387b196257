/** Who a request comes from, behind the platform's own gateways or proxies that the operator named. */
import { isIP } from 'node:net';
import type { VerifyGatewayToken } from '../../proto/gateway/gateway-token.ts';
import { GATEWAY_FIELD } from '../../proto/gateway/traffic.ts';
import type { HttpRequest } from '../../proto/ports/http.ts';
import type { Log } from '../../proto/ports/log.ts';
import { clientBehind, type IsTrusted } from '../wire/peer-address.ts';

/** The address of the client of a request, in text. */
export type ClientAddress = (request: HttpRequest) => string;

interface ClientAddressOptions {
  /** Whether what a request has in `GATEWAY_FIELD` is the token of a gateway of the platform. */
  readonly isGatewayToken: VerifyGatewayToken | undefined;
  /** Hosts of other services: a token that a gateway made for those is not for this one. */
  readonly hostsOfOthers?: ReadonlySet<string> | undefined;
  /** Peers whose X-Forwarded-For is believed. */
  readonly isTrusted: IsTrusted | undefined;
  /** Told now and then of peers who speak for others and are not believed. */
  readonly log?: Log | undefined;
}

const FIELD = GATEWAY_FIELD.toLowerCase();
const FORWARDED_FOR = 'x-forwarded-for';
const FORWARDED_HOST = 'x-forwarded-host';
const TELL_EVERY_MS = 3_600_000;

/** Believes the gateways and the trusted peers; of all others the address of the socket counts. */
export function clientAddress({ isGatewayToken, hostsOfOthers, isTrusted, log }: ClientAddressOptions): ClientAddress {
  let told = Number.NEGATIVE_INFINITY;
  const disbelieved = (peer: string, token: string | undefined): string => {
    if (log !== undefined && performance.now() - told > TELL_EVERY_MS) {
      told = performance.now();
      log.warn(
        { peer, reason: token === undefined ? 'no gateway token' : 'a gateway token that this process cannot verify' },
        'X-Forwarded-For of a peer that is not trusted is passed over: all its clients count as one. Name a proxy ' +
          'in TRUSTED_PROXIES; a gateway needs the same JWT_SECRET, and a clock that is right',
      );
    }
    return peer;
  };
  return (request) => {
    const peer = request.remoteAddress;
    const address = request.header(FORWARDED_FOR);
    if (address === undefined) return peer;
    const token = isGatewayToken === undefined ? undefined : request.header(FIELD);
    if (token !== undefined && isIP(address) !== 0) {
      const target = request.query === '' ? request.path : `${request.path}?${request.query}`;
      const host = request.header(FORWARDED_HOST) ?? '';
      const isForUs = hostsOfOthers?.has(host.replace(/:\d+$/, '')) !== true;
      if (isForUs && isGatewayToken?.(token, { method: request.method, host, target, address })) return address;
    }
    if (isTrusted?.(peer)) return clientBehind(peer, [address], isTrusted);
    return disbelieved(peer, token);
  };
}
