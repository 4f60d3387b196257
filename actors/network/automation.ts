/**
 * The record of a mapping at the DNS provider: made, found or removed. Nothing here decides about a mapping's state.
 */
import { ProviderError, type ProviderRecord } from '../../proto/ports/dns.ts';
import type { MappingRow } from '../../storage/network/mappings.ts';
import { coveringZone } from '../../storage/network/zones.ts';
import type { Integration, NetworkDeps } from './deps.ts';
import { zoneNames } from './hostname-rules.ts';
import type { WriteRight } from './placed.ts';
import { openToken } from './tokens.ts';

/** What became of the wish for a record. `detail` is for the user. */
type Automated =
  | { readonly kind: 'made' | 'found'; readonly recordId: string }
  /** It will not be made, so DNS is the user's to see to; or it may be made later. */
  | { readonly kind: 'refused' | 'later'; readonly detail: string };

interface Zone {
  readonly zoneId: string;
  readonly name: string;
  readonly token: string;
}

/**
 * Makes the CNAME of a mapping in the zone that covers it. It is idempotent. Rejects with StorageError, and as `right`.
 */
export async function makeRecord(
  deps: NetworkDeps,
  integration: Integration,
  row: MappingRow,
  right: Pick<WriteRight, 'check'>,
): Promise<Automated> {
  const { provider } = integration;
  const zone = await zoneOf(deps, integration, row);
  if (zone === undefined)
    return {
      kind: 'refused',
      detail: 'no connected DNS zone covers this name any more, or its token cannot be decrypted',
    };
  const target = deps.own.ingressHost;
  try {
    if (!(await isServed(integration, zone)))
      return {
        kind: 'refused',
        detail: `the DNS provider does not serve the zone ${zone.name} for this token any more`,
      };
    const comment = commentOf(deps, row);
    right.check();
    try {
      const recordId = await provider.createCname(zone.token, zone.zoneId, {
        name: row.hostname,
        content: target,
        comment,
      });
      return { kind: 'made', recordId };
    } catch (error) {
      if (!(error instanceof ProviderError) || error.code !== 'exists') throw error;
      const records = await provider.cnames(zone.token, zone.zoneId, row.hostname);
      const same = records.find(({ content }) => content === target);
      if (same === undefined)
        return {
          kind: 'refused',
          detail: `${row.hostname} has another record at the DNS provider, which is left as it is`,
        };
      // Ours when we died after making it, or when its mapping is gone; the user's own is never removed by us.
      return { kind: isOurs(deps, same) ? 'made' : 'found', recordId: same.id };
    }
  } catch (error) {
    if (!(error instanceof ProviderError)) throw error;
    deps.log.warn({ mappingId: row.id, code: error.code, reason: error.message }, 'a DNS record could not be made');
    const detail = `the CNAME record for ${row.hostname} could not be made: ${error.message}`;
    return { kind: error.code === 'unavailable' ? 'later' : 'refused', detail };
  }
}

/** Whether the DNS provider serves a zone of the user's that covers the hostname now. */
export async function ownsZone(deps: NetworkDeps, mapping: Pick<MappingRow, 'userId' | 'hostname'>): Promise<boolean> {
  const { integration, log } = deps;
  const zone = integration === undefined ? undefined : await zoneOf(deps, integration, mapping);
  if (integration === undefined || zone === undefined) return false;
  try {
    return await isServed(integration, zone);
  } catch (error) {
    if (!(error instanceof ProviderError)) throw error;
    const { code, message } = error;
    log.warn({ hostname: mapping.hostname, code, reason: message }, 'a zone could not be looked for');
    return false;
  }
}

/**
 * Whether the provider serves the zone for this token. A name that was given up may still stand in the account: only
 * what the world asks this provider for proves anything. Rejects with ProviderError.
 */
async function isServed({ provider }: Integration, zone: Zone): Promise<boolean> {
  return (await provider.zones(zone.token, zone.name)).some(({ id }) => id === zone.zoneId);
}

/**
 * Removes the CNAME that was made for a mapping, if it still leads to us. As good as it can: what goes wrong is logged.
 */
export async function removeRecord(
  deps: NetworkDeps,
  integration: Integration,
  row: MappingRow,
  right: Pick<WriteRight, 'check'>,
): Promise<void> {
  if (row.record !== 'made' && row.record !== 'wanted') return;
  const { provider } = integration;
  const zone = await zoneOf(deps, integration, row);
  if (zone === undefined) return;
  try {
    const records = await provider.cnames(zone.token, zone.zoneId, row.hostname);
    const ours = records.filter(
      (record) =>
        record.content === deps.own.ingressHost &&
        (record.id === row.recordId || record.comment === commentOf(deps, row)),
    );
    right.check();
    for (const { id } of ours) await provider.deleteRecord(zone.token, zone.zoneId, id);
  } catch (error) {
    if (!(error instanceof ProviderError)) throw error;
    deps.log.warn({ mappingId: row.id, code: error.code, reason: error.message }, 'a DNS record could not be removed');
  }
}

async function zoneOf(
  deps: NetworkDeps,
  { sealKey }: Integration,
  row: Pick<MappingRow, 'userId' | 'hostname'>,
): Promise<Zone | undefined> {
  const zone = await coveringZone(deps.db, row.userId, zoneNames(row.hostname));
  const token = zone === undefined ? undefined : openToken(sealKey, zone.ownedDomainId, zone.token);
  return zone === undefined || token === undefined ? undefined : { zoneId: zone.zoneId, name: zone.name, token };
}

/**
 * What marks a record as made for this mapping of this platform: it finds the record whose making was not written down.
 */
function commentOf({ installation }: NetworkDeps, { id }: MappingRow): string {
  return `troupe ${installation} ${id}`;
}

function isOurs({ installation }: NetworkDeps, { comment }: ProviderRecord): boolean {
  return comment.startsWith(`troupe ${installation} `);
}
