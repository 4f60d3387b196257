/** Settings of mail. */
import { z } from 'zod';

/** Where the platform hands over mail. */
export const smtpUrl = z
  .string()
  .refine(isSmtpUrl, 'must be smtp://[user:password@]host[:port], or smtps:// the same, with nothing after it');

const MAIL_ADDRESS = '[A-Za-z0-9._+-]{1,64}@[A-Za-z0-9.-]{1,190}';

/** Who sends it: an address, or a name and an address. */
export const mailSender = z
  .string()
  .regex(
    new RegExp(`^(${MAIL_ADDRESS}|[A-Za-z0-9 ._-]{1,64} <${MAIL_ADDRESS}>)$`),
    'must be an address such as notices@example.com, or Troupe <notices@example.com>',
  );

function isSmtpUrl(text: string): boolean {
  try {
    const url = new URL(text);
    decodeURIComponent(url.username);
    decodeURIComponent(url.password);
    const isServer = ['smtp:', 'smtps:'].includes(url.protocol) && url.hostname !== '';
    return isServer && /^\/?$/.test(url.pathname) && url.search === '' && url.hash === '';
  } catch {
    return false;
  }
}
