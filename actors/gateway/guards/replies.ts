/** What the gateway says to those whom a guarded port does not let through. */
import type { ProxyReply } from '../../../proto/gateway/traffic.ts';

const NO_STORE = ['Cache-Control', 'no-store'] as const;
const NO_REFERRER = ['Referrer-Policy', 'no-referrer'] as const;

/** Before anything has been asked or checked. Whoever overlooks that a port is guarded gives this, and no more. */
export const CLOSED: ProxyReply = { status: 401, headers: [NO_REFERRER], body: 'This address is not open to all.\n' };

/** Asks for the password. `host` is of the characters of host names. */
export function passwordReply(host: string): ProxyReply {
  return {
    status: 401,
    headers: [['WWW-Authenticate', `Basic realm="${host}", charset="UTF-8"`], NO_REFERRER],
    body: 'This page is for those who have its password. The user name does not matter.\n',
  };
}

/** After too many wrong passwords. */
export function tooManyReply(ms: number): ProxyReply {
  const seconds = Math.max(1, Math.ceil(ms / 1000));
  return {
    status: 429,
    headers: [['Retry-After', String(seconds)], NO_REFERRER],
    body: `There were too many wrong passwords: wait ${seconds} s before you try again.\n`,
  };
}

export const BUSY_REPLY: ProxyReply = {
  status: 503,
  headers: [['Retry-After', '1'], NO_REFERRER],
  body: 'Too many passwords are being looked at: try again soon.\n',
};

/** For what is no page: it cannot log in. */
export const OWNER_ONLY: ProxyReply = {
  status: 401,
  headers: [NO_REFERRER],
  body: 'This address is for its owner alone, who opens it in a browser first.\n',
};

/** For pages of other hosts, which would act as their visitor. */
export const ELSEWHERE: ProxyReply = {
  status: 403,
  headers: [NO_REFERRER],
  body: 'Pages of other hosts may not use this address: it is not open to all.\n',
};

/** Sends a browser to the console, which knows who is there. */
export function toConsole(location: string): ProxyReply {
  return { status: 302, headers: [['Location', location], NO_STORE, NO_REFERRER], body: 'Log in at the platform.\n' };
}

/** Sends a browser on, with or without a new cookie. */
export function entered(path: string, cookie: string | undefined): ProxyReply {
  const headers = [['Location', path] as const, NO_STORE, NO_REFERRER];
  return {
    status: 303,
    headers: cookie === undefined ? headers : [...headers, ['Set-Cookie', cookie]],
    body: 'You may go on.\n',
  };
}

const PAGE =
  '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">' +
  '<title>Too late</title><p>This way in is over, or it is not for this address. It counts once, and for a minute.' +
  '<p><a href="/">Try again</a></html>\n';

/** The answer to an entry that counts no more, or never did. */
export const NO_ENTRY: ProxyReply = {
  status: 403,
  headers: [
    ['Content-Security-Policy', "default-src 'none'; frame-ancestors 'none'"],
    ['X-Content-Type-Options', 'nosniff'],
    NO_REFERRER,
  ],
  contentType: 'text/html; charset=utf-8',
  body: PAGE,
};
