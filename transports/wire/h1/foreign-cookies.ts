/**
 * Cookies that others left at the platform's own hosts. A page of a container may set cookies for the platform's
 * domain, where containers have names below it, and so many that no head has room for them.
 */

/** Most pairs of `token` that are kept: of two or more none counts. */
const MOST_TOKENS = 2;

/** A part of a head without them. */
export interface ShorterHead {
  readonly text: string;
  /** Characters of all cookies in it before. */
  readonly cookies: number;
}

/**
 * What has come of a request's head, without foreign cookies. `isOurs` tells the hosts where that is done: for another
 * host, and before the Host has come, everything stays. Kept are cookies that only the host itself can set (`__Host-`;
 * RFC 6265bis, section 4.1.3.2), and the `token` that the platform's interface names. The last line, and in it the last
 * cookie, may still be incomplete and stays.
 */
export function withoutForeignCookies(text: string, isOurs: (host: string) => boolean): ShorterHead {
  const [, host = ''] = /\r\nhost:[ \t]*([^\r\n:]*)[^\r\n]*\r\n/i.exec(text) ?? [];
  if (!isOurs(host.trim().toLowerCase().replace(/\.$/, ''))) return { text, cookies: 0 };
  const lines = text.split('\r\n');
  let cookies = 0;
  let tokens = 0;
  const isKept = (pair: string): boolean => {
    const name = pair.slice(0, Math.max(0, pair.indexOf('='))).trim();
    return name === 'token' ? ++tokens <= MOST_TOKENS : name.startsWith('__Host-');
  };
  const kept = lines.flatMap((line, at) => {
    if (at === 0 || !/^cookie:/i.test(line)) return line;
    cookies += line.length;
    const pairs = line.slice('cookie:'.length).split(';');
    const rest = at === lines.length - 1 ? [pairs.pop() ?? ''] : [];
    const left = [...pairs.filter(isKept), ...rest];
    return left.length === 0 ? [] : `Cookie:${left.join(';')}`;
  });
  return { text: kept.join('\r\n'), cookies };
}
