/**
 * Whether a page of `origin` belongs to the platform: its host is `domain` or ends in it, on any port. Programs send no
 * Origin, and are let in; an opaque one ("null") is nobody's.
 */
export function isOwnPage(origin: string | undefined, domain: string | undefined): boolean {
  if (origin === undefined) return true;
  if (domain === undefined || !/^https?:\/\//i.test(origin) || !URL.canParse(origin)) return false;
  const host = new URL(origin).hostname.replace(/\.$/, '');
  const own = domain.toLowerCase();
  return host === own || host.endsWith(`.${own}`);
}
