/** Whether somebody is who they say, by password: throttled, audited and timed alike wherever one is given. */
import { KeyedQueue } from '../../../lib/concurrency.ts';
import { usernameSchema } from '../../../proto/auth/endpoints.ts';
import { type ClientNetwork, clientNetworkOf } from '../../../proto/client-network.ts';
import { Refusal } from '../../../proto/errors.ts';
import { userAtNetwork } from '../../../storage/auth/attempts.ts';
import { rehash, type UserRow } from '../../../storage/auth/users.ts';
import type { AuthDeps } from '../deps.ts';
import { hashesOverloaded, hashPassword, needsRehash, verifyNobody, verifyPassword } from './passwords.ts';
import type { PlaceLimit } from './place-limit.ts';
import { refusalAudit } from './refusal-audit.ts';
import { type Charge, Throttle } from './throttle.ts';
import { keyOf } from './throttle-rules.ts';

/** What somebody claims, and from where. */
interface Claim {
  readonly username: string;
  readonly password: string;
  readonly address: string;
  readonly requestId: string;
  /** What for: the noun of `<noun>.refused` in the audit trail. */
  readonly purpose: 'login' | 'password' | 'registry_token' | 'security_key';
  /**
   * There is no place for a second factor: of a user who has one the right password proves as little as a wrong one,
   * and nothing tells them apart.
   */
  readonly isWhole?: true;
}

/**
 * The user whose password it is; an old hash is replaced then. Refuses `invalid_credentials` (the same, and as slow,
 * for an unknown user), `forbidden` (theirs, but they are disabled), `too_many_attempts` and `overloaded`.
 */
export type ProvePassword = (claim: Claim) => Promise<UserRow>;

/** Told only to whoever has proven who they are. */
export function accountDisabled(): Refusal {
  return new Refusal('forbidden', { message: 'This account is disabled: ask whoever runs the platform.' });
}

/** A password that was right, before the failures counted against it are forgotten. */
interface Proof {
  readonly user: UserRow;
  readonly hasSecurityKeys: boolean;
  readonly charge: Pick<Charge, 'succeeded' | 'forgets'>;
}

/** What proves passwords. */
export interface PasswordProver {
  readonly prove: ProvePassword;
  /**
   * Proves one, then runs `enter`, which settles the charge: a login forgets and records in one statement. Resolves to
   * what `enter` does; refuses like `prove`. The next claim of this name from there waits until it ends.
   */
  readonly proveAndEnter: <T>(claim: Claim, enter: (proof: Proof) => Promise<T>) => Promise<T>;
}

/** Makes the one that proves passwords. There is one in a service: what it remembers bounds the work of this node. */
export function passwordProver(deps: Pick<AuthDeps, 'db' | 'clock' | 'log'>, places: PlaceLimit): PasswordProver {
  const { db, log, clock } = deps;
  const throttle = new Throttle(deps);
  const turns = new KeyedQueue();
  // Blocks are rarer than refusals and tell more: a flood of the ones must not push out the others.
  const [refusals, blocks] = [refusalAudit(db, clock), refusalAudit(db, clock)];

  const refuse = async (
    claim: Claim,
    user: UserRow | undefined,
    charge: Charge,
    detail?: Readonly<Record<string, unknown>>,
  ): Promise<never> => {
    const { purpose, address, requestId } = claim;
    // What was typed where the name belongs may be a password: only names of users are written down.
    const entry = { userId: null, username: user?.username ?? '', address, requestId };
    log.info({ username: entry.username, address, purpose }, 'password refused');
    const target = { action: `${purpose}.refused`, target: user?.id ?? '' };
    await refusals({ ...entry, ...target, ...(detail === undefined ? {} : { detail }) });
    for (const counted of charge.crossed) {
      // Of a network or site it is nobody's name.
      const places = clientNetworkOf(address);
      const isPlace = counted === 'network' || counted === 'site';
      const who = isPlace ? { username: '', target: places[counted] } : { target: user?.id ?? '' };
      await blocks({ ...entry, ...who, action: 'login.blocked', detail: { counted } });
    }
    throw new Refusal('invalid_credentials');
  };

  const prove = async (claim: Claim, username: string, from: ClientNetwork): Promise<Proof> => {
    const { network } = from;
    throttle.look(username, from);
    // Before anything is counted: who is not looked at is no failure.
    if (hashesOverloaded(from)) throw new Refusal('overloaded');
    const pair = keyOf('pair', username, from);
    const found = username === '' ? undefined : await userAtNetwork(db, username, network, pair);
    const { known, counted } = found ?? { known: false, counted: false };
    const charge = await throttle.charge({ username, from, known, counted });
    const { password } = claim;
    const user = found?.user;
    let right: boolean;
    try {
      right =
        user === undefined
          ? await verifyNobody(password, from)
          : await verifyPassword(user.passwordHash, password, from);
    } catch (error) {
      await charge.undone();
      throw error;
    }
    if (user === undefined || !right) return refuse(claim, user, charge);
    if (claim.isWhole && found?.hasSecurityKeys !== false)
      return refuse(claim, user, charge, { reason: 'second_factor' });
    if (user.disabledAt !== null) {
      await charge.succeeded();
      const { purpose, address, requestId } = claim;
      const entry = { userId: null, username: user.username, address, requestId, target: user.id };
      await refusals({ ...entry, action: `${purpose}.refused`, detail: { reason: 'disabled' } });
      throw accountDisabled();
    }
    const renewed = needsRehash(user.passwordHash) ? await renewHash(deps, user, password, from) : user;
    return { user: renewed, hasSecurityKeys: found?.hasSecurityKeys ?? true, charge };
  };

  const proveAndEnter: PasswordProver['proveAndEnter'] = (claim, enter) => {
    // A name nobody can have is counted under one name, whatever was typed.
    const username = usernameSchema.safeParse(claim.username).success ? claim.username : '';
    const from = clientNetworkOf(claim.address);
    // One after the other: right passwords sent at once do not count against each other while they are looked at.
    const inTurn = () =>
      turns.run(keyOf('pair', username, from), async () => enter(await prove(claim, username, from)));
    return places.run(from, inTurn);
  };

  return {
    proveAndEnter,
    prove: (claim) =>
      proveAndEnter(claim, async ({ user, charge }) => {
        await charge.succeeded();
        return user;
      }),
  };
}

/** Replaces an old hash; the user as they are then. Whoever could not be served now is served at the next login. */
async function renewHash(
  { db, log }: Pick<AuthDeps, 'db' | 'log'>,
  user: UserRow,
  password: string,
  client: ClientNetwork,
): Promise<UserRow> {
  try {
    const passwordHash = await hashPassword(password, client);
    if (await rehash(db, user.id, user.passwordHash, passwordHash)) return { ...user, passwordHash };
  } catch (error) {
    log.warn({ userId: user.id, err: error }, 'an old password hash could not be replaced');
  }
  return user;
}
