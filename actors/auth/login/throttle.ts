/** The login throttle: counts attempts before their passwords are looked at. The rules: throttle-rules.ts. */
import { LRUCache } from 'lru-cache';
import type { ClientNetwork } from '../../../proto/client-network.ts';
import { Refusal } from '../../../proto/errors.ts';
import { type AttemptRow, clearAttempts, holdAttempts, writeAttempts } from '../../../storage/auth/attempts.ts';
import type { AuthDeps } from '../deps.ts';
import { type BudgetKind, charged, keyOf, refunded, waitFor } from './throttle-rules.ts';

/**
 * A block found in the database is believed without asking again for this long: a flood does not reach the database.
 */
const BELIEVED_MS = 1000;
const MAX_BLOCKS = 10_000;

/** Who tries to be whom, and from where. */
interface LoginAttempt {
  /** A name somebody can have, or empty for all others. */
  readonly username: string;
  readonly from: ClientNetwork;
  /** The user has logged in from there before. */
  readonly known: boolean;
  /** It is counted already, as the first of this name from there. */
  readonly counted: boolean;
}

/** An attempt that was let through, counted as a failure until it is settled. */
export interface Charge {
  /** The budgets that it used up. */
  readonly crossed: readonly BudgetKind[];
  /**
   * When all that success changes is that the count under this key goes: the key, for who can do it with something
   * else.
   */
  readonly forgets: string | undefined;
  /** It was the right password: the failures of this name from this network are forgotten. */
  succeeded(): Promise<void>;
  /** The password was not looked at: nothing is counted. */
  undone(): Promise<void>;
}

export class Throttle {
  readonly #deps: Pick<AuthDeps, 'db' | 'clock'>;
  /** Keys that were found blocked; unix ms of our clock. */
  readonly #blocks = new LRUCache<string, { readonly until: number; readonly foundAt: number }>({ max: MAX_BLOCKS });

  constructor(deps: Pick<AuthDeps, 'db' | 'clock'>) {
    this.#deps = deps;
  }

  /**
   * Refuses `too_many_attempts` when the name is known to be blocked from this network, known or not. Asks no database.
   */
  look(username: string, from: ClientNetwork): void {
    this.#believe([keyOf('pair', username, from)]);
  }

  /**
   * Counts an attempt under all of its keys, or under none and refuses `too_many_attempts`. All nodes count in one
   * place and the counts are held meanwhile, so that many attempts at once cannot slip through.
   */
  charge(attempt: LoginAttempt): Promise<Charge> {
    return this.#charge(kindsOf(attempt), attempt);
  }

  /** The same for what names nobody: it counts with all that is tried from there. */
  chargePlace(from: ClientNetwork): Promise<Charge> {
    return this.#charge(kindsOfPlace(from), { username: '', from, counted: false });
  }

  async #charge(
    kinds: readonly BudgetKind[],
    attempt: Pick<LoginAttempt, 'username' | 'from' | 'counted'>,
  ): Promise<Charge> {
    const keys = new Map(kinds.map((kind) => [keyOf(kind, attempt.username, attempt.from), kind]));
    this.#believe([...keys.keys()]);
    const [only] = keys.keys();
    const forgets = keys.size === 1 ? only : undefined;
    const settled = { forgets, succeeded: () => this.#settle(keys, true), undone: () => this.#settle(keys, false) };
    const crossed: BudgetKind[] = [];
    // The first failure is free under every budget.
    if (attempt.counted) return { crossed, ...settled };
    await this.#deps.db.tx(async (tx) => {
      crossed.length = 0;
      const counts = await holdAttempts(tx, [...keys.keys()]);
      this.#refuseBlocked(counts);
      const after = counts.map((count) => {
        const kind = keys.get(count.key) ?? 'pair';
        const { crossed: now, ...next } = charged(kind, count, count.now);
        if (now) crossed.push(kind);
        return { key: count.key, ...next };
      });
      await writeAttempts(tx, after);
    });
    return { crossed, ...settled };
  }

  /** Throws, and with it rolls the rows back that were made to be looked at: only attempts that go on make any. */
  #refuseBlocked(counts: readonly AttemptRow[]): void {
    let wait = 0;
    for (const count of counts) {
      const own = waitFor(count, count.now);
      if (own <= 0) continue;
      const foundAt = this.#deps.clock.now();
      this.#blocks.set(count.key, { until: foundAt + own * 1000, foundAt });
      wait = Math.max(wait, own);
    }
    if (wait > 0) throw tooMany(wait);
  }

  #believe(keys: readonly string[]): void {
    const now = this.#deps.clock.now();
    let wait = 0;
    for (const key of keys) {
      const block = this.#blocks.get(key);
      // A clock that was set back tells nothing of how old it is.
      const isFresh = block !== undefined && now >= block.foundAt && now < block.foundAt + BELIEVED_MS;
      if (isFresh) wait = Math.max(wait, block.until - now);
    }
    if (wait > 0) throw tooMany(wait / 1000);
  }

  async #settle(keys: ReadonlyMap<string, BudgetKind>, succeeded: boolean): Promise<void> {
    const { db } = this.#deps;
    const [only] = keys.keys();
    if (succeeded && keys.size === 1 && only !== undefined) return clearAttempts(db, only);
    await db.tx(async (tx) => {
      const counts = await holdAttempts(tx, [...keys.keys()]);
      const after = counts.map((count) => {
        const kind = keys.get(count.key) ?? 'pair';
        if (succeeded && kind === 'pair') return { ...count, failures: 0, blockedUntil: 0 };
        return { ...count, ...refunded(kind, count) };
      });
      await writeAttempts(tx, after);
    });
  }
}

function kindsOf({ known, from }: LoginAttempt): readonly BudgetKind[] {
  return known ? ['pair'] : [...kindsOfPlace(from), 'name', 'pair'];
}

function kindsOfPlace(from: ClientNetwork): readonly BudgetKind[] {
  return from.site === from.network ? ['network'] : ['network', 'site'];
}

function tooMany(seconds: number): Refusal {
  return new Refusal('too_many_attempts', { retryAfter: Math.max(1, Math.ceil(seconds)) });
}
