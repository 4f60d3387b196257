/** What the database holds of the verified mapping of a hostname. */
import { z } from 'zod';
import type { Queries } from '../../../storage/db.ts';

const row = z.object({
  id: z.string(),
  userId: z.string(),
  containerId: z.string(),
  targetPort: z.number(),
  certificateDetail: z.string(),
});

/** The verified mapping; null when there is none. */
export async function verifiedMapping(db: Queries, hostname: string) {
  const found = await db.one(
    row,
    `select id, user_id as "userId", container_id as "containerId", target_port as "targetPort",
       certificate_detail as "certificateDetail" from domain_mappings where domain = $1 and status = 'verified'`,
    [hostname],
  );
  return found ?? null;
}
