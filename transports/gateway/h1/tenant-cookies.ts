/** Cookies of containers stay theirs: none is set for names of the platform, which its other users have, too. */
import { isPassCookie } from '../../../proto/gateway/port-guard.ts';
import type { Field } from '../../wire/h1/fields.ts';
import type { ResponseHead } from './response-head.ts';

/**
 * The response as its client gets it: a cookie whose Domain is one of `domains`, or lies below or above one, has no
 * Domain any more, so that it belongs to the one host that was asked (RFC 6265, section 5.3). A cookie of a guarded
 * port is left out. The same head when there is none.
 */
export function withoutOurCookies(all: ResponseHead, domains: readonly string[]): ResponseHead {
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
