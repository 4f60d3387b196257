/** SQL that shows all mappings of the platform: to its operator, and in the monitor's graph. */
import { z } from 'zod';
import type { Queries } from '../db.ts';

const row = z
  .object({
    id: z.string(),
    domain: z.string(),
    username: z.string(),
    container_id: z.string(),
    target_port: z.number(),
    status: z.enum(['pending', 'verified', 'failed']),
    detail: z.string(),
    not_after: z.date().nullable(),
    created_at: z.date(),
  })
  .transform((found) => ({
    id: found.id,
    hostname: found.domain,
    username: found.username,
    containerId: found.container_id,
    targetPort: found.target_port,
    status: found.status,
    /** What its owner is told; '' when there is nothing to say. */
    detail: found.detail,
    /** End of the certificate that is served; undefined without one. */
    certifiedUntil: found.not_after ?? undefined,
    createdAt: found.created_at,
  }));

/** A mapping with its owner and its certificate. */
export type MappingOverview = z.output<typeof row>;

/** At most `limit` mappings, by hostname. */
export function allMappings(db: Queries, limit: number): Promise<MappingOverview[]> {
  return db.many(
    row,
    `select m.id, m.domain, coalesce(u.username, '') as username, m.container_id, m.target_port, m.status,
       case m.status when 'verified' then m.certificate_detail else m.detail end as detail, c.not_after, m.created_at
     from domain_mappings m left join known_users u on u.id = m.user_id
     left join certificates c on c.hostname = m.domain and m.status = 'verified' and c.chain is not null
     order by m.domain collate "C" limit $1`,
    [limit],
  );
}
