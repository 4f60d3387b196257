/** Where links of the console lead. */

/** The console as the client reaches it: the domain, with the port that it asked at by a name of the domain. */
export function consoleOrigin(domain: string, host = ''): string {
  const [, name = '', port] = /^([^:]*)(:\d{1,5})?$/.exec(host.toLowerCase()) ?? [];
  const isOurs = name === domain || name.endsWith(`.${domain}`);
  return `https://${domain}${isOurs && port !== undefined && port !== ':443' ? port : ''}`;
}
