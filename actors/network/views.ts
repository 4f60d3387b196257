/** What users see of rows. */
import { shownCache } from '../../proto/gateway/cache-mode.ts';
import type { MappingView, OwnedDomainView } from '../../proto/network/endpoints.ts';
import type { MappingRow } from '../../storage/network/mappings.ts';
import type { OwnedRow } from '../../storage/network/zones.ts';
import type { NetworkDeps } from './deps.ts';
import { verifyName } from './hostname-rules.ts';

/** An owned domain. */
export function ownedView(row: OwnedRow): OwnedDomainView {
  return { id: row.id, zones: row.zones, created_at: row.createdAt.toISOString() };
}

/** A mapping, with what its user should know now, if anything. */
export function mappingView(row: MappingRow, { own }: Pick<NetworkDeps, 'own'>): MappingView {
  const says = row.status === 'verified' ? [row.detail, row.certificateDetail] : [row.detail];
  const detail = says.filter((text) => text !== '').join(' ');
  return {
    id: row.id,
    domain: row.hostname,
    container_id: row.containerId,
    target_port: row.targetPort,
    status: row.status,
    ...shownCache(row.cache),
    verify_name: verifyName(row.hostname),
    verify_token: row.verifyToken,
    ...(detail === '' ? {} : { detail }),
    cname_target: own.ingressHost,
    ...(row.zone === '' ? {} : { zone: row.zone }),
    records: [
      { ...namesOf(verifyName(row.hostname), row), type: 'TXT', value: row.verifyToken },
      {
        ...namesOf(row.hostname, row),
        type: 'CNAME',
        value: own.ingressHost,
        ...(row.hostname === row.zone ? { note: noAliasAt(row.zone, own.ingressHost) } : {}),
      },
    ],
    created_at: row.createdAt.toISOString(),
    checked_at: row.checkedAt?.toISOString() ?? null,
    next_check_at: row.nextCheckAt?.toISOString() ?? null,
    ...(row.status === 'verified' ? { certificate_until: row.certificateUntil?.toISOString() ?? null } : {}),
  };
}

/** The name of a record, whole and in its zone, where `@` is the zone itself. */
function namesOf(name: string, { zone }: Pick<MappingRow, 'zone'>): { name: string; name_in_zone?: string } {
  if (zone === '') return { name };
  return { name, name_in_zone: name === zone ? '@' : name.slice(0, -zone.length - 1) };
}

/** RFC 1034, section 3.6.2: beside a CNAME there are no other records, and a zone's own name always has some. */
function noAliasAt(zone: string, target: string): string {
  const instead = `make an ALIAS or ANAME record, or an A record with the address of ${target}`;
  return `no CNAME can stand at the top of the zone ${zone}: ${instead}`;
}
