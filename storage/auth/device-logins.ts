/** SQL of logins that a program begins and a person approves in a browser. */
import { z } from 'zod';
import type { Queries, Tx } from '../db.ts';
import { columnsOf } from '../rows.ts';

/** Logins that wait at once: of all, and of one network. */
const MAX_WAITING = 10_000;
const MAX_WAITING_OF_NETWORK = 20;

/** What a program begins with. */
interface NewDeviceLogin {
  readonly deviceHash: string;
  readonly lookupHash: string;
  readonly codeHash: string;
  readonly name: string;
  readonly address: string;
  readonly network: string;
  readonly seconds: number;
  /** Least seconds between two questions. */
  readonly pause: number;
}

/** Begins a login. False when too many wait, or its code is taken. */
export async function beginDeviceLogin(db: Queries, login: NewDeviceLogin): Promise<boolean> {
  await purgeDeviceLogins(db);
  const { deviceHash, lookupHash, codeHash, name, address, network, seconds, pause } = login;
  const begun = await db.run(
    `insert into device_logins (device_hash, lookup_hash, code_hash, name, address, network, expires_at, pause)
       select $1, $2, $3, $4, $5, $6, now() + make_interval(secs => $7), $8
       where (select count(*) from device_logins) < ${MAX_WAITING}
         and (select count(*) from device_logins where network = $6) < ${MAX_WAITING_OF_NETWORK}
     on conflict do nothing`,
    [deviceHash, lookupHash, codeHash, name, address, network, seconds, pause],
  );
  return begun > 0;
}

const waitingRow = z.object({
  deviceHash: z.string(),
  codeHash: z.string(),
  name: z.string(),
  address: z.string(),
  createdAt: z.date(),
  expiresAt: z.date(),
  wrong: z.number(),
  approved: z.boolean().nullable(),
});

/** The login whose code begins so, held until the transaction ends. */
export function holdDeviceLogin(tx: Tx, lookupHash: string): Promise<z.output<typeof waitingRow> | undefined> {
  return tx.one(
    waitingRow,
    `select ${columnsOf(waitingRow)} from device_logins
     where lookup_hash = $1 and expires_at > now() for update`,
    [lookupHash],
  );
}

/** Counts a wrong code for a login that is held. */
export async function countWrongCode(tx: Tx, deviceHash: string): Promise<void> {
  await tx.run('update device_logins set wrong = wrong + 1 where device_hash = $1', [deviceHash]);
}

/**
 * Writes down what a user decided about a login that is held. `epoch`: the one in which their session counts.
 * `isProven`: their own login was a recent one.
 */
export async function decideDeviceLogin(
  tx: Tx,
  deviceHash: string,
  decided: {
    readonly userId: string;
    readonly epoch: number;
    readonly approved: boolean;
    readonly isProven: boolean;
  },
): Promise<void> {
  const { userId, epoch, approved, isProven } = decided;
  await tx.run(
    'update device_logins set approved = $3, user_id = $2, is_proven = $4, epoch = $5 where device_hash = $1',
    [deviceHash, userId, approved, isProven, epoch],
  );
}

const askedRow = z.object({
  name: z.string(),
  pause: z.number(),
  isEarly: z.boolean(),
  userId: z.string().nullable(),
  approved: z.boolean().nullable(),
  epoch: z.number().nullable(),
  isProven: z.boolean().nullable(),
});

/** Most seconds between two questions that a program is told to wait. */
const MAX_PAUSE = 60;

/**
 * What a program that asks is told: its login, and whether it asks too early, which makes its pause longer. Undefined
 * when there is none.
 */
export function askDeviceLogin(db: Queries, deviceHash: string): Promise<z.output<typeof askedRow> | undefined> {
  return db.one(
    askedRow,
    `with held as (
       select device_hash, asked_at > now() - make_interval(secs => pause - 0.5) is true as early
       from device_logins where device_hash = $1 and expires_at > now() for update
     )
     update device_logins d set asked_at = now(),
       pause = case when early and approved is null then least(pause + 5, ${MAX_PAUSE}) else pause end
     from held h where d.device_hash = h.device_hash
     returning ${columnsOf(askedRow, { isEarly: 'h.early' }, 'd')}`,
    [deviceHash],
  );
}

/** Ends a login. False when it was over before: whoever ends it is the only one. */
export async function endDeviceLogin(db: Queries, deviceHash: string): Promise<boolean> {
  return (await db.run('delete from device_logins where device_hash = $1', [deviceHash])) > 0;
}

/** Forgets logins whose time is over. Returns how many went. */
export function purgeDeviceLogins(db: Queries): Promise<number> {
  return db.run('delete from device_logins where expires_at < now()');
}
