/** How the outside reaches what is open of a container. */

/** The address of an external port of a container, if it is one that browsers open. `tls`: who ends TLS there. */
export function addressOfPort(hostname: string, port: number, tls: 'container' | 'platform' = 'container') {
  const { protocol, port: own } = location;
  // The port of this page is what the gateway's own is called from here.
  const at = (usual: string) => (protocol === usual && own !== '' ? `:${own}` : '');
  if (port === 443) return `https://${hostname}${at('https:')}/`;
  if (port === 80) return `http://${hostname}${at('http:')}/`;
  return tls === 'platform' ? `https://${hostname}:${port}/` : undefined;
}
