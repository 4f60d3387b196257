/** Reads NATS_URL as NATS's own tools take it. */

const DEFAULT_PORT = 4222;

interface NatsUrl {
  /** `host:port` */
  readonly server: string;
  readonly tls: boolean;
  readonly user?: string;
  readonly password?: string;
  readonly token?: string;
}

/**
 * Reads `nats://` and `tls://` URLs separated by commas, as `[scheme://][user:password@ or token@]host[:port]`.
 * Undefined when one cannot be read.
 */
export function parseNatsUrls(text: string): NatsUrl[] | undefined {
  const urls = text.split(',').map((part) => parseNatsUrl(part.trim()));
  return urls.every((url) => url !== undefined) ? urls : undefined;
}

function parseNatsUrl(text: string): NatsUrl | undefined {
  const withScheme = text.includes('://') ? text : `nats://${text}`;
  const [, scheme] = /^(nats|tls):\/\/[^/]/.exec(withScheme) ?? [];
  // Only schemes of the web have all their rules in URL.
  const rest = `http://${withScheme.slice(withScheme.indexOf('://') + 3)}`;
  if (scheme === undefined || !URL.canParse(rest)) return undefined;
  const url = new URL(rest);
  if (url.pathname !== '/' || url.search !== '' || url.hash !== '' || url.hostname === '') return undefined;
  const [user, password] = [decoded(url.username), decoded(url.password)];
  if (user === undefined || password === undefined) return undefined;
  // 80 is what URL leaves out for http.
  const port = url.port === '' ? (/:80$/.test(rest.replace(/\/$/, '')) ? 80 : DEFAULT_PORT) : Number(url.port);
  const credentials = user === '' ? {} : password === '' ? { token: user } : { user, password };
  return { server: `${url.hostname}:${port}`, tls: scheme === 'tls', ...credentials };
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
