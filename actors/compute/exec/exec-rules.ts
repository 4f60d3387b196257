/** What commands in containers are called: in the audit trail, and where they are kept. */
import { createHash } from 'node:crypto';
import type { Caller } from '../../../proto/endpoint.ts';

/** A program as it may stand in the audit trail. */
const PROGRAM = /^[\w.+@-]{1,64}$/;

/** The name of the program that a command runs, and nothing else of it: arguments, and scripts, may hold secrets. */
export function programOf(command: readonly string[]): string {
  const [first = ''] = command;
  const name = command.length === 1 ? 'sh' : (first.split('/').at(-1) ?? '');
  return PROGRAM.test(name) ? name : 'other';
}

/**
 * What the command is kept as in its container: the same at every node, and impossible to guess. A login and an API
 * token never share one, nor do two service accounts.
 */
export function keptName(of: {
  readonly caller: Caller;
  readonly containerId: string;
  readonly session: string;
}): string {
  const { caller, containerId, session } = of;
  const bound = ['command', caller.userId, containerId, caller.kind, caller.serviceAccount?.id ?? '', session];
  return createHash('sha256').update(bound.join(' ')).digest('hex').slice(0, 40);
}
