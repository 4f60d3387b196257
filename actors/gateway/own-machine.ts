/** Requests of programs on this very machine. */
import type { ProxyRequest } from '../../proto/gateway/traffic.ts';

/** What proxies write down. What another proxy on this machine passes on is the world's, too. */
const OF_PROXIES = ['x-forwarded-for', 'forwarded', 'x-real-ip', 'via'];

/** Whether the request comes from this machine, as far as anybody says. */
export function isOfThisMachine(request: Pick<ProxyRequest, 'address' | 'field'>): boolean {
  const { address } = request;
  const isLoopback = address.startsWith('127.') || address === '::1';
  return isLoopback && OF_PROXIES.every((name) => request.field(name) === undefined);
}

/**
 * Whether a browser on this machine asks at a name that means this machine everywhere (RFC 6761, section 6.3). Nobody
 * is on the way, so browsers take plain HTTP there for as safe as HTTPS (Secure Contexts, section 3.1), and say where
 * their requests come from, as they do nowhere else over plain HTTP. Programs do not say so.
 */
export function isBrowserAtHome(request: ProxyRequest): boolean {
  const { host } = request;
  const isLocal = host === 'localhost' || host.endsWith('.localhost');
  if (!isLocal || !isOfThisMachine(request)) return false;
  return request.field('sec-fetch-site') !== undefined || request.field('origin') !== undefined;
}
