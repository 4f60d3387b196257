/**
 * The actor of one mapping (kind `network/mapping`, key: its id), awake on one node of the cluster. Its row is all it
 * knows, so it goes on where another node or an earlier life left off. A process that is no member of the cluster has
 * its own: each write is a compare-and-set of the row, so that of the two one writes.
 *
 *   (created) -- record made in an owned zone --> verified
 *   (created) --> pending -- TXT record matches, at a verify or in the background --> verified
 *                 pending -- 72 h without it, or another user's proof --> failed -- verify --> pending
 *                 verified -- 14 days without its record and leading elsewhere --> failed
 */

import { Buckets } from '../../proto/buckets.ts';
import type { Call, ReplyOf } from '../../proto/endpoint.ts';
import { Refusal } from '../../proto/errors.ts';
import {
  deleteMapping as deleteEndpoint,
  type MappingView,
  SAYS,
  verifyMapping as verifyEndpoint,
} from '../../proto/network/endpoints.ts';
import { isFenced } from '../../proto/ports/placement.ts';
import { audit } from '../../storage/audit.ts';
import { hastenOrder } from '../../storage/network/certificate-orders.ts';
import {
  deleteMapping,
  type MappingRow,
  mappingById,
  noteCheck,
  retryMapping,
} from '../../storage/network/mappings.ts';
import { tellNetwork } from '../../storage/network/news.ts';
import { dispatch, type Ref } from '../../supervision/index.ts';
import { auditEntry } from '../service/audit.ts';
import { ASK_TIMEOUT, callerOf, type Handlers, handleCall, handler, handlers, refusalOf } from '../service/dispatch.ts';
import type { AnsweringKind, EntitiesPart } from '../service/parts.ts';
import { removeRecord } from './automation.ts';
import { PAUSE_BEFORE_HASTE_MS } from './certificate-rules.ts';
import { nextCheck } from './check-rules.ts';
import type { NetworkDeps } from './deps.ts';
import { MappingCheck, platformEntry, toDo } from './mapping-check.ts';
import { MAPPING, type MappingMessage, type NetworkUserMessage, type WriteRight, writeRight } from './placed.ts';
import { mappingView } from './views.ts';

/** What the actor of a mapping keeps. */
interface MappingState {
  readonly id: string;
  readonly right: WriteRight;
  readonly checks: MappingCheck;
}

/** How often the user may have resolvers asked for one mapping. */
const LOOKS = { burst: 6, everyMs: 10_000 };

/** Their handlers. `gone` removes a mapping for the caller. */
function mappingHandlers(
  { db, clock }: NetworkDeps,
  users: Pick<EntitiesPart<NetworkUserMessage>, 'ask'>,
  gone: (state: MappingState, row: MappingRow, call: Call) => Promise<void>,
): Handlers<MappingState> {
  const looks = new Buckets(LOOKS, clock);

  /** Each look is ten questions to resolvers. Refuses `too_many_attempts`. */
  const notTooOften = async ({ id, userId }: MappingRow) => {
    const ofUser = () =>
      users
        .ask<number>(userId, (replyTo) => ({ type: 'may-look', replyTo }), ASK_TIMEOUT)
        .catch((error: unknown) => {
          throw refusalOf(error);
        });
    const wait = Math.ceil((looks.take(id) || (await ofUser())) / 1000);
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

  return handlers<MappingState>(
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
        const times = { now: new Date(now), nextCheckAt: new Date(now) };
        if ((await right.tx((tx) => retryMapping(tx, row, times))) === 'taken') throw taken();
        return { status: 'pending', detail: `it had failed and is looked at again from now on: ${toDo(row)}` };
      }
      const seen = await checks.look(row);
      if (seen.kind === 'verified') return { status: 'verified' };
      if (seen.kind === 'taken') throw taken();
      // Whoever asks has just changed something: back to the first pace.
      const nextCheckAt = new Date(nextCheck(clock.now(), 0, row.pendingSince.getTime()));
      await right.tx((tx) => noteCheck(tx, id, { detail: seen.detail, checks: 0, nextCheckAt }));
      return { status: 'pending', detail: seen.detail };
    }),
  );
}

function taken(): Refusal {
  return new Refusal('conflict', { message: SAYS.taken });
}

const SLEEP_AFTER_MS = 10_000;

/** The kind, for the service's tree. `users` count what their mappings have resolvers asked. */
export function mappingKind(
  deps: NetworkDeps,
  users: Pick<EntitiesPart<NetworkUserMessage>, 'ask'>,
): AnsweringKind<MappingMessage, MappingState> {
  const { db, clock, integration, log } = deps;

  const gone = async ({ right }: MappingState, row: MappingRow, call: Call | undefined): Promise<void> => {
    if (integration !== undefined) await removeRecord(deps, integration, row, right);
    await right.tx(async (tx) => {
      if ((await deleteMapping(tx, row.id)) === undefined) return;
      const entry =
        call === undefined
          ? platformEntry(row, 'mapping.delete', { why: 'container deleted' })
          : auditEntry(call, 'mapping.delete', row.id, { domain: row.hostname });
      await audit(tx, entry);
    });
    log.info({ mappingId: row.id, hostname: row.hostname }, 'mapping removed');
  };

  const table = mappingHandlers(deps, users, gone);

  const begin = async ({ id, right, checks }: MappingState, found: MappingRow, replyTo: Ref<MappingView>) => {
    let row = found;
    let automated = false;
    if (row.record === 'wanted') {
      const seen = await checks.look(row);
      automated = seen.kind === 'verified';
      if (seen.kind === 'unproven')
        await right.tx((tx) =>
          noteCheck(tx, id, {
            detail: seen.detail,
            checks: 0,
            nextCheckAt: found.nextCheckAt ?? new Date(clock.now()),
          }),
        );
      row = (await mappingById(db, id)) ?? row;
    }
    dispatch(replyTo, { ...mappingView(row), ...(automated ? { dns_automated: true } : {}) });
  };

  /** Runs what nobody waits for: a database that is away is left for the next time. */
  const quietly = async (id: string, work: (row: MappingRow) => Promise<void>) => {
    try {
      const row = await mappingById(db, id);
      if (row !== undefined) await work(row);
    } catch (error) {
      // The mapping may be with another node: the next message finds it there.
      if (isFenced(error) || refusalOf(error).code !== 'unavailable') throw error;
      log.warn({ mappingId: id, err: error }, 'a mapping could not be looked at');
    }
  };

  return {
    kind: MAPPING.kind,
    answers: table,
    sleepAfterMs: SLEEP_AFTER_MS,
    // Far more than one user asks for at a time; the rest hears `overloaded`.
    mailbox: { capacity: 32, policy: 'reject' },
    activate: async (id) => {
      const right = writeRight(deps, MAPPING, id);
      const isThere = (await mappingById(db, id)) !== undefined;
      return isThere ? { id, right, checks: new MappingCheck(deps, right) } : undefined;
    },
    handle: async (state, message, ctx) => {
      const { id, checks } = state;
      switch (message.type) {
        case 'call':
          await handleCall(table, state, message);
          break;
        case 'begin':
          await quietly(id, (row) => begin(state, row, message.replyTo));
          break;
        case 'check':
          await quietly(id, (row) => checks.check(row));
          break;
        case 'orphaned':
          await quietly(id, (row) => gone(state, row, undefined));
          ctx.sleep();
          break;
      }
      return state;
    },
  };
}
