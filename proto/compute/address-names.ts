/** Readable names of containers' addresses: `<name>.compute.<domain>`, beside `<id>.compute.<domain>`. */
import { z } from 'zod';
import { ID_PATTERN } from '../ids.ts';

/** For how long a name that was given up is kept for its former owner: browsers hold cookies for it until then. */
export const RESERVED_DAYS = 90;
/** Names that one user may have given up before another new one is refused. */
export const MAX_RESERVED_NAMES = 10;

/** What strangers would take for the platform's, and what lets them ask for passwords in its name. */
const PLATFORM_NAMES: ReadonlySet<string> = new Set(
  `
  abuse access account accounts acme admin administrator admins api assets auth authenticate autoconfig
  autodiscover billing broadcasthost certificate certificates cli cloud compute config connect console contact
  container containers control dashboard deploy developers dns docker docs domain domains email ftp gateway git
  health healthz help helpdesk host hosting hostmaster http https identity idp imap install internal invoice ipv4
  ipv6 isatap kubernetes ldap legal localdomain localhost log login logout logs mail mailer mailer-daemon manage
  mcp metrics monitor monitoring mta-sts mx1 network networks no-reply nobody noc none noreply notifications
  notify ns1 ns2 null oauth oauth2 official openid operator owner panel passkey password pay payment payments ping
  platform pop pop3 portal postmaster privacy profile proxy public recovery register registration registry relay
  root secure security server service services session sessions settings setup sftp shell sign-in sign-up signin
  signup sip smtp ssh ssl sso status storage sudo support sysadmin system team terminal terms tls token tokens
  troupe troupe-admin update updates upgrade user users uucp verify vpn wallet web webauthn webhook webhooks
  webmail webmaster wpad www www-data www1 www2
  `
    .trim()
    .split(/\s+/),
);

export const addressNameSchema = z
  .string()
  .regex(
    /^[a-z0-9][a-z0-9-]{1,38}[a-z0-9]$/,
    'must be 3 to 40 characters a-z, 0-9 and "-", neither the first nor the last a "-"',
  )
  .refine((name) => name.slice(2, 4) !== '--', 'must not have "--" after its second character, as xn-- has')
  .refine(
    (name) => !ID_PATTERN.test(name),
    'must not look like the id of a container (12 letters and digits): use another length, or a "-"',
  )
  .refine((name) => !PLATFORM_NAMES.has(name), 'is a name that the platform keeps for itself: choose another');
