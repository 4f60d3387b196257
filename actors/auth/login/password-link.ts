/** Passwords that users set by a link (../users/password-links.ts): no login is asked for, the link is the proof. */
import { KeyedQueue } from '../../../lib/concurrency.ts';
import { showPasswordLink, usePasswordLink } from '../../../proto/auth/endpoints.ts';
import { clientNetworkOf } from '../../../proto/client-network.ts';
import type { Call } from '../../../proto/endpoint.ts';
import { Refusal } from '../../../proto/errors.ts';
import { audit } from '../../../storage/audit.ts';
import { clearAttempts } from '../../../storage/auth/attempts.ts';
import { passwordLink, takePasswordLink } from '../../../storage/auth/password-links.ts';
import { found, type Handler, handler } from '../../service/dispatch.ts';
import type { AuthDeps } from '../deps.ts';
import { hashOfLinkToken, isLinkToken } from '../users/password-links.ts';
import { acceptPassword, writePassword } from '../users/users.ts';
import { hashPassword } from './passwords.ts';
import type { PlaceLimit } from './place-limit.ts';
import { refusalAudit } from './refusal-audit.ts';
import { Throttle } from './throttle.ts';
import { keyOf } from './throttle-rules.ts';

/** The handlers, for the pool of logins. */
export function passwordLinkHandlers(deps: AuthDeps, places: PlaceLimit): readonly Handler<undefined>[] {
  const { db, log, clock } = deps;
  const throttle = new Throttle(deps);
  // A flood of refusals must not push out the blocks, which are rarer and tell more.
  const [refusals, blocks] = [refusalAudit(db, clock), refusalAudit(db, clock)];
  const [turns, charges] = [new KeyedQueue(), new KeyedQueue()];

  /**
   * The link that holds, whatever others tried from there: 256 random bits need no throttle. Refuses `not_found`, alike
   * for all that do not, and counts that as a wrong password; past the budget `too_many_attempts`.
   */
  const find = async (tokenHash: string, { address, requestId }: Call) => {
    const link = await passwordLink(db, tokenHash);
    if (link !== undefined) return link;
    const from = clientNetworkOf(address);
    // They wait for the same row: one after the other here, they take one connection. One that waited may be blocked.
    const charge = await charges.run(from.site, () => throttle.chargePlace(from));
    log.info({ address }, 'password link refused');
    const entry = { userId: null, username: '', address, requestId };
    await refusals({ ...entry, action: 'password_link.refused' });
    for (const counted of charge.crossed) {
      const target = counted === 'site' ? from.site : from.network;
      await blocks({ ...entry, action: 'login.blocked', target, detail: { counted } });
    }
    throw unknownLink();
  };

  /** Runs `work` with the hash of the token. What can be no token is refused for nothing, and not counted. */
  const admit = async <T>(token: string, { address }: Call, work: (tokenHash: string) => Promise<T>): Promise<T> => {
    if (!isLinkToken(token)) throw unknownLink();
    return places.run(clientNetworkOf(address), () => work(hashOfLinkToken(token)));
  };

  return [
    handler(showPasswordLink, (_: undefined, call) =>
      admit(call.body.token, call, async (tokenHash) => {
        const { username, expiresAt } = await find(tokenHash, call);
        return { username, expires_at: expiresAt.toISOString() };
      }),
    ),

    handler(usePasswordLink, (_: undefined, call) => {
      const { address, requestId, body } = call;
      const from = clientNetworkOf(address);
      return admit(body.token, call, (tokenHash) =>
        // One after the other: of many with one token only the first costs a hash.
        turns.run(tokenHash, async () => {
          const { userId, username } = await find(tokenHash, call);
          acceptPassword(body.new_password, username);
          const passwordHash = await hashPassword(body.new_password, from);
          await db.tx(async (tx) => {
            const user = found(await takePasswordLink(tx, tokenHash), unknownLink);
            const sessions = await writePassword(tx, user.id, passwordHash, from.network);
            // Whoever forgot a password has tried some.
            await clearAttempts(tx, keyOf('pair', username, from));
            const by = { userId: user.id, username, address, requestId };
            await audit(tx, { ...by, action: 'password_link.use', target: user.id, detail: { sessions } });
          });
          deps.tokensChanged({ kind: 'user', id: userId });
          log.info({ userId, address }, 'password set by a link');
          return { username };
        }),
      );
    }),
  ];
}

/** Says nothing of why: not whether there ever was such a link. */
function unknownLink(): Refusal {
  return new Refusal('not_found', {
    message: 'This link is wrong, was used, or is too old. Ask whoever runs the platform for a new one.',
  });
}
