/** Cookies of containers stay theirs: none is set for names of the platform, which its other users have, too. */
import { isPassCookie } from '../../../proto/gateway/port-guard.ts';
import type { Field } from '../../wire/h1/fields.ts';
import type { ResponseHead } from './response-head.ts';
import type { Forwarded } from './write-heads.ts';

/** The response as its client gets it: without cookies that its origin may not set, and with the gateway's own. */
export function withCookiesOf({ tenantOf, isGuarded, setsCookie }: Forwarded, read: ResponseHead): ResponseHead {
  const response = tenantOf === undefined ? read : withoutOurCookies(read, tenantOf);
  // An interim answer is not the one that was asked for; 101 is.
  if (isGuarded === undefined || (response.status < 200 && response.status !== 101)) return response;
  const kept = response.fields.filter(({ name }) => !OF_SHARED_CACHES.has(name));
  // Of several directives the strictest counts (RFC 9111, section 5.2).
  const added = [fieldOf('Cache-Control', setsCookie === undefined ? 'private' : 'private, no-store')];
  if (setsCookie !== undefined) added.push(fieldOf('Set-Cookie', setsCookie));
  return { ...response, fields: [...kept, ...added] };
}

/** What caches in front of this gateway obey before Cache-Control. */
const OF_SHARED_CACHES = new Set(['cdn-cache-control', 'surrogate-control', 'x-accel-expires']);

const fieldOf = (title: string, value: string): Field => ({
  name: title.toLowerCase(),
  value,
  line: `${title}: ${value}`,
});

/**
 * The response as its client gets it: a cookie whose Domain is one of `domains`, or lies below or above one, has no
 * Domain any more, so that it belongs to the one host that was asked (RFC 6265, section 5.3). A cookie of a guarded
 * port is left out. The same head when there is none.
 */
function withoutOurCookies(all: ResponseHead, domains: readonly string[]): ResponseHead {
  const isNamed = names(domains);
  const response = all.fields.some(isPass) ? { ...all, fields: all.fields.filter((field) => !isPass(field)) } : all;
  const isOurs = (field: Field): boolean => field.name === 'set-cookie' && attributesOf(field).some(isNamed);
  if (!response.fields.some(isOurs)) return response;
  return { ...response, fields: response.fields.map((field) => (isOurs(field) ? hostOnly(field, isNamed) : field)) };
}

function isPass({ name, value }: Field): boolean {
  if (name !== 'set-cookie') return false;
  const [pair = ''] = value.split(';', 1);
  return isPassCookie(pair.split('=', 1)[0]?.trim() ?? '');
}

/** What stands between semicolons after the cookie itself. Browsers split there, whatever is quoted. */
function attributesOf({ value }: Field): readonly string[] {
  return value.split(';').slice(1);
}

/** Tells an attribute `Domain` of which a domain would get the cookie; a leading dot means nothing (section 5.2.3). */
function names(domains: readonly string[]): (attribute: string) => boolean {
  return (attribute) => {
    const [name = '', ...rest] = attribute.split('=');
    if (name.trim().toLowerCase() !== 'domain') return false;
    const host = rest.join('=').trim().replace(/^\./, '').toLowerCase();
    return domains.some((domain) => host === domain || host.endsWith(`.${domain}`) || domain.endsWith(`.${host}`));
  };
}

function hostOnly(field: Field, isOurs: (attribute: string) => boolean): Field {
  const [cookie = '', ...attributes] = field.value.split(';');
  const value = [cookie, ...attributes.filter((attribute) => !isOurs(attribute))].join(';');
  return { name: field.name, value, line: `Set-Cookie: ${value}` };
}
