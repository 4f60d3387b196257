/** SQL of who may enter which container by SSH. */
import { z } from 'zod';
import type { Queries } from '../db.ts';
import { fieldsOf, manyValues } from '../rows.ts';

/** A key at a container, with the external port it came by; null for the SSH port. */
interface SshAccessQuestion {
  readonly containerId: string;
  readonly fingerprint: string;
  readonly port: number | undefined;
}

const accessRow = z.object({
  userId: z.string(),
  status: z.string(),
  sshEnabled: z.boolean(),
  /** The key was chosen for this container. */
  isChosen: z.boolean(),
  /** The port is open: always the SSH port, another while a rule of the container names it. */
  isOpen: z.boolean(),
});
const placedRow = accessRow.extend({ place: z.number() });

/** What is known of a key that belongs to the container's owner. */
export type SshAccess = Readonly<z.output<typeof accessRow>>;

/**
 * For each question what is known, in order; undefined when there is no such container, its owner has no such key, or
 * is disabled.
 */
export async function sshAccess(
  db: Queries,
  questions: readonly SshAccessQuestion[],
): Promise<(SshAccess | undefined)[]> {
  const rows = await db.many(
    placedRow,
    `select q.place, d.user_id as "userId", d.status, d.ssh_enabled as "sshEnabled", d.is_chosen as "isChosen",
       q.port = 0 or exists (select from open_ports p where p.container_id = d.container_id and p.port = q.port)
         as "isOpen"
     from unnest($1::text[], $2::text[], $3::int[]) with ordinality as q (container_id, fingerprint, port, place)
     join ssh_entries d on d.container_id = q.container_id and d.fingerprint = q.fingerprint`,
    [...fieldsOf(questions, 'containerId', 'fingerprint'), questions.map(({ port }) => port ?? 0)],
  );
  const found: (SshAccess | undefined)[] = questions.map(() => undefined);
  for (const { place, ...access } of rows) found[place - 1] = access;
  return found;
}

/**
 * The containers that a key opens now, oldest first, at most `limit`: they run, their owner chose it for them, and
 * their port is open.
 */
export function openedByKey(
  db: Queries,
  { fingerprint, port }: Omit<SshAccessQuestion, 'containerId'>,
  limit: number,
): Promise<string[]> {
  return manyValues(
    db,
    z.string(),
    `select d.container_id from ssh_entries d
     where d.fingerprint = $1 and d.is_chosen and d.ssh_enabled and d.desired = 'running' and d.status = 'running'
       and ($2 = 0 or exists (select from open_ports p where p.container_id = d.container_id and p.port = $2))
     order by d.created_at, d.container_id limit $3`,
    [fingerprint, port ?? 0, limit],
  );
}
