/**
 * How a gateway of the platform shows a service that it may speak for a client: a code over the request, the host that
 * was asked for and the client's address, by a key that is derived from JWT_SECRET. It is good for that request of that
 * client for two minutes, so a token that leaks speaks for no other client.
 */
import { createHmac, type KeyObject, timingSafeEqual } from 'node:crypto';
import { derivedKeyring, type SharedSecret } from '../auth/shared-secret.ts';
import type { SharedClock } from '../ports/clock.ts';

/** A request whose client the gateway names. */
interface GatewayTokenRequest {
  readonly method: string;
  /** Host and port that the client asked for, as in X-Forwarded-Host. */
  readonly host: string;
  /** Path and query as the service is asked. */
  readonly target: string;
  /** The client's. */
  readonly address: string;
}

/** Makes the token for a request. */
export type SignGatewayToken = (request: GatewayTokenRequest) => string;

/** Whether `token` is the token of a gateway of this platform for this request. */
export type VerifyGatewayToken = (token: string, request: GatewayTokenRequest) => boolean;

/** How long a token counts, and how far clocks may be apart, ms. */
const FRESH_MS = 120_000;
const PURPOSE = 'gateway vouches for clients';
/** Name of the secret, time in ms in base 36, code. */
const TOKEN = /^([\w-]{11})\.([0-9a-z]{1,10})\.([\w-]{22})$/;
/** Bytes of the code (RFC 2104, section 5: at least half of the hash). */
const CODE_BYTES = 16;

export function gatewayTokenSigner(secret: SharedSecret, clock: SharedClock): SignGatewayToken {
  const [{ id, key }] = derivedKeyring(secret, PURPOSE);
  return (request) => {
    const time = Math.floor(clock.now()).toString(36);
    return `${id}.${time}.${codeOf(key, time, request).toString('base64url')}`;
  };
}

export function gatewayTokenVerifier(secret: SharedSecret, clock: SharedClock): VerifyGatewayToken {
  const keys = new Map(derivedKeyring(secret, PURPOSE).map(({ id, key }) => [id, key]));
  return (token, request) => {
    const [, id = '', time = '', code = ''] = TOKEN.exec(token) ?? [];
    const key = keys.get(id);
    if (key === undefined || !(Math.abs(clock.now() - Number.parseInt(time, 36)) <= FRESH_MS)) return false;
    const given = Buffer.from(code, 'base64url');
    return given.length === CODE_BYTES && timingSafeEqual(given, codeOf(key, time, request));
  };
}

function codeOf(key: KeyObject, time: string, { method, host, target, address }: GatewayTokenRequest): Buffer {
  // A query without anything in it is none to those who read it.
  const asked = target.indexOf('?') === target.length - 1 ? target.slice(0, -1) : target;
  // None of them has a line break.
  return createHmac('sha256', key)
    .update(`${time}\n${address}\n${method}\n${host}\n${asked}`)
    .digest()
    .subarray(0, CODE_BYTES);
}
