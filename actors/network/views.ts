/** What users see of rows. */
import type { MappingView, OwnedDomainView } from '../../proto/network/endpoints.ts';
import type { MappingRow } from '../../storage/network/mappings.ts';
import type { OwnedRow } from '../../storage/network/zones.ts';
import { verifyName } from './hostname-rules.ts';

/** An owned domain. */
export function ownedView(row: OwnedRow): OwnedDomainView {
  return { id: row.id, zones: row.zones, created_at: row.createdAt.toISOString() };
}

/** A mapping, with what its user should know now, if anything. */
export function mappingView(row: MappingRow): MappingView {
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
  };
}
