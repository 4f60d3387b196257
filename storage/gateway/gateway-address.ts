/** Where gateways answer, for processes that have none: the last gateway to start wrote it down. */
import { z } from 'zod';
import { reachableAddress } from '../../lib/ip-address.ts';
import { sshHost } from '../../proto/gateway/ssh.ts';
import type { Clock } from '../../proto/ports/clock.ts';
import type { Log } from '../../proto/ports/log.ts';
import type { Queries } from '../db.ts';
import { getSetting, setSetting } from '../settings.ts';

/** Named when it held the address of SSH alone: processes of earlier versions read it under this name. */
const SETTING = 'ssh_address';
/** What was read is believed for this long: a gateway seldom moves. */
const BELIEVED_MS = 10_000;

const portSchema = z.int().min(1).max(65_535);
/** `host` and `port` are those of SSH. Gateways of earlier versions wrote only these. */
const notedSchema = z.object({
  host: z.string(),
  port: portSchema,
  http: portSchema.optional(),
  https: portSchema.optional(),
});

/** Host and port of the SSH gateway, as people use them. */
export interface SshAddress {
  readonly host: string;
  readonly port: number;
}

/** Where a gateway answers. */
export interface GatewayAddress {
  readonly ssh: SshAddress;
  /** On which ports it listens; undefined when a gateway of an earlier version wrote it down. */
  readonly ports: { readonly http: number; readonly https: number } | undefined;
}

const addressOf = ({ host, port, http, https }: z.output<typeof notedSchema>): GatewayAddress => ({
  ssh: { host, port },
  ports: http === undefined || https === undefined ? undefined : { http, https },
});

/** Writes down where a gateway that listens on `host` answers, and gives it as people use it. */
export async function noteGateway(
  db: Queries,
  domain: string,
  host: string,
  { http, https, ssh }: { readonly http: number; readonly https: number; readonly ssh: number },
): Promise<GatewayAddress> {
  const noted = { host: sshHost(domain, reachableAddress(host)), port: ssh, http, https };
  await setSetting(db, SETTING, JSON.stringify(noted));
  return addressOf(noted);
}

/**
 * What a gateway wrote down, read once now and again when it is asked for after ten seconds; undefined while none has
 * been there. It never waits: while storage is away, what was read last stands.
 */
export async function notedGateway(db: Queries, clock: Clock, log: Log): Promise<() => GatewayAddress | undefined> {
  let [known, readAt, isReading]: [GatewayAddress | undefined, number, boolean] = [undefined, clock.now(), false];
  const read = async (): Promise<void> => {
    const text = await getSetting(db, SETTING);
    known = text === undefined ? undefined : addressOf(notedSchema.parse(JSON.parse(text)));
  };
  const readAgain = async (): Promise<void> => {
    isReading = true;
    try {
      await read();
    } catch (error) {
      log.debug({ err: error }, 'the address of the gateway could not be read');
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
