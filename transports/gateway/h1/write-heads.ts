/** Heads as they are sent on: what belongs to one connection removed, what is true about the client added. */
import { STATUS_CODES } from 'node:http';
import type { SignGatewayToken } from '../../../proto/gateway/gateway-token.ts';
import { isPassCookie } from '../../../proto/gateway/port-guard.ts';
import { GATEWAY_FIELD, type ProxyReply } from '../../../proto/gateway/traffic.ts';
import type { RequestHead } from '../../wire/h1/request-head.ts';
import type { ResponseHead } from './response-head.ts';

/** Said by us alone: a client's word for them is dropped. Underscore twins are read as the same by some origins. */
const OURS =
  /^(?:x[-_]forwarded[-_](?:for|proto|host|port|server|prefix)|forwarded|x[-_]real[-_]ip|x[-_]troupe[-_]gateway)$/;

/** What the origin is told of the client. */
export interface Forwarded {
  readonly address: string;
  readonly isEncrypted: boolean;
  /** Makes what is said in `GATEWAY_FIELD`: tells a service of the platform that the address can be believed. */
  readonly gatewayToken?: SignGatewayToken | undefined;
  /** A line that marks the request as having been here (loop-detection.ts), with its end. */
  readonly mark?: string | undefined;
  /** The origin is a user's container, of the platform of this domain. */
  readonly tenantOf?: readonly string[] | undefined;
  /** The answer is for whoever was let in, and for no cache that others share. */
  readonly isGuarded?: true | undefined;
  /** A cookie of the gateway's own for the answer. */
  readonly setsCookie?: string | undefined;
  /** `Authorization` is what the gateway asked for. */
  readonly dropsAuthorization?: true | undefined;
  /** Strict-Transport-Security for the answer, if the origin says nothing of it. */
  readonly strictTransport?: string | undefined;
}

/** The request's head for the origin. `upgrade`: the protocol that may be switched to. */
export function requestFor(
  head: RequestHead,
  target: string,
  { address, isEncrypted, gatewayToken, mark = '', tenantOf, dropsAuthorization }: Forwarded,
  upgrade: string | undefined,
): string {
  let text = `${head.method} ${target} HTTP/1.1\r\n`;
  let isHostSent = false;
  for (const { name, value, line } of head.fields) {
    if (head.hopByHop.has(name) || OURS.test(name)) continue;
    // What routes and frames a message is written in the one way that everybody reads alike: no tabs, no leading zeros.
    if (name === 'content-length') continue;
    if (dropsAuthorization && name === 'authorization') continue;
    // We answered it, or pass on the body at once.
    if (name === 'expect') continue;
    if (name === 'host') {
      isHostSent = true;
      text += `Host: ${value}\r\n`;
    } else if (tenantOf !== undefined && name === 'cookie') {
      const rest = withoutToken(value);
      if (rest !== '') text += `Cookie: ${rest}\r\n`;
    } else text += `${line}\r\n`;
  }
  if (!isHostSent) text += `Host: ${head.host}\r\n`;
  if (head.framing.kind === 'chunked') text += 'Transfer-Encoding: chunked\r\n';
  else if (head.framing.kind === 'length') text += `Content-Length: ${head.framing.length}\r\n`;
  if (upgrade !== undefined) text += `Connection: Upgrade\r\nUpgrade: ${upgrade}\r\n`;
  const host = head.port === undefined ? head.host : `${head.host}:${head.port}`;
  if (gatewayToken !== undefined)
    text += `${GATEWAY_FIELD}: ${gatewayToken({ method: head.method, host, target, address })}\r\n`;
  return (
    `${text}${mark}X-Forwarded-For: ${address}\r\nX-Forwarded-Proto: ` +
    `${isEncrypted ? 'https' : 'http'}\r\nX-Forwarded-Host: ${host}\r\n\r\n`
  );
}

/** Cookies that open the platform's own services: whoever gets one acts as the visitor. */
const TOKENS = new Set(['token', '__Host-token', '__Host-troupe']);

