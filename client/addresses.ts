/** Where what is open of a container is reached, as far as its client can tell. */

import type { Container } from './types.ts';

/** From where it is called. */
export interface Outlook {
  /** The address by which the platform is called (`location` of a page, or a URL); undefined: it is not known. */
  readonly page: { readonly protocol: string; readonly hostname: string; readonly port: string } | undefined;
  /** On which ports the gateway listens (`ports` of `showPlatformFacts`), where that is known. */
  readonly gateway: { readonly http: number; readonly https: number } | null | undefined;
}

/** A port that is open, as `listIngress` has it. `tls`: who ends TLS there; the container unless it is said. */
export interface OpenPort {
  readonly port: number;
  readonly tls?: 'container' | 'platform' | undefined;
}

/** The hostname of a container as people know it: with its address name, if it has one, in the place of its id. */
export function readableHost({ hostname, address_name }: Pick<Container, 'hostname' | 'address_name'>): string {
  return address_name === undefined ? hostname : `${address_name}${hostname.slice(hostname.indexOf('.'))}`;
}

const USUAL = { http: 80, https: 443 } as const;
const LOCAL = /(?:^|\.)localhost$/i;

/** The address of an open port, if it is one that browsers open. */
export function addressOfPort(hostname: string, { port, tls }: OpenPort, from: Outlook): string | undefined {
  if (port === 443) return addressOfSite(hostname, 'https', from);
  if (port === 80) return addressOfSite(hostname, 'http', from);
  return tls === 'platform' ? `https://${hostname}:${port}/` : undefined;
}

/** The address of what a container shows on port 443 or 80: the gateway's own ports, which may be others. */
export function addressOfSite(hostname: string, scheme: 'http' | 'https', { page, gateway }: Outlook): string {
  const own = String(gateway?.[scheme] ?? '');
  const port = page?.protocol === `${scheme}:` ? page.port : page === undefined || isOwn(page, gateway) ? own : '';
  return `${scheme}://${hostname}${port === '' || port === String(USUAL[scheme]) ? '' : `:${port}`}/`;
}

/**
 * Whether the gateway's ports are those that people call. In front of a gateway elsewhere may be what listens on other
 * ports: not if the one that is called is the gateway's own.
 */
function isOwn({ protocol, hostname, port }: NonNullable<Outlook['page']>, gateway: Outlook['gateway']): boolean {
  const scheme = protocol === 'https:' ? 'https' : 'http';
  return LOCAL.test(hostname) || Number(port || USUAL[scheme]) === gateway?.[scheme];
}
