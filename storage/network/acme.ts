/**
 * SQL of accounts at certificate authorities, what they may still order, and of challenges that any gateway answers.
 */
import type { KeyObject } from 'node:crypto';
import { z } from 'zod';
import type { CertificatePem } from '../../proto/ports/acme.ts';
import type { Queries } from '../db.ts';
import { oneValue, orUndefined } from '../rows.ts';
import { open, openedOrNone, seal } from '../seal.ts';

const sealedCertificateRow = z.object({ hostname: z.string(), cert: z.string(), key_sealed: z.instanceof(Buffer) });

/**
 * New orders an account may place at once, and how fast they come back: below what the largest public authority allows,
 * 300 in three hours, so that it never has to refuse.
 */
const ORDER_BUDGET = { most: 100, perHour: 60 } as const;

/** Of the budget, what new names leave to renewals: a site that is served must not end because others map names. */
export const KEPT_FOR_RENEWALS = 20;

/** New names that one user has certificates ordered for in a day (UTC), below one registrable domain and in all. */
export const DAILY_SHARE = { ofDomain: 50, ofUser: 100 } as const;

/** What sealed values of this room are bound to. */
export const accountContext = (directoryUrl: string) => `acme_accounts/${directoryUrl}/key`;
export const challengeContext = (hostname: string) => `acme_challenges/${hostname}/key`;

const accountRow = z.object({ key_sealed: z.instanceof(Buffer), url: z.string().nullable() });

/**
 * The account's key (undefined when it does not open), and where it is once it was made; undefined when there is none.
 */
export async function acmeAccount(
  db: Queries,
  directoryUrl: string,
  sealKey: KeyObject,
): Promise<{ key: string | undefined; url: string | undefined } | undefined> {
  const row = await db.one(accountRow, 'select key_sealed, url from acme_accounts where directory_url = $1', [
    directoryUrl,
  ]);
  if (row === undefined) return undefined;
  return {
    key: openedOrNone(sealKey, accountContext(directoryUrl), row.key_sealed)?.toString(),
    url: row.url ?? undefined,
  };
}

/** Stores a key before the account is made with it, for the order that needs it; if there is one, that stays. */
export async function addAcmeAccount(
  db: Queries,
  directoryUrl: string,
  sealKey: KeyObject,
  key: string,
): Promise<void> {
  await db.run(
    'insert into acme_accounts (directory_url, key_sealed, budget) values ($1, $2, $3) on conflict do nothing',
    [directoryUrl, seal(sealKey, accountContext(directoryUrl), Buffer.from(key)), ORDER_BUDGET.most - 1],
  );
}

/** Replaces the key of an account that the authority does not know any more, unless somebody has done so. */
export async function replaceAcmeAccount(
  db: Queries,
  directoryUrl: string,
  sealKey: KeyObject,
  goneUrl: string | undefined,
  key: string,
): Promise<void> {
  await db.run(
    'update acme_accounts set key_sealed = $2, url = null where directory_url = $1 and url is not distinct from $3',
    [directoryUrl, seal(sealKey, accountContext(directoryUrl), Buffer.from(key)), goneUrl ?? null],
  );
}

/** Writes down where the account is. */
export async function setAcmeAccountUrl(db: Queries, directoryUrl: string, url: string): Promise<void> {
  await db.run('update acme_accounts set url = $2 where directory_url = $1', [directoryUrl, url]);
}

const FULL =
  `least(${ORDER_BUDGET.most}, budget + extract(epoch from clock_timestamp() - budget_at) / 3600 * ` +
  `${ORDER_BUDGET.perHour})`;

/**
 * Takes one order of the account's budget unless that leaves less than `kept`; false when there is none, or the account
 * has been asked to wait. Without an account: true.
 */
