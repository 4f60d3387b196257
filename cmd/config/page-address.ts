/** Where a port of a container's hostname is reached, beside a platform. */

/** 80 and 443 are the gateway's own ports, which may be others where it does not run as root. */
export function addressOf(port: number, hostname: string, url: string, plainUrl: string | undefined): string {
  const own = port === 443 ? new URL(url).port : plainUrl === undefined ? '' : new URL(plainUrl).port;
  if (port === 443 || port === 80)
    return `${port === 443 ? 'https' : 'http'}://${hostname}${own === '' ? '' : `:${own}`}`;
  return `http://${hostname}:${port}`;
}
