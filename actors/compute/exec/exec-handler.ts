/** What a container's actor does about a command: whether it may run, and its entry in the audit trail. */
import { createHash } from 'node:crypto';
import { execContainer } from '../../../proto/compute/exec.ts';
import type { Caller } from '../../../proto/endpoint.ts';
import type { Clock } from '../../../proto/ports/clock.ts';
import { audit } from '../../../storage/audit.ts';
import type { Db } from '../../../storage/db.ts';
import { fenced } from '../../../storage/fenced.ts';
import { auditEntry } from '../../service/audit.ts';
import { BoundedAudits } from '../../service/bounded-audit.ts';
import { type Handler, handler } from '../../service/dispatch.ts';
import { type ActiveContainer, type ContainerActorState, mustRun, ownedRow } from '../container/state.ts';

/** Of one container: a program that runs commands all day is one line in six seconds. */
const BOUNDS = { burst: 30, everyMs: 6000 } as const;

/**
 * Lets a command run while its container does. Its entry, of who runs which program, is written before it begins, as
 * long as there are not too many. Who comes back to a command runs nothing.
 */
export function execHandler({ db, clock }: { readonly db: Db; readonly clock: Clock }): Handler<ActiveContainer> {
  const bounded = new BoundedAudits<ContainerActorState>(clock, BOUNDS);
  return handler(execContainer, async ({ state }: ActiveContainer, call) => {
    mustRun(ownedRow(state, call));
    const { command, since } = call.query;
    if (since !== undefined) return undefined;
    const written = auditEntry(call, 'container.exec', state.row.id, { program: programOf(command) });
    const entry = bounded.take(state, written);
    if (entry !== undefined) await fenced(db, state.lease, (tx) => audit(tx, entry));
    return undefined;
  });
}

/** What commands in containers are called: in the audit trail, and where they are kept. */

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
