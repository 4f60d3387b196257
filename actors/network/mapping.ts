/**
 * The actor of one mapping (kind `network/mapping`, key: its id). Its row is all it knows, so it goes on where another
 * process or an earlier life left off; of several processes that check it, the database lets one write.
 *
 *   (created) -- record made in an owned zone --> verified
 *   (created) --> pending -- TXT record matches, at a verify or in the background --> verified
 *                 pending -- 72 h without it, or another user's proof --> failed -- verify --> pending
 *                 verified -- 14 days without its record and leading elsewhere --> failed
 */

import type { Call } from '../../proto/endpoint.ts';
import type { MappingView } from '../../proto/network/endpoints.ts';
import { audit } from '../../storage/audit.ts';
import { deleteMapping, type MappingRow, mappingById, noteCheck } from '../../storage/network/mappings.ts';
import { dispatch, type Ref } from '../../supervision/index.ts';
import { auditEntry } from '../service/audit.ts';
import { type CallMessage, handleCall, refusalOf } from '../service/dispatch.ts';
import type { AnsweringKind } from '../service/parts.ts';
import { removeRecord } from './automation.ts';
import type { NetworkDeps } from './deps.ts';
import { type MappingState, mappingHandlers } from './mapping-calls.ts';
import { MappingCheck } from './mapping-check.ts';
import { mappingView } from './views.ts';

/** What the actor understands. */
export type MappingMessage =
  | CallMessage
  /** Just created: make its record, if a zone covers it, and say what it is now. */
  | { readonly type: 'begin'; readonly replyTo: Ref<MappingView> }
  /** A check is due. */
  | { readonly type: 'check' }
  /** Its container is gone. */
  | { readonly type: 'orphaned' };

const SLEEP_AFTER_MS = 10_000;

/** The kind, for the service's tree. */
export function mappingKind(deps: NetworkDeps): AnsweringKind<MappingMessage, MappingState> {
  const { db, clock, integration, log } = deps;
  const checks = new MappingCheck(deps);

  const gone = async (row: MappingRow, call: Call | undefined): Promise<void> => {
    if (integration !== undefined) await removeRecord(deps, integration, row);
    await db.tx(async (tx) => {
      if ((await deleteMapping(tx, row.id)) === undefined) return;
      const detail = { domain: row.hostname };
      const entry =
        call === undefined
          ? {
              userId: row.userId,
              username: 'platform',
              action: 'mapping.delete',
              target: row.id,
              detail: { ...detail, why: 'container deleted' },
            }
          : auditEntry(call, 'mapping.delete', row.id, detail);
      await audit(tx, entry);
    });
    log.info({ mappingId: row.id, hostname: row.hostname }, 'mapping removed');
  };

  const table = mappingHandlers(deps, checks, gone);

  const begin = async (id: string, replyTo: Ref<MappingView>) => {
    let row = await mappingById(db, id);
    if (row === undefined) return;
    let automated = false;
    if (row.record === 'wanted') {
      const seen = await checks.look(row);
      automated = seen.kind === 'verified';
      if (seen.kind === 'unproven')
        await noteCheck(db, id, {
          detail: seen.detail,
          checks: 0,
          nextCheckAt: row.nextCheckAt ?? new Date(clock.now()),
        });
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
      if (refusalOf(error).code !== 'unavailable') throw error;
      log.warn({ mappingId: id, err: error }, 'a mapping could not be looked at');
    }
  };

  return {
    kind: 'network/mapping',
    answers: table,
    sleepAfterMs: SLEEP_AFTER_MS,
    // Far more than one user asks for at a time; the rest hears `overloaded`.
    mailbox: { capacity: 32, policy: 'reject' },
    activate: async (id) => ((await mappingById(db, id)) === undefined ? undefined : { id }),
    handle: async (state, message, ctx) => {
      const { id } = state;
      switch (message.type) {
        case 'call':
          await handleCall(table, state, message);
          break;
        case 'begin':
          await quietly(id, () => begin(id, message.replyTo));
          break;
        case 'check':
          await quietly(id, (row) => checks.check(row));
          break;
        case 'orphaned':
          await quietly(id, (row) => gone(row, undefined));
          ctx.sleep();
          break;
      }
      return state;
    },
  };
}
