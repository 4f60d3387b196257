/** What a call puts into the audit trail about its caller. */
import type { Call } from '../../proto/endpoint.ts';
import type { AuditEntry } from '../../storage/audit.ts';
import { callerOf } from './dispatch.ts';

/** An entry for something that the caller of `call` did. */
export function auditEntry(
  call: Call,
  action: string,
  target?: string,
  detail?: Readonly<Record<string, unknown>>,
): AuditEntry {
  const { userId, username, kind, tokenId } = callerOf(call);
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
