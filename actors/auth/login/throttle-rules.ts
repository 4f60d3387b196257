/**
 * The rules of the login throttle, pure: what is counted under which key, and how long the next one must wait.
 *
 * Four budgets, each against one way to guess:
 * - `pair`, a name tried from a network: 5 failures, then waits of 1, 2, 4 ... 900 s. Nobody
 *   guesses long from one place (300 guesses a day at most), and nobody elsewhere is locked out by it.
 * - `network`, all names tried from a network: 50 failures in 10 minutes, then waits of up to 300 s. Against one
 *   password tried on many names. Generous (7,300 a day for who stays below it), for many people share an address
 *   behind NAT.
 * - `site`, all names tried from an IPv6 /48: four times the `network` budget. Whoever is given a /48 has 65,536
 *   networks in it.
 * - `name`, a name tried from networks it has not logged in from: 60 failures in 10 minutes, then one attempt every 10
 *   s (9,100 a day) for all those networks together. Against many addresses that guess one user. More cannot be had:
 *   strangers cannot be told from the user at a new address, so either the guesses are bounded or the user is never
 *   asked to wait. The wait that is asked for is short, so that one who comes back has a chance in every ten seconds.
 *
 * A fifth, `device`, counts the wrong codes that a user enters for logins of programs: like `pair`.
 *
 * From a network where the user has logged in during the last 90 days only `pair` counts: whatever strangers do, here
 * or elsewhere, the user comes in. That such a place is treated better can be seen from that place alone.
 *
 * A network is what one client can choose its address from: an IPv4 address, or the /64 of an IPv6 address (RFC 6177).
 * A site is what one customer of a provider is commonly given (proto/client-network.ts); an IPv4 address is its own.
 */
import { createHash } from 'node:crypto';
import type { ClientNetwork } from '../../../proto/client-network.ts';

/** One budget. */
interface Budget {
  /** Failures that are free; forgiven evenly over `windowSeconds`. */
  readonly free: number;
  readonly windowSeconds: number;
  /**
   * Once the free ones are used up, only so long a silence forgives, and it forgives all. Longer than `maxWaitSeconds`.
   */
  readonly quietSeconds: number;
  readonly maxWaitSeconds: number;
}

export const BUDGETS = {
  pair: { free: 5, windowSeconds: 3600, quietSeconds: 3600, maxWaitSeconds: 900 },
  network: { free: 50, windowSeconds: 600, quietSeconds: 3600, maxWaitSeconds: 300 },
  site: { free: 200, windowSeconds: 600, quietSeconds: 3600, maxWaitSeconds: 300 },
  name: { free: 60, windowSeconds: 600, quietSeconds: 600, maxWaitSeconds: 10 },
  device: { free: 5, windowSeconds: 3600, quietSeconds: 3600, maxWaitSeconds: 900 },
} as const satisfies Record<string, Budget>;

/** What an attempt is counted under. */
export type BudgetKind = keyof typeof BUDGETS;

/** Failures counted under one key; all times in unix seconds. */
export interface Count {
  readonly failures: number;
  /** Of the last failure that was counted. */
  readonly lastAt: number;
  /** No attempt before this. */
  readonly blockedUntil: number;
}

/** Seconds until an attempt may be made; 0: now. */
export function waitFor(count: Count, now: number): number {
  return Math.max(0, count.blockedUntil - now);
}

/** The count after one more failure, and whether with it the free ones are used up for the first time. */
export function charged(kind: BudgetKind, count: Count, now: number): Count & { readonly crossed: boolean } {
  const budget = BUDGETS[kind];
  const before = forgiven(budget, count, now);
  const failures = before + 1;
  if (!usedUp(budget, failures)) return { failures, lastAt: now, blockedUntil: 0, crossed: false };
  const over = Math.ceil(failures) - budget.free;
  const wait = Math.min(budget.maxWaitSeconds, 2 ** Math.min(over, 30));
  return { failures, lastAt: now, blockedUntil: now + wait, crossed: !usedUp(budget, before) };
}

/** The count when one that was charged turned out to be no failure. The block it brought is lifted with it. */
export function refunded(kind: BudgetKind, count: Count): Count {
  const failures = Math.max(0, count.failures - 1);
  return { ...count, failures, blockedUntil: usedUp(BUDGETS[kind], failures) ? count.blockedUntil : 0 };
}

/**
 * A part of a failure counts as one: something is forgiven in every moment, also between attempts that come together.
 */
function usedUp(budget: Budget, failures: number): boolean {
  return Math.ceil(failures) >= budget.free;
}

function forgiven(budget: Budget, count: Count, now: number): number {
  const idle = Math.max(0, now - count.lastAt);
  if (idle >= budget.quietSeconds) return 0;
  if (usedUp(budget, count.failures)) return count.failures;
  return Math.max(0, count.failures - (idle * budget.free) / budget.windowSeconds);
}

/** The key of a count. Names are hashed: people type passwords where the name belongs, and a table would keep them. */
export function keyOf(kind: BudgetKind, username: string, { network, site }: ClientNetwork): string {
  if (kind === 'network') return `network:${network}`;
  if (kind === 'site') return `site:${site}`;
  const text = kind === 'pair' ? `${username}\0${network}` : username;
  return `${kind}:${createHash('sha256').update(text).digest('base64url').slice(0, 22)}`;
}
