/**
 * Logins of programs, approved in a browser (proto/auth/device.ts):
 *
 *   begin --> waiting -- approve --> approved -- asked --> session, and over
 *                |  \-- refuse --> refused -- asked --> over
 *                +-- five wrong second halves, or ten minutes --> over
 *
 * A code counts once. What a person decides is written down under their session; a look decides nothing.
 */
import { timingSafeEqual } from 'node:crypto';
import { CodedError } from '../../../lib/errors.ts';
import { approveDevice, beginDevice, DEVICE_SECONDS, deviceToken } from '../../../proto/auth/device.ts';
import { isRecentLogin } from '../../../proto/auth/security-keys.ts';
import { Buckets } from '../../../proto/buckets.ts';
import { clientNetworkOf, networkOf } from '../../../proto/client-network.ts';
import type { CallOf } from '../../../proto/endpoint.ts';
import { Refusal } from '../../../proto/errors.ts';
import { audit } from '../../../storage/audit.ts';
import { holdAttempts, writeAttempts } from '../../../storage/auth/attempts.ts';
import {
  askDeviceLogin,
  beginDeviceLogin,
  countWrongCode,
  decideDeviceLogin,
  endDeviceLogin,
  holdDeviceLogin,
} from '../../../storage/auth/device-logins.ts';
import { epochOfSession } from '../../../storage/auth/sessions.ts';
import { userById } from '../../../storage/auth/users.ts';
import type { Tx } from '../../../storage/db.ts';
import { auditEntry } from '../../service/audit.ts';
import { callerOf, type Handler, handler } from '../../service/dispatch.ts';
import type { AuthDeps } from '../deps.ts';
import { consoleOrigin } from './console-origin.ts';
import { DeviceCodes } from './device-codes.ts';
import { loginSessions } from './login-sessions.ts';
import { charged, waitFor } from './throttle-rules.ts';

/** Seconds between two questions of a program. */
const PAUSE = 2;
/** Wrong second halves of a code that end its login. */
const MOST_WRONG = 5;
/** Codes that are tried when one is taken. */
const TRIES = 3;

/** Logins begun of one network, and of one site: it may have 65,536 networks, and must not fill all places. */
const BEGIN_PACE = { burst: 20, everyMs: 6000 };
const SITE_PACE = { burst: 80, everyMs: 1500 };
/** Questions of one network. */
const ASK_PACE = { burst: 100, everyMs: 100 };

/** The code was found to be used by another request at the same time. */
class UsedElsewhere extends CodedError<'used'> {
  constructor() {
    super('used', 'the code was used at the same time');
  }
}

/** The handlers, for the pool of logins. */
export function deviceHandlers(deps: AuthDeps): readonly Handler<undefined>[] {
  const { db, log, clock } = deps;
  const codes = new DeviceCodes(deps.jwtSecret);
  const enter = loginSessions(deps);
  const [begins, begunAtSite] = [new Buckets(BEGIN_PACE, clock), new Buckets(SITE_PACE, clock)];
  const asks = new Buckets(ASK_PACE, clock);

  return [
    handler(beginDevice, async (_: undefined, { body: { name }, address, host }) => {
      const { network, site } = clientNetworkOf(address);
      paced(begins, network);
      paced(begunAtSite, site);
      for (let left = TRIES; left > 0; left--) {
        const [device, user] = [codes.newDeviceCode(), codes.newUserCode()];
        const hashes = codes.userCode(user);
        if (hashes === undefined) throw new TypeError('a code that is none was made');
        const { lookupHash, codeHash } = hashes;
        const deviceHash = codes.deviceHash(device);
        const login = {
          deviceHash,
          lookupHash,
          codeHash,
          name,
          address,
          network,
          seconds: DEVICE_SECONDS,
          pause: PAUSE,
        };
        if (!(await beginDeviceLogin(db, login))) continue;
        const url = `${consoleOrigin(deps.domain, host)}/device`;
        return {
          device_code: device,
          user_code: user,
          verification_url: url,
          verification_url_complete: `${url}#${user}`,
          expires_in: DEVICE_SECONDS,
          interval: PAUSE,
        } as const;
      }
      throw new Refusal('overloaded', { message: 'Too many logins wait to be approved: try again in some minutes.' });
    }),

    handler(approveDevice, async (_: undefined, call) => {
      const decided = await db.tx((tx) => decide(tx, codes, call, clock.now()));
      if (decided === undefined)
        throw new Refusal('not_found', { message: 'No login waits with this code: it is wrong, used or too old.' });
      return decided;
    }),

    handler(deviceToken, async (_: undefined, { body: { device_code }, address, requestId }) => {
      paced(asks, networkOf(address));
      const deviceHash = codes.deviceHash(device_code);
      const login = await askDeviceLogin(db, deviceHash);
      if (login === undefined) return { status: 'expired' as const };
      const { name, pause: interval, isEarly, approved, userId, epoch, isProven } = login;
      if (approved === null) return { status: isEarly ? ('slow_down' as const) : ('pending' as const), interval };
      const user = approved && userId !== null ? await userById(db, userId) : undefined;
      // Disabled meanwhile, or whoever approved may be the one whom a new password was to keep out.
      if (user === undefined || user.disabledAt !== null || user.sessionsEpoch !== epoch) {
        await endDeviceLogin(db, deviceHash);
        return { status: 'refused' as const };
      }
      try {
        const from = { address, requestId, userAgent: `troupe on ${name}` };
        const { expiresAt, ...identity } = await enter(
          user,
          from,
          { factor: 'device', name },
          {
            ...(isProven === true ? {} : { via: 'device' }),
            first: async (tx) => {
              if (!(await endDeviceLogin(tx, deviceHash))) throw new UsedElsewhere();
            },
          },
        );
        return { status: 'approved' as const, ...identity, expires_at: expiresAt.toISOString() };
      } catch (error) {
        if (!(error instanceof UsedElsewhere)) throw error;
        log.warn({ userId: user.id, address }, 'a code of a login by browser was used twice at once');
        return { status: 'expired' as const };
      }
    }),
  ];
}

