/** What is put into the audit trail about who did something. */
import type { Call } from '../../proto/endpoint.ts';
import type { AuditEntry } from '../../storage/audit.ts';
import { callerOf } from './dispatch.ts';

/** Makes the entry of what one author did. */
export type EntryMaker = (action: string, target?: string, detail?: Readonly<Record<string, unknown>>) => AuditEntry;

/** Who acts at the command line, in the audit trail. No user can have the name. */
export const OPERATOR = 'operator';

/** Entries of what was done at the command line. */
export const operatorEntry: EntryMaker = (action, target = '', detail = {}) => {
  return { userId: null, username: OPERATOR, action, target, detail };
};

/** An entry of what the platform did by itself, with what is `userId`'s. */
export function platformEntry(
  userId: string | null,
  action: string,
  target: string,
  detail: Readonly<Record<string, unknown>>,
): AuditEntry {
  return { userId, username: 'platform', action, target, detail };
}

/** An entry for something that the caller of `call` did. */
export function auditEntry(
  call: Call,
  action: string,
  target?: string,
  detail?: Readonly<Record<string, unknown>>,
): AuditEntry {
  const caller = callerOf(call);
  const { kind, tokenId } = caller;
  const { userId, username } = caller.by ?? caller;
  // Through which token matters when it was not the person.
  const through = kind === 'api_token' ? { token: tokenId } : {};
  return {
    userId,
    username,
    action,
    ...(target === undefined ? {} : { target }),
    address: call.address,
    requestId: call.requestId,
    detail: { ...through, ...detail },
  };
}
