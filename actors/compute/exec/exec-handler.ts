/** What a container's actor does about a command: whether it may run, and its entry in the audit trail. */
import { execContainer } from '../../../proto/compute/exec.ts';
import type { Clock } from '../../../proto/ports/clock.ts';
import { audit } from '../../../storage/audit.ts';
import type { Db } from '../../../storage/db.ts';
import { fenced } from '../../../storage/fenced.ts';
import { auditEntry } from '../../service/audit.ts';
import { BoundedAudit } from '../../service/bounded-audit.ts';
import { type Handler, handler } from '../../service/dispatch.ts';
import { type ActiveContainer, type ContainerActorState, mustRun, ownedRow } from '../container/state.ts';
import { programOf } from './exec-rules.ts';

/** Of one container: a program that runs commands all day is one line in six seconds. */
const BOUNDS = { burst: 30, everyMs: 6000 } as const;

/**
 * Lets a command run while its container does. Its entry, of who runs which program, is written before it begins, as
 * long as there are not too many. Who comes back to a command runs nothing.
 */
export function execHandler({ db, clock }: { readonly db: Db; readonly clock: Clock }): Handler<ActiveContainer> {
  const bounds = new WeakMap<ContainerActorState, BoundedAudit>();
  return handler(execContainer, async ({ state }: ActiveContainer, call) => {
    mustRun(ownedRow(state, call));
    const { command, since } = call.query;
    if (since !== undefined) return undefined;
    const bound = bounds.get(state) ?? new BoundedAudit(clock, BOUNDS);
    bounds.set(state, bound);
    const entry = bound.take(auditEntry(call, 'container.exec', state.row.id, { program: programOf(command) }));
    if (entry !== undefined) await fenced(db, state.lease, (tx) => audit(tx, entry));
    return undefined;
  });
}
