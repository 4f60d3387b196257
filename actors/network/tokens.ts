/** Provider tokens at rest: sealed, each for its own row. */
import type { KeyObject } from 'node:crypto';
import { tokenContext } from '../../storage/network/zones.ts';
import { openedOrNone, seal } from '../../storage/seal.ts';

/** Seals a token for the row it will stand in. */
export function sealToken(key: KeyObject, ownedDomainId: string, token: string): Buffer {
  return seal(key, tokenContext(ownedDomainId), Buffer.from(token));
}

/** The token of a row; undefined when it does not open: another key, another row's, or damaged. */
export function openToken(key: KeyObject, ownedDomainId: string, sealed: Uint8Array): string | undefined {
  return openedOrNone(key, tokenContext(ownedDomainId), sealed)?.toString();
}
