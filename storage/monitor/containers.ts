/** SQL of what the monitor knows of containers besides their numbers. */
import { z } from 'zod';
import type { Queries } from '../queries.ts';

const factsRow = z.object({
  id: z.string(),
  userId: z.string(),
  name: z.string(),
  status: z.string(),
  storageGb: z.number(),
});

/** A container as promised to its user. */
export type ContainerFacts = z.output<typeof factsRow>;

/** All containers without those being deleted. */
export function containerFacts(db: Queries): Promise<ContainerFacts[]> {
  return db.many(
    factsRow,
    `select id, user_id as "userId", name, status, storage_gb as "storageGb" from known_containers
     where desired <> 'deleted' order by created_at, id`,
  );
}