/**
 * What a person says about a code, or undefined when it is wrong: then it is counted for them, and for the login whose
 * first half it has. Refuses `too_many_attempts`, `conflict`, and `unauthorized` when their session ended meanwhile.
 */
async function decide(tx: Tx, codes: DeviceCodes, call: CallOf<typeof approveDevice>, now: number) {
  const caller = callerOf(call);
  const { userId } = caller;
  const { user_code, decision } = call.body;
  const [count] = await holdAttempts(tx, [`device:${userId}`]);
  if (count === undefined) throw new TypeError('a count that was held is not there');
  const wait = waitFor(count, count.now);
  if (wait > 0)
    throw new Refusal('too_many_attempts', {
      message: 'Too many wrong codes: wait before you try again.',
      retryAfter: Math.ceil(wait),
    });
  const hashes = codes.userCode(user_code);
  const login = hashes === undefined ? undefined : await holdDeviceLogin(tx, hashes.lookupHash);
  if (hashes === undefined || login === undefined || !isSame(login.codeHash, hashes.codeHash)) {
    const { crossed, ...next } = charged('device', count, count.now);
    await writeAttempts(tx, [{ key: count.key, ...next }]);
    if (crossed) await audit(tx, auditEntry(call, 'device.blocked', userId));
    if (login !== undefined && login.wrong + 1 >= MOST_WRONG) await endDeviceLogin(tx, login.deviceHash);
    else if (login !== undefined) await countWrongCode(tx, login.deviceHash);
    return undefined;
  }
  if (login.approved !== null) throw new Refusal('conflict', { message: 'This login was decided already.' });
  const { name, address } = login;
  const view = { name, address, created_at: login.createdAt.toISOString(), expires_at: login.expiresAt.toISOString() };
  if (decision === 'show') return { status: 'pending' as const, ...view };
  const approved = decision === 'approve';
  const epoch = await epochOfSession(tx, userId, caller);
  // A password link or an administrator ended the session meanwhile.
  if (epoch === null) throw new Refusal('unauthorized');
  await decideDeviceLogin(tx, login.deviceHash, { userId, epoch, approved, isProven: isRecentLogin(caller, now) });
  await audit(tx, auditEntry(call, `device.${decision}`, userId, { name, address }));
  return { status: approved ? ('approved' as const) : ('refused' as const), ...view };
}

function paced(buckets: Buckets, key: string): void {
  const wait = buckets.take(key);
  if (wait === 0) return;
  const retryAfter = Math.ceil(wait / 1000);
  throw new Refusal('too_many_attempts', { message: 'Too many requests from your network: wait a while.', retryAfter });
}

function isSame(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one), Buffer.from(other)];
  return a.length === b.length && timingSafeEqual(a, b);
}