export async function takeOrder(db: Queries, directoryUrl: string, kept = 0): Promise<boolean> {
  const isOpen = await oneValue(
    db,
    z.boolean(),
    `select coalesce(hold_until <= clock_timestamp(), true) and ${FULL} >= 1 + $2::int from acme_accounts
     where directory_url = $1 for update`,
    [directoryUrl, kept],
  );
  if (isOpen === false) return false;
  await db.run(
    `update acme_accounts set budget = ${FULL} - 1, budget_at = clock_timestamp() where directory_url = $1`,
    [directoryUrl],
  );
  return true;
}

const shareRow = z.object({ of_domain: z.number(), of_user: z.number() });

/** Whose order of a new name is, and below which registrable domain the name is. */
interface Share {
  readonly userId: string;
  readonly registrable: string;
}

/** Whether the user has had as many orders of new names today as one may. */
export async function isShareUsed(db: Queries, { userId, registrable }: Share): Promise<boolean> {
  const row = await db.one(
    shareRow,
    `select coalesce(sum(orders) filter (where registrable = $2), 0)::int as of_domain, coalesce(sum(orders), 0)::int
      as of_user
     from acme_shares where user_id = $1 and day = (clock_timestamp() at time zone 'UTC')::date`,
    [userId, registrable],
  );
  return row !== undefined && (row.of_domain >= DAILY_SHARE.ofDomain || row.of_user >= DAILY_SHARE.ofUser);
}

/** Counts one. */
export async function noteShare(db: Queries, { userId, registrable }: Share): Promise<void> {
  await db.run(
    `insert into acme_shares (user_id, registrable, day, orders) values ($1, $2, (clock_timestamp() at time zone
      'UTC')::date, 1)
     on conflict (user_id, day, registrable) do update set orders = acme_shares.orders + 1`,
    [userId, registrable],
  );
}

/** The account places no orders for so long, because the authority said so. */
export async function holdAccount(db: Queries, directoryUrl: string, forMs: number, reason: string): Promise<void> {
  await db.run(
    `update acme_accounts set hold_until = clock_timestamp() + $2 * interval '1 ms', hold_reason = $3 where ` +
      'directory_url = $1',
    [directoryUrl, forMs, reason],
  );
}

const budgetRow = z.object({
  left: z.number().transform((left) => Math.max(0, Math.floor(left))),
  holdUntil: orUndefined(z.date()),
  holdReason: orUndefined(z.string()),
});

/** What an account may do. `holdUntil` only while it lies ahead. */
type AccountBudget = z.output<typeof budgetRow>;

/** What the account may still order, and until when it waits. */
export async function accountBudget(db: Queries, directoryUrl: string): Promise<AccountBudget> {
  const row = await db.one(
    budgetRow,
    `select ${FULL} as left, case when hold_until > clock_timestamp() then hold_until end as "holdUntil",
       case when hold_until > clock_timestamp() then hold_reason end as "holdReason" from acme_accounts where
       directory_url = $1`,
    [directoryUrl],
  );
  return row ?? { left: ORDER_BUDGET.most, holdUntil: undefined, holdReason: undefined };
}

/** Puts up what answers the challenge of a hostname. Once it resolves, every gateway finds it. */
export async function putChallenge(
  db: Queries,
  hostname: string,
  challenge: CertificatePem,
  sealKey: KeyObject,
): Promise<void> {
  await db.run(
    `insert into acme_challenges (hostname, cert, key_sealed) values ($1, $2, $3)
     on conflict (hostname) do update set cert = excluded.cert, key_sealed = excluded.key_sealed, created_at = now()`,
    [hostname, challenge.cert, seal(sealKey, challengeContext(hostname), Buffer.from(challenge.key))],
  );
}

/** What answers the challenges of these hostnames, where one is pending. */
export async function pendingChallenges(
  db: Queries,
  hostnames: readonly string[],
  sealKey: KeyObject,
): Promise<Map<string, CertificatePem>> {
  const rows = await db.many(
    sealedCertificateRow,
    'select hostname, cert, key_sealed from acme_challenges where hostname = any($1)',
    [hostnames],
  );
  return new Map(
    rows.map(({ hostname, cert, key_sealed }) => [
      hostname,
      { cert, key: open(sealKey, challengeContext(hostname), key_sealed).toString() },
    ]),
  );
}
