/** The calls on a mapping: a change of it, its end, and a look at its proof that its user asks for. */
import { Buckets } from '../../proto/buckets.ts';
import type { Call, ReplyOf } from '../../proto/endpoint.ts';
import { Refusal } from '../../proto/errors.ts';
import {
  changeMapping,
  deleteMapping as deleteEndpoint,
  verifyMapping as verifyEndpoint,
} from '../../proto/network/endpoints.ts';
import { audit } from '../../storage/audit.ts';
import { hastenOrder } from '../../storage/network/certificate-orders.ts';
import {
  type MappingRow,
  mappingById,
  noteCheck,
  retryMapping,
  setMappingCache,
} from '../../storage/network/mappings.ts';
import { tellNetwork } from '../../storage/network/news.ts';
import { auditEntry } from '../service/audit.ts';
import { ASK_TIMEOUT, callerOf, found, type Handlers, handler, handlers, refusalOf } from '../service/dispatch.ts';
import type { EntitiesPart } from '../service/parts.ts';
import { PAUSE_BEFORE_HASTE_MS } from './certificate-rules.ts';
import { nextCheck } from './check-rules.ts';
import { held, proofOf, taken, tellEnded, termsAt } from './claims.ts';
import type { NetworkDeps } from './deps.ts';
import { type MappingCheck, toDo } from './mapping-check.ts';
import type { NetworkUserMessage, WriteRight } from './placed.ts';
import { mappingView } from './views.ts';

/** What the actor of a mapping keeps. */
export interface MappingState {
  readonly id: string;
  readonly right: WriteRight;
  readonly checks: MappingCheck;
}

/** How often the user may have resolvers asked for one mapping. */
const LOOKS = { burst: 6, everyMs: 10_000 };

/**
 * How long a user has to wait until resolvers are asked for them, ms; 0: they are asked now, which is counted. Rejects
 * with Refusal.
 */
export function lookWait(users: Pick<EntitiesPart<NetworkUserMessage>, 'ask'>, userId: string): Promise<number> {
  return users
    .ask<number>(userId, (replyTo) => ({ type: 'may-look', replyTo }), ASK_TIMEOUT)
    .catch((error: unknown) => {
      throw refusalOf(error);
    });
}

/** Their handlers. `gone` removes a mapping for the caller. */
export function mappingHandlers(
  deps: NetworkDeps,
  users: Pick<EntitiesPart<NetworkUserMessage>, 'ask'>,
  gone: (state: MappingState, row: MappingRow, call: Call) => Promise<void>,
): Handlers<MappingState> {
  const { db, clock } = deps;
  const looks = new Buckets(LOOKS, clock);

  /** Each look is ten questions to resolvers. Refuses `too_many_attempts`. */
  const notTooOften = async ({ id, userId }: MappingRow) => {
    const wait = Math.ceil((looks.take(id) || (await lookWait(users, userId))) / 1000);
    if (wait > 0)
      throw new Refusal('too_many_attempts', {
        message: `verified too often: try again in ${wait} s; pending mappings are looked at by themselves, too`,
        retryAfter: wait,
      });
  };

  /** The row, if it is the caller's. */
  const own = async (id: string, call: Call) => {
    const row = await mappingById(db, id);
    if (row === undefined || row.userId !== callerOf(call).userId) throw new Refusal('not_found');
    return row;
  };

  /** Whoever asks has perhaps mended what its certificate waits for. */
  const hasten = ({ right }: MappingState, row: MappingRow) =>
    right.tx(async (tx) => {
      if (await hastenOrder(tx, row.hostname, PAUSE_BEFORE_HASTE_MS))
        await tellNetwork(tx, { kind: 'verified', mappingId: row.id, hostname: row.hostname });
    });

  /** Makes a failed mapping pending again, unless somebody else's claim holds the name. Refuses `conflict`. */
  const retried = ({ right }: MappingState, row: MappingRow, now: number) =>
    right.tx(async (tx) => {
      const outcome = await retryMapping(tx, row, { ...termsAt(now, false), nextCheckAt: new Date(now) });
      if (outcome === 'taken') throw taken();
      if (outcome === 'held') return 'held';
      await tellEnded(tx, outcome?.ended ?? [], now);
      return 'pending';
    });

  return handlers<MappingState>(
    handler(changeMapping, async (state: MappingState, call) => {
      const { id, hostname } = await own(state.id, call);
      const { cache } = call.body;
      const changed = await state.right.tx(async (tx) => {
        const row = found(await setMappingCache(tx, id, cache));
        await audit(tx, auditEntry(call, 'mapping.change', id, { domain: hostname, cache }));
        return row;
      });
      return mappingView(changed, deps);
    }),
    handler(deleteEndpoint, async (state: MappingState, call) => {
      await gone(state, await own(state.id, call), call);
      return undefined;
    }),
    handler(verifyEndpoint, async (state: MappingState, call): Promise<ReplyOf<typeof verifyEndpoint>> => {
      const { id, right, checks } = state;
      const row = await own(id, call);
      await notTooOften(row);
      if (row.status === 'verified') {
        if (row.unprovenSince !== null) await checks.recheck(row);
        await hasten(state, row);
        return { status: 'verified' };
      }
      const now = clock.now();
      if (row.status === 'failed') {
        if ((await retried(state, row, now)) === 'pending')
          return { status: 'pending', detail: `it had failed and is looked at again from now on: ${toDo(row)}` };
        const seen = await checks.look(row);
        if (seen.kind === 'unproven') throw held(proofOf(row));
        if (seen.kind === 'taken') throw taken();
        return { status: 'verified' };
      }
      const seen = await checks.look(row);
      if (seen.kind === 'verified') return { status: 'verified' };
      if (seen.kind === 'taken') throw taken();
      // Whoever asks has just changed something: back to the first pace.
      const nextCheckAt = new Date(nextCheck(now, 0, row.pendingSince.getTime()));
      await right.tx((tx) => noteCheck(tx, id, { now: new Date(now), detail: seen.detail, checks: 0, nextCheckAt }));
      return { status: 'pending', detail: seen.detail };
    }),
  );
}
