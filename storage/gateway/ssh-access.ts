/**
 * SQL of who may enter which container by SSH; and where, for processes without a gateway: the last gateway to start
 * wrote it down.
 */
import { z } from 'zod';
import { reachableAddress } from '../../lib/ip-address.ts';
import { sshHost } from '../../proto/gateway/ssh.ts';
import type { Clock } from '../../proto/ports/clock.ts';
import type { Log } from '../../proto/ports/log.ts';
import { type Queries, textRow } from '../queries.ts';
import { getSetting, setSetting } from '../settings.ts';

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
    [
      questions.map(({ containerId }) => containerId),
      questions.map(({ fingerprint }) => fingerprint),
      questions.map(({ port }) => port ?? 0),
    ],
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
  return db.many(
    textRow,
    `select d.container_id from ssh_entries d
     where d.fingerprint = $1 and d.is_chosen and d.ssh_enabled and d.desired = 'running' and d.status = 'running'
       and ($2 = 0 or exists (select from open_ports p where p.container_id = d.container_id and p.port = $2))
     order by d.created_at, d.container_id limit $3`,
    [fingerprint, port ?? 0, limit],
  );
}

const SETTING = 'ssh_address';
/** What was read is believed for this long: a gateway seldom moves. */
const BELIEVED_MS = 10_000;

const addressSchema = z.object({ host: z.string(), port: z.int().min(1).max(65_535) });

/** Host and port of the SSH gateway. */
export type SshAddress = z.output<typeof addressSchema>;

/**
 * The address of a gateway that listens on `host`, as people use it. Written down for processes that have no gateway.
 */
export async function noteSshAddress(db: Queries, domain: string, host: string, port: number): Promise<SshAddress> {
  const address = { host: sshHost(domain, reachableAddress(host)), port };
  await setSetting(db, SETTING, JSON.stringify(address));
  return address;
}

/**
 * What a gateway wrote down, read once now and again when it is asked for after ten seconds; undefined while none has
 * been there. It never waits: while storage is away, what was read last stands.
 */
export async function notedSshAddress(db: Queries, clock: Clock, log: Log): Promise<() => SshAddress | undefined> {
  let [known, readAt, isReading]: [SshAddress | undefined, number, boolean] = [undefined, clock.now(), false];
  const read = async (): Promise<void> => {
    const text = await getSetting(db, SETTING);
    known = text === undefined ? undefined : addressSchema.parse(JSON.parse(text));
  };
  const readAgain = async (): Promise<void> => {
    isReading = true;
    try {
      await read();
    } catch (error) {
      log.debug({ err: error }, 'the address of the SSH gateway could not be read');
    } finally {
      [readAt, isReading] = [clock.now(), false];
    }
  };
  await read();
  return () => {
    // A clock that was set back tells nothing of how old it is.
    if (!isReading && Math.abs(clock.now() - readAt) > BELIEVED_MS) void readAgain();
    return known;
  };
}
