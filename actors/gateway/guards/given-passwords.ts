/**
 * Looks at the passwords that visitors give at guarded ports. Hashes are slow on purpose: a password that was right
 * once is known again without one, and wrong ones cost a budget before they are looked at.
 *
 * Three budgets for a rule, counted by this process: one of each client network and one of each site, against who
 * guesses from one place, and one of all networks together that have not given the right password yet, against who
 * guesses from many.
 */
import { createHmac, randomBytes } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { KeyedLimit } from '../../../lib/concurrency.ts';
import { Buckets } from '../../../proto/buckets.ts';
import { type ClientNetwork, clientNetworkOf } from '../../../proto/client-network.ts';
import { Refusal } from '../../../proto/errors.ts';
import type { PortGuard } from '../../../proto/gateway/port-guard.ts';
import type { Clock } from '../../../proto/ports/clock.ts';
import type { PasswordHashes } from '../../../proto/ports/passwords.ts';

/** What is known of a password: whether it is right, how long to wait before it is looked at (ms), or `busy`. */
type PasswordFinding = 'right' | 'wrong' | 'busy' | { readonly waitMs: number };

const NETWORK_PACE = { burst: 10, everyMs: 30_000 } as const;
const SITE_PACE = { burst: 40, everyMs: 7500 } as const;
const STRANGERS_PACE = { burst: 100, everyMs: 1000 } as const;

/**
 * Passwords that are looked at or wait for it, of all strangers at a rule, and of a network that is none. Logins wait
 * in the same queue, in which sites take turns.
 */
const AT_ONCE = 8;
/** No rule has a longer one (`ingressPasswordSchema`). Unicode twins may differ in length. */
const LONGEST = 512;
const MOST_PROVEN = 10_000;
/** Networks of one rule that gave its password, and rules whose are kept: those of one rule push out no other's. */
const MOST_KNOWN = 500;
const MOST_RULES = 2000;

export class GivenPasswords {
  readonly #hashes: Pick<PasswordHashes, 'verify'>;
  /** Of this process: what is remembered tells nothing to whoever reads its memory in part. */
  readonly #key = randomBytes(32);
  readonly #right = new LRUCache<string, true>({ max: MOST_PROVEN });
  /** Networks that gave the right password, by rule. */
  readonly #known = new LRUCache<number, LRUCache<string, true>>({ max: MOST_RULES });
  readonly #pending = new Map<string, Promise<PasswordFinding>>();
  readonly #limit = new KeyedLimit(AT_ONCE);
  readonly #networks: Buckets;
  readonly #sites: Buckets;
  readonly #strangers: Buckets;

  constructor(hashes: Pick<PasswordHashes, 'verify'>, clock: Clock) {
    this.#hashes = hashes;
    this.#networks = new Buckets(NETWORK_PACE, clock);
    this.#sites = new Buckets(SITE_PACE, clock);
    this.#strangers = new Buckets(STRANGERS_PACE, clock);
  }

  /** Looks at a password that came from `address`. Rejects when hashes cannot be made at all. */
  look(
    guard: PortGuard,
    stored: string,
    password: string,
    address: string,
  ): PasswordFinding | Promise<PasswordFinding> {
    const client = clientNetworkOf(address);
    const budgets = this.#budgetsOf(guard, client);
    // Before anything tells whether it is right: who has used up the budget learns nothing, however fast it asks.
    const waitMs = Math.max(...budgets.map(({ of, key }) => of.waitFor(key)));
    if (waitMs > 0) return { waitMs };
    const print = this.#print(stored, password);
    const noted = (finding: PasswordFinding): PasswordFinding => {
      if (finding === 'right') this.#note(guard, client);
      return finding;
    };
    const pending = this.#pending.get(print);
    if (pending !== undefined) return pending.then(noted);
    if (this.#right.get(print)) return noted('right');
    // It is wrong without a look, and is not to push the budgets of others out.
    if (password.length > LONGEST) return 'wrong';
    for (const { of, key } of budgets) of.take(key);
    const rule = String(guard.rule);
    const leave = this.#limit.enter(this.#isKnown(guard, client) ? placeOf(guard, client.network) : rule);
    const giveBack = () => {
      for (const { of, key } of budgets) of.giveBack(key);
    };
    if (leave === undefined) {
      giveBack();
      return 'busy';
    }
    const looking = this.#verify(stored, password, client)
      .then((finding) => {
        if (finding !== 'wrong') giveBack();
        if (finding === 'right') this.#right.set(print, true);
        return noted(finding);
      })
      .finally(() => {
        this.#pending.delete(print);
        leave();
      });
    this.#pending.set(print, looking);
    return looking;
  }

  async #verify(stored: string, password: string, client: ClientNetwork): Promise<PasswordFinding> {
    try {
      return (await this.#hashes.verify(stored, password, client)) ? 'right' : 'wrong';
    } catch (error) {
      if (error instanceof Refusal && error.code === 'overloaded') return 'busy';
      throw error;
    }
  }

  #budgetsOf(guard: PortGuard, { network, site }: ClientNetwork) {
    const budgets = [{ of: this.#networks, key: placeOf(guard, network) }];
    if (site !== network) budgets.push({ of: this.#sites, key: placeOf(guard, site) });
    if (!this.#isKnown(guard, { network })) budgets.push({ of: this.#strangers, key: String(guard.rule) });
    return budgets;
  }

  /** Whether this network gave the right password. */
  #isKnown({ rule }: PortGuard, { network }: Pick<ClientNetwork, 'network'>): boolean {
    return this.#known.get(rule)?.get(network) === true;
  }

  #note({ rule }: PortGuard, { network }: ClientNetwork): void {
    const known = this.#known.get(rule) ?? new LRUCache<string, true>({ max: MOST_KNOWN });
    this.#known.set(rule, known.set(network, true));
  }

  /** The stored hash names the rule: each has a salt of its own. */
  #print(stored: string, password: string): string {
    return createHmac('sha256', this.#key)
      .update(`${stored}\n${password.normalize('NFC')}`)
      .digest('base64url');
  }
}

const placeOf = ({ rule }: PortGuard, place: string): string => `${rule} ${place}`;