/** Cookies without those, and without those of guarded ports. A visitor's browser sends all of them to containers. */
function withoutToken(cookies: string): string {
  const nameOf = (pair: string) => pair.split('=', 1)[0]?.trim() ?? '';
  const kept = cookies.split(';').filter((pair) => !TOKENS.has(nameOf(pair)) && !isPassCookie(nameOf(pair)));
  return kept.join(';').trim();
}

/** How a body reaches the client. */
export type ClientFraming = 'as_is' | 'chunked' | 'until_close';

/** How the client, of this minor version, gets the response's body. */
export function clientFraming(response: ResponseHead, minor: 0 | 1): ClientFraming {
  const { kind } = response.framing;
  if (kind === 'none' || kind === 'length') return 'as_is';
  return minor === 1 ? 'chunked' : 'until_close';
}

/** The response's head for the client. `says`: a line of the gateway's own, with its end. */
export function responseFor(
  response: ResponseHead,
  framing: ClientFraming,
  keepAlive: boolean,
  minor: 0 | 1,
  says = '',
): string {
  let text = `HTTP/1.1 ${response.status} ${response.reason}\r\n`;
  for (const { name, value, line } of response.fields) {
    if (response.hopByHop.has(name)) continue;
    if (name !== 'content-length') text += `${line}\r\n`;
    // It was checked; 204 has none (RFC 9110, section 8.6).
    else if (response.status !== 204) text += `Content-Length: ${Number(value)}\r\n`;
  }
  if (framing === 'chunked') text += 'Transfer-Encoding: chunked\r\n';
  return `${text}${says}${connectionLine(keepAlive, minor)}\r\n`;
}

/** The head of `101 Switching Protocols`: here the connection's own fields are the message. */
export function switchingFor(response: ResponseHead, protocol: string): string {
  let text = `HTTP/1.1 101 ${response.reason || 'Switching Protocols'}\r\n`;
  for (const { name, line } of response.fields) if (!response.hopByHop.has(name)) text += `${line}\r\n`;
  return `${text}Connection: Upgrade\r\nUpgrade: ${protocol}\r\n\r\n`;
}

/** An interim response (1xx). */
export function interimFor(response: ResponseHead): string {
  let text = `HTTP/1.1 ${response.status} ${response.reason}\r\n`;
  for (const { name, line } of response.fields) {
    if (!response.hopByHop.has(name) && name !== 'content-length') text += `${line}\r\n`;
  }
  return `${text}\r\n`;
}

/** A whole answer of the gateway's own. */
export function replyText(reply: ProxyReply, method: string, keepAlive: boolean, minor: 0 | 1): string {
  const body = reply.body ?? `${reply.status} ${STATUS_CODES[reply.status] ?? ''}\n`;
  const head = replyHead(reply, Buffer.byteLength(body), keepAlive, minor);
  return method === 'HEAD' || reply.status === 304 ? head : `${head}${body}`;
}

/** Its head, for a body of so many bytes. */
export function replyHead(reply: ProxyReply, length: number, keepAlive: boolean, minor: 0 | 1): string {
  let text = `HTTP/1.1 ${reply.status} ${STATUS_CODES[reply.status] ?? ''}\r\n`;
  for (const [name, value] of reply.headers ?? []) text += `${name}: ${value}\r\n`;
  // A length would be that of the body which is not sent (RFC 9110, section 8.6).
  if (reply.status !== 304)
    text += `Content-Type: ${reply.contentType ?? 'text/plain; charset=utf-8'}\r\nContent-Length: ${length}\r\n`;
  if (reply.status >= 400) text += 'Cache-Control: no-store\r\n';
  return `${text}${connectionLine(keepAlive, minor)}\r\n`;
}

function connectionLine(keepAlive: boolean, minor: 0 | 1): string {
  if (!keepAlive) return 'Connection: close\r\n';
  return minor === 0 ? 'Connection: keep-alive\r\n' : '';
}
