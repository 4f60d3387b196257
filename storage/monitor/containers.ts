/** SQL of what the monitor knows of containers besides their numbers, and of the hostnames that lead to them. */
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
    `select id, user_id as "userId", name, status, storage_gb as "storageGb" from containers
     where desired <> 'deleted' order by created_at, id`,
  );
}

const mappingRow = z.object({ id: z.string(), status: z.string(), containerId: z.string() });

/** All hostnames that users mapped to containers, with their status (interface section 3.1). */
export function mappingFacts(db: Queries): Promise<z.output<typeof mappingRow>[]> {
  return db.many(
    mappingRow,
    'select id, status, container_id as "containerId" from domain_mappings order by created_at, id',
  );
}
