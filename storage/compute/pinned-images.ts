/** SQL of the images that rows name by their digest: the registry keeps them without a tag, too. */
import { z } from 'zod';
import type { Queries } from '../db.ts';
import { manyValues } from '../rows.ts';

/** The images of all containers that are named so: what they have, wait for, would go back to, and ran before. */
export function imagesByDigest(db: Queries): Promise<string[]> {
  const named =
    'select distinct named.image from containers ' +
    'cross join lateral (values (containers.image), (next_image), (former_image)) as named (image) ' +
    `where named.image like '%@sha256:%' union select unnest(images) from container_revisions`;
  return manyValues(db, z.string(), named);
}
