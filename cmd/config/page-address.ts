/** Where a port of a container's hostname is reached, beside a platform. */

/** A port that is open. `tls`: the platform ends TLS there. */
export interface OpenPort {
  readonly port: number;
  readonly tls?: 'container' | 'platform' | undefined;
}

/** 80 and 443 are the gateway's own ports, which may be others where it does not run as root. */
export function addressOf(
  { port, tls }: OpenPort,
  hostname: string,
  url: string,
  plainUrl: string | undefined,
): string {
  const own = port === 443 ? new URL(url).port : plainUrl === undefined ? '' : new URL(plainUrl).port;
  if (port === 443 || port === 80)
    return `${port === 443 ? 'https' : 'http'}://${hostname}${own === '' ? '' : `:${own}`}`;
  return `${tls === 'platform' ? 'https' : 'http'}://${hostname}:${port}`;
}
