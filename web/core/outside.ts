/** How the outside reaches what is open of a container. */

/** From where it is called. */
export interface Outlook {
  /** The address of this page. */
  readonly page: { readonly protocol: string; readonly hostname: string; readonly port: string };
  /** On which ports the gateway listens, when that is known. */
  readonly gateway: { readonly http: number; readonly https: number } | null | undefined;
}

const LOCAL = /(?:^|\.)localhost$/i;

/** The address of an external port of a container, if it is one that browsers open. `tls`: who ends TLS there. */
export function addressOfPort(
  hostname: string,
  port: number,
  from: Outlook,
  tls: 'container' | 'platform' = 'container',
): string | undefined {
  if (port === 443) return addressOfSite(hostname, 'https', from);
  if (port === 80) return addressOfSite(hostname, 'http', from);
  return tls === 'platform' ? `https://${hostname}:${port}/` : undefined;
}

/** The address of what a container shows on port 443 or 80. */
export function addressOfSite(hostname: string, scheme: 'http' | 'https', { page, gateway }: Outlook): string {
  const usual = scheme === 'https' ? 443 : 80;
  // The port of this page is what the gateway's own is called from here. Of another one only this machine can tell: in
  // front of a gateway elsewhere may be what listens on the usual ports.
  const isLocal = LOCAL.test(page.hostname);
  const port = page.protocol === `${scheme}:` ? page.port : isLocal ? String(gateway?.[scheme] ?? '') : '';
  return `${scheme}://${hostname}${port === '' || port === String(usual) ? '' : `:${port}`}/`;
}
