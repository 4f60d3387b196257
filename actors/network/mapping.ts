/**
 * The actor of one mapping (kind `network/mapping`, key: its id), awake on one node of the cluster. Its row is all it
 * knows, so it goes on where another node or an earlier life left off. A process that is no member of the cluster has
 * its own: each write is a compare-and-set of the row, so that of the two one writes.
 *
 *   (created) -- record made in an owned zone --> verified
 *   (created) --> pending -- TXT record matches, at a verify or in the background --> verified
 *                 pending -- 7 days without it, or another user's proof --> failed -- verify --> pending
 *                 verified -- 14 days without its record and leading elsewhere --> failed
 */

import { errorText } from '../../lib/errors.ts';
import type { Call } from '../../proto/endpoint.ts';
import type { MappingView } from '../../proto/network/endpoints.ts';
import { isFenced } from '../../proto/ports/placement.ts';
import { audit } from '../../storage/audit.ts';
import { deleteMapping, type MappingRow, mappingById, noteCheck } from '../../storage/network/mappings.ts';
import { dispatch, type Ref } from '../../supervision/index.ts';
import { auditEntry, platformEntry } from '../service/audit.ts';
import { handleCall, refusalOf } from '../service/dispatch.ts';
import type { AnsweringKind, EntitiesPart } from '../service/parts.ts';
import { removeRecord } from './automation.ts';
import type { NetworkDeps } from './deps.ts';
import { lookWait, type MappingState, mappingHandlers } from './mapping-calls.ts';
import { MappingCheck } from './mapping-check.ts';
import { MAPPING, type MappingMessage, type NetworkUserMessage, writeRight } from './placed.ts';
import { mappingView } from './views.ts';

const SLEEP_AFTER_MS = 10_000;
/** Whoever maps a hostname waits no longer for its zone to be found: the checks go on looking. */
const ZONE_MS = 1500;

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
      const detail = { domain: row.hostname };
      const entry =
        call === undefined
          ? platformEntry(row.userId, 'mapping.delete', row.id, { ...detail, why: 'container deleted' })
          : auditEntry(call, 'mapping.delete', row.id, detail);
      await audit(tx, entry);
    });
    log.info({ mappingId: row.id, hostname: row.hostname }, 'mapping removed');
  };

  /** Whether resolvers may be asked for the user now. */
  const mayLook = async (userId: string) => {
    try {
      return (await lookWait(users, userId)) === 0;
    } catch (error) {
      log.warn({ reason: errorText(error) }, 'the looks of a user could not be counted');
      return false;
    }
  };

  const table = mappingHandlers(deps, users, gone);

  const begin = async ({ id, right, checks }: MappingState, found: MappingRow, replyTo: Ref<MappingView>) => {
    let row = found;
    let automated = false;
    if (row.record === 'wanted') {
      const seen = await checks.automate(row);
      automated = seen?.kind === 'verified';
      if (seen?.kind === 'unproven')
        await right.tx((tx) =>
          noteCheck(tx, id, {
            now: new Date(clock.now()),
            detail: seen.detail,
            checks: 0,
            nextCheckAt: found.nextCheckAt ?? new Date(clock.now()),
          }),
        );
    }
    // Whoever makes and deletes mappings would have resolvers asked without end: the first look finds the zone, too.
    if (row.zone === '' && (await mayLook(row.userId))) await checks.findZone(row, ZONE_MS);
    row = (await mappingById(db, id)) ?? row;
    dispatch(replyTo, { ...mappingView(row, deps), ...(automated ? { dns_automated: true } : {}) });
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
