/** Whether somebody with a session is still its user: before what a stolen token must not do. */

import { RECENT_LOGIN_SECONDS } from '../../../proto/auth/security-keys.ts';
import type { Call } from '../../../proto/endpoint.ts';
import { Refusal } from '../../../proto/errors.ts';
import type { Clock } from '../../../proto/ports/clock.ts';
import { callerOf } from '../../service/dispatch.ts';
import type { ProvePassword } from './prove-password.ts';

/**
 * Makes the function that asks for it: a login of the last ten minutes, or the password. It refuses `proof_needed` when
 * there is neither, `wrong_password`, and `too_many_attempts` as a login does.
 */
export function freshProof({ clock, provePassword }: { clock: Clock; provePassword: ProvePassword }) {
  return async (call: Call, password: string | undefined) => {
    const { userId, username, session } = callerOf(call);
    if (password === undefined) {
      if (session !== undefined && clock.now() / 1000 - session.issuedAt <= RECENT_LOGIN_SECONDS) return;
      throw new Refusal('proof_needed', {
        message:
          `Your login is older than ${RECENT_LOGIN_SECONDS / 60} minutes: send your password as "password" in this ` +
          'body, too, or log in again.',
      });
    }
    const { address, requestId } = call;
    const proven = await provePassword({ username, password, address, requestId, purpose: 'security_key' }).catch(
      (error: unknown) => {
        throw error instanceof Refusal && error.code === 'invalid_credentials' ? new Refusal('wrong_password') : error;
      },
    );
    // The name was given to somebody new meanwhile.
    if (proven.id !== userId) throw new Refusal('unauthorized');
  };
}
