/** Cookies of containers stay theirs: none is set for names of the platform, which its other users have, too. */
import type { Field } from '../../wire/h1/fields.ts';
import type { ResponseHead } from './response-head.ts';

/**
 * The response as its client gets it: a cookie whose Domain is one of `domains`, or lies below or above one, has no
 * Domain any more, so that it belongs to the one host that was asked (RFC 6265, section 5.3). The same head when there
 * is none.
 */
export function withoutOurCookies(response: ResponseHead, domains: readonly string[]): ResponseHead {
  const isNamed = names(domains);
  const isOurs = (field: Field): boolean => field.name === 'set-cookie' && attributesOf(field).some(isNamed);
  if (!response.fields.some(isOurs)) return response;
  return { ...response, fields: response.fields.map((field) => (isOurs(field) ? hostOnly(field, isNamed) : field)) };
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
