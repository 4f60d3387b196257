/** Which connection a call of the endpoint for commands opens. */
import { randomUUID } from 'node:crypto';
import type { execContainer } from '../../../proto/compute/exec.ts';
import type { Caller, CallOf } from '../../../proto/endpoint.ts';
import { Refusal } from '../../../proto/errors.ts';
import { notValid } from '../../../proto/validation-messages.ts';
import type { Ref } from '../../../supervision/index.ts';
import type { Connection, ConnectionMessage } from '../../service/connection.ts';
import type { ComputeDeps } from '../deps.ts';
import type { AbsentCommands } from './absent.ts';
import { execConnection } from './exec.ts';
import { keptExecConnection } from './kept.ts';

type ExecCall = CallOf<typeof execContainer>;

/** What opens the command, or joins it. */
export function commandConnection(
  deps: ComputeDeps & { readonly absent: AbsentCommands },
  { params, query }: ExecCall,
  caller: Caller,
  attach: (self: Ref<ConnectionMessage>) => void,
): Connection {
  const { command, tty, cols, rows, since } = query;
  const request = { containerId: params.id, command, terminal: tty === 'true' ? { cols, rows } : undefined };
  if (query.session === undefined) return execConnection(deps, request, attach);
  const session = query.session === 'new' ? randomUUID() : query.session;
  return keptExecConnection(deps, { ...request, caller, session, since }, attach);
}

/**
 * The call as the container's owner hears it: one of the version before refuses it without a command. Refuses
 * `invalid_request` for a client's command that would join another: what runs is what the audit trail has.
 */
export function ownersCall(call: ExecCall): ExecCall {
  const { command, since } = call.query;
  if (since === undefined) return call;
  if (command.length > 0) {
    const message = 'must be left out with `since`, which joins a command that runs';
    const fields = [{ path: 'command', message }];
    throw new Refusal('invalid_request', { message: notValid('query', fields), fields });
  }
  return { ...call, query: { ...call.query, command: ['true'] } };
}
