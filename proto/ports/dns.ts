/** What the networking API needs of the outside: a DNS provider, and resolvers. Handed in by cmd. */
import { CodedError } from '../../lib/errors.ts';

/** A zone at the provider; `name` in lower case, ASCII, without the last dot. */
export interface ProviderZone {
  readonly id: string;
  readonly name: string;
}

/** A CNAME at the provider. */
export interface ProviderRecord {
  readonly id: string;
  readonly name: string;
  /** Where it leads: lower case, without the last dot. */
  readonly content: string;
  /** What its maker wrote beside it; '' without. */
  readonly comment: string;
}

type ProviderErrorCode =
  | 'denied' // the token is not valid, or may not do this
  | 'exists' // another record has the name
  | 'refused' // the provider refuses the request as it stands
  | 'unavailable'; // it does not answer as it should, or asks to wait: try again

/** The one error a DnsProvider rejects with; `message` is fit for a user's eyes and never holds the token. */
export class ProviderError extends CodedError<ProviderErrorCode> {
  /** Seconds to wait, when the provider named them. */
  readonly retryAfter: number | undefined;
  constructor(code: ProviderErrorCode, message: string, options: { cause?: unknown; retryAfter?: number } = {}) {
    super(code, message, options.cause === undefined ? undefined : { cause: options.cause });
    this.retryAfter = options.retryAfter;
  }
}

/** A DNS provider, asked with a user's token. */
export interface DnsProvider {
  /**
   * All zones the token sees, over all pages; with `name`, those of that name. Only such as the provider serves for the
   * world: anybody may add a name of somebody else's, which stays inactive.
   */
  zones(token: string, name?: string): Promise<readonly ProviderZone[]>;
  /** The CNAMEs at exactly this name. */
  cnames(token: string, zoneId: string, name: string): Promise<readonly ProviderRecord[]>;
  /** Makes a CNAME that is not proxied; returns its id. Rejects `exists` when a record of the name is in its way. */
  createCname(
    token: string,
    zoneId: string,
    record: { readonly name: string; readonly content: string; readonly comment: string },
  ): Promise<string>;
  /** Removes a record; one that is gone counts as removed. */
  deleteRecord(token: string, zoneId: string, recordId: string): Promise<void>;
}

/** What one resolver said about a TXT name. */
export type TxtAnswer =
  /** The records, each with its strings joined; none when there are none or no such name. */
  | { readonly kind: 'records'; readonly records: readonly string[] }
  /** The name is an alias of another. */
  | { readonly kind: 'alias'; readonly target: string }
  /** It did not answer, or with an error: `reason` is a few words. */
  | { readonly kind: 'failed'; readonly reason: string };

/** What all resolvers together say about the addresses of a name, aliases followed. */
export type HostAddresses =
  /** At least one, as text. */
  | { readonly kind: 'found'; readonly addresses: readonly string[] }
  /** All answered that the name has none. */
  | { readonly kind: 'none' }
  /** Not all answered, and those that did know of none. */
  | { readonly kind: 'unknown' };

/** Looks addresses up. Never rejects, and ends within seconds. Nothing is ever connected to by them. */
export type FindAddresses = (hostname: string) => Promise<HostAddresses>;

/**
 * Finds the zone that holds a hostname: the nearest name, itself or above, that has an SOA record, but no top-level
 * domain. Undefined when none was found in time. Never rejects, and ends within seconds.
 */
export type FindZone = (hostname: string) => Promise<string | undefined>;

/** Resolvers, asked all at once. */
export interface TxtResolvers {
  /** What each says, by its address; at least one. Never rejects, and ends within seconds. */
  lookup(name: string): Promise<readonly { readonly resolver: string; readonly answer: TxtAnswer }[]>;
}
