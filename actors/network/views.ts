/** What users see of rows. */
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
    verify_name: verifyName(row.hostname),
    verify_token: row.verifyToken,
    ...(detail === '' ? {} : { detail }),
    cname_target: own.ingressHost,
    created_at: row.createdAt.toISOString(),
    checked_at: row.checkedAt?.toISOString() ?? null,
    next_check_at: row.nextCheckAt?.toISOString() ?? null,
    ...(row.status === 'verified' ? { certificate_until: row.certificateUntil?.toISOString() ?? null } : {}),
  };
}
