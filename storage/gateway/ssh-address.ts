/** Where containers are reached by SSH, for processes without a gateway: the last gateway to start wrote it down. */
import { z } from 'zod';
import { reachableAddress } from '../../lib/ip-address.ts';
import { sshHost } from '../../proto/gateway/ssh.ts';
import type { Clock } from '../../proto/ports/clock.ts';
import type { Log } from '../../proto/ports/log.ts';
import type { Queries } from '../queries.ts';
import { getSetting, setSetting } from '../settings.ts';

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
