/**
 * The actor of one mapping (kind `network/mapping`, key: its id). Its row is all it knows, so it goes on where another process or an earlier
 * life left off; of several processes that check it, the database lets one write.
 *
 *   (created) -- record made in an owned zone --> verified
 *   (created) --> pending -- TXT record matches, at a verify or in the background --> verified
 *                 pending -- 72 h without it --> failed -- verify --> pending
 */
import type { Call, ReplyOf } from '../../proto/endpoint.ts';
import { Refusal } from '../../proto/errors.ts';
import {
  deleteMapping as deleteEndpoint,
  type MappingView,
  verifyMapping as verifyEndpoint,
} from '../../proto/network.ts';
import { audit } from '../../storage/audit.ts';
import { hastenOrder } from '../../storage/network/certificates.ts';
import {
  deleteMapping,
  failMapping,
  type MappingRow,
  mappingById,
  noteCheck,
  retryMapping,
  setRecord,
  verifyMapping,
} from '../../storage/network/mappings.ts';
import { tellNetwork } from '../../storage/network/news.ts';
import { dispatch, type EntityKind, type Ref } from '../../supervision/index.ts';
import { did } from '../audit.ts';
import { answer, type CallMessage, callerOf, handlers, on, refusalOf } from '../door.ts';
import { makeRecord, removeRecord } from './automation.ts';
import { PAUSE_BEFORE_HASTE_MS } from './certificate-rules.ts';
import { detailOf, EXPIRY_MS, isProven, nextCheck } from './check-rules.ts';
import type { NetworkDeps } from './deps.ts';
import { verifyName } from './hostname-rules.ts';
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

interface MappingState {
  readonly id: string;
}

/** What a look at the world came to. */
type Look =
  | { readonly kind: 'verified' }
  /** `isConclusive`: the look could have found the proof. */
  | { readonly kind: 'unproven'; readonly detail: string; readonly isConclusive: boolean };

const SLEEP_AFTER_MS = 10_000;

/** The kind, for the service's tree. */
export function mappingKind(deps: NetworkDeps): EntityKind<MappingMessage, MappingState> {
  const { db, clock, integration, log } = deps;

  /** Looks for the proof of a pending mapping, and turns it verified when there is one. */
  const look = async (row: MappingRow): Promise<Look> => {
    if (row.record === 'wanted' && integration !== undefined) {
      const made = await makeRecord(deps, integration, row);
      if ('recordId' in made) {
        await verified(row, 'provider', made);
        return { kind: 'verified' };
      }
      if (made.kind === 'refused') await setRecord(db, row.id, 'refused');
      const instead = `; without it, ${toDo(row)}`;
      return { kind: 'unproven', detail: made.detail + instead, isConclusive: made.kind === 'refused' };
    }
    const name = verifyName(row.hostname);
    const answers = await deps.resolvers.lookup(name);
    if (isProven(answers, row.verifyToken)) {
      await verified(row, 'txt');
      return { kind: 'verified' };
    }
    const isConclusive = answers.some(({ answer }) => answer.kind !== 'failed');
    return { kind: 'unproven', detail: detailOf(name, row.verifyToken, answers), isConclusive };
  };

  const verified = async (
    row: MappingRow,
    by: 'provider' | 'txt',
    record?: { kind: 'made' | 'found'; recordId: string },
  ) => {
    await db.tx(async (tx) => {
      if (record !== undefined) await setRecord(tx, row.id, record);
      if ((await verifyMapping(tx, row.id, new Date(clock.now()))) === undefined) return;
      await audit(tx, {
        ...{ userId: row.userId, username: 'platform', action: 'mapping.verified', target: row.id },
        detail: { domain: row.hostname, by },
      });
    });
    log.info({ mappingId: row.id, hostname: row.hostname, by }, 'mapping verified');
  };

  /** A look that was due: what it did not find is written down, and at the end of the time the mapping fails. */
  const check = async (row: MappingRow) => {
    if (row.status !== 'pending') return;
    const seen = await look(row);
    if (seen.kind === 'verified') return;
    const now = clock.now();
    // Not for our own resolvers being down: the next look decides.
    if (seen.isConclusive && now >= row.pendingSince.getTime() + EXPIRY_MS) {
      await failMapping(db, row.id, `not verified within 72 hours: ${seen.detail}`);
      log.info({ mappingId: row.id, hostname: row.hostname }, 'mapping failed');
      return;
    }
    const checks = row.checks + 1;
    await noteCheck(db, row.id, {
      ...{ detail: seen.detail, checks },
      nextCheckAt: new Date(nextCheck(now, checks, row.pendingSince.getTime())),
    });
  };

  const gone = async (row: MappingRow, call: Call | undefined) => {
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
          : did(call, 'mapping.delete', row.id, detail);
      await audit(tx, entry);
    });
    log.info({ mappingId: row.id, hostname: row.hostname }, 'mapping removed');
  };

  /** The row, if it is the caller's. */
  const own = async (id: string, call: Call) => {
    const row = await mappingById(db, id);
    if (row === undefined || row.userId !== callerOf(call).userId) throw new Refusal('not_found');
    return row;
  };

  const table = handlers<MappingState>(
    on(deleteEndpoint, async ({ id }: MappingState, call) => {
      await gone(await own(id, call), call);
      return undefined;
    }),
    on(verifyEndpoint, async ({ id }: MappingState, call): Promise<ReplyOf<typeof verifyEndpoint>> => {
      const row = await own(id, call);
      if (row.status === 'verified') {
        await hasten(row);
        return { status: 'verified' };
      }
      const now = clock.now();
      if (row.status === 'failed') {
        await retryMapping(db, id, { now: new Date(now), nextCheckAt: new Date(now) });
        return { status: 'pending', detail: `it had failed and is looked at again from now on: ${toDo(row)}` };
      }
      const seen = await look(row);
      if (seen.kind === 'verified') return { status: 'verified' };
      // Whoever asks has just changed something: back to the first pace.
      await noteCheck(db, id, {
        ...{ detail: seen.detail, checks: 0 },
        nextCheckAt: new Date(nextCheck(clock.now(), 0, row.pendingSince.getTime())),
      });
      return { status: 'pending', detail: seen.detail };
    }),
  );

  /** Whoever asks has perhaps mended what its certificate waits for. */
  const hasten = (row: MappingRow) =>
    db.tx(async (tx) => {
      if (await hastenOrder(tx, row.hostname, PAUSE_BEFORE_HASTE_MS))
        await tellNetwork(tx, { kind: 'verified', mappingId: row.id, hostname: row.hostname });
    });

  const begin = async (id: string, replyTo: Ref<MappingView>) => {
    let row = await mappingById(db, id);
    if (row === undefined) return;
    let automated = false;
    if (row.record === 'wanted') {
      const seen = await look(row);
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
    sleepAfterMs: SLEEP_AFTER_MS,
    // Far more than one user asks for at a time; the rest hears `overloaded`.
    mailbox: { capacity: 32, policy: 'reject' },
    activate: async (id) => ((await mappingById(db, id)) === undefined ? undefined : { id }),
    handle: async (state, message, ctx) => {
      const { id } = state;
      switch (message.type) {
        case 'call':
          await answer(table, state, message);
          break;
        case 'begin':
          await quietly(id, () => begin(id, message.replyTo));
          break;
        case 'check':
          await quietly(id, check);
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

function toDo({ hostname, verifyToken }: MappingRow): string {
  return `make a TXT record ${verifyName(hostname)} with the value ${verifyToken}`;
}
