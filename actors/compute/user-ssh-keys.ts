/** The calls on a user's SSH keys. */

import { isRecentLogin, RECENT_LOGIN_SECONDS } from '../../proto/auth/security-keys.ts';
import { createSshKey, deleteSshKey, listSshKeys, setSshKeyLogin } from '../../proto/compute/endpoints.ts';
import { parsePublicKey } from '../../proto/compute/ssh-key.ts';
import type { Caller } from '../../proto/endpoint.ts';
import { Refusal } from '../../proto/errors.ts';
import { invalidField } from '../../proto/validation-messages.ts';
import { audit } from '../../storage/audit.ts';
import { tellCompute } from '../../storage/compute/news.ts';
import { deleteKey, insertKey, listKeys, type SshKeyRow, setKeyLogin } from '../../storage/compute/ssh-keys.ts';
import type { Tx } from '../../storage/db.ts';
import { fenced } from '../../storage/fenced.ts';
import { auditEntry } from '../service/audit.ts';
import { callerOf, found, type Handler, handler } from '../service/dispatch.ts';
import { keptReply } from '../service/kept.ts';
import { currentLimit, limitReached } from '../service/user-limits.ts';
import type { ComputeDeps } from './deps.ts';
import type { ComputeUserState } from './user-state.ts';
import { keyView } from './views.ts';

/** Their handlers. `reconcile` wakes the actor of a container that a deleted key could log in to. */
export function sshKeyHandlers(
  deps: Pick<ComputeDeps, 'db' | 'clock' | 'userLimits'>,
  reconcile: (containerId: string) => void,
): readonly Handler<ComputeUserState>[] {
  /** Refuses whoever may not let a key into the account: a key of a thief's would outlast what they stole. */
  const mayMark = (caller: Caller): void => {
    const because = (message: string) => new Refusal('forbidden', { message });
    if (caller.kind !== 'session')
      throw because('A key that opens the account is added by a login, not by an API token.');
    if (caller.via === 'ssh_key')
      throw because('A login by SSH key lets no key into the account: log in with the password, by `troupe login`.');
    if (!isRecentLogin(caller, deps.clock.now()))
      throw because(
        `A key is let into the account within ${RECENT_LOGIN_SECONDS / 60} minutes of a login: log in again ` +
          '(`troupe login`; who approves that in a browser logs in anew there, too), and repeat this.',
      );
  };
  return [
    handler(listSshKeys, async (state: ComputeUserState) => ({
      ssh_keys: (await listKeys(deps.db, state.userId)).map(keyView),
    })),
    handler(createSshKey, async (state: ComputeUserState, call) => {
      const { body } = call;
      const isLogin = body.login === true;
      if (isLogin) mayMark(callerOf(call));
      const key = parsePublicKey(body.public_key.trim());
      if (key === undefined) {
        throw invalidField(
          'public_key',
          'must be one line of an OpenSSH public key (ssh-ed25519, ssh-rsa of at least 2048 bits, or ' +
            'ecdsa-sha2-nistp256/384/521)',
        );
      }
      const publicKey = [key.type, key.base64, key.comment].filter((part) => part !== '').join(' ');
      return fenced(deps.db, state.lease, async (tx) => {
        const { fingerprint } = key;
        const { most } = await currentLimit(tx, deps.userLimits, state.userId, 'ssh_keys');
        const wanted = { userId: state.userId, name: body.name, publicKey, fingerprint };
        const inserted = await insertKey(tx, { ...wanted, ...(isLogin ? { markedBy: callerOf(call) } : {}) }, most);
        if (inserted === 'full') throw limitReached(callerOf(call).username, 'ssh_keys', most, 'SSH keys');
        if (inserted === 'duplicate') {
          throw new Refusal('conflict', { message: `You have this key already (${fingerprint}).` });
        }
        if (isLogin && !inserted.isLogin) throw sessionEnded();
        await audit(tx, auditEntry(call, 'ssh_key.create', String(inserted.id), { name: body.name, fingerprint }));
        if (isLogin) await auditLogin(tx, call, inserted, fingerprint);
        return keptReply(tx, call, keyView(inserted));
      });
    }),
    handler(setSshKeyLogin, async (state: ComputeUserState, call) => {
      const { params, body } = call;
      if (body.login) mayMark(callerOf(call));
      const key = await fenced(deps.db, state.lease, async (tx) => {
        const set = await setKeyLogin(tx, state.userId, params.id, body.login ? callerOf(call) : undefined);
        if (set === undefined) throw noSuchKey();
        if (body.login && !set.key.isLogin) throw sessionEnded();
        if (set.was !== body.login) {
          await auditLogin(tx, call, set.key, set.fingerprint);
          await tellCompute(tx, { kind: 'key', userId: state.userId, fingerprint: set.fingerprint });
        }
        return set.key;
      });
      return keyView(key);
    }),
    handler(deleteSshKey, async (state: ComputeUserState, call) => {
      const { id } = call.params;
      const deleted = await fenced(deps.db, state.lease, async (tx) => {
        const key = found(await deleteKey(tx, state.userId, id), noSuchKey);
        const { name, fingerprint } = key;
        await audit(tx, auditEntry(call, 'ssh_key.delete', String(id), { name, fingerprint }));
        await tellCompute(tx, { kind: 'key', userId: state.userId, fingerprint });
        return key;
      });
      for (const containerId of deleted.containerIds) reconcile(containerId);
      return { status: 'ok' as const };
    }),
  ];
}

/** The sessions of the user were ended while it asked: its mark would not count. */
const sessionEnded = () => new Refusal('unauthorized');

const noSuchKey = () => new Refusal('not_found', { message: 'You have no SSH key with this id.' });

/** That a key opens the account from now on, or no longer. */
function auditLogin(
  tx: Tx,
  call: Parameters<typeof auditEntry>[0],
  { id, name, isLogin }: SshKeyRow,
  fingerprint: string,
): Promise<void> {
  return audit(tx, auditEntry(call, 'ssh_key.login', String(id), { name, fingerprint, login: isLogin }));
}
