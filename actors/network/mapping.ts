/**
 * The actor of one mapping (kind `network/mapping`, key: its id). Its row is all it knows, so it goes on where another
 * process or an earlier life left off; of several processes that check it, the database lets one write.
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
import { notificationEvent } from '../../proto/notify/notification.ts';
import { audit } from '../../storage/audit.ts';
import { hastenOrder } from '../../storage/network/certificate-orders.ts';
import {
  deleteMapping,
  failMapping,
  lapseMapping,
  type MappingRow,
  mappingById,
  noteCheck,
  noteProof,
  retryMapping,
  setRecord,
  verifyMapping,
} from '../../storage/network/mappings.ts';
import { tellNetwork } from '../../storage/network/news.ts';
import { append } from '../../storage/outbox.ts';
import { dispatch, type EntityKind, type Ref } from '../../supervision/index.ts';
import { auditEntry } from '../service/audit.ts';
import { type CallMessage, callerOf, handleCall, handler, handlers, refusalOf } from '../service/dispatch.ts';
import { makeRecord, removeRecord } from './automation.ts';
import { PAUSE_BEFORE_HASTE_MS } from './certificate-rules.ts';
import {
  detailOf,
  EXPIRY_MS,
  GRACE_MS,
  isProven,
  nextCheck,
  RECHECK_FAILED_MS,
  RECHECK_MS,
  RECHECK_UNPROVEN_MS,
} from './check-rules.ts';
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
  /** The proof is there, but somebody else's was first. */
  | { readonly kind: 'taken' }
  /** `isConclusive`: the look could have found the proof. */
  | { readonly kind: 'unproven'; readonly detail: string; readonly isConclusive: boolean };

/** How often a user may have resolvers asked. */
const OF_A_MAPPING = { burst: 6, everyMs: 10_000 };
const OF_A_USER = { burst: 30, everyMs: 3000 };

/** What the user of a claim is told who was not the first to prove it. */
const LOST = 'another account proved that the name is theirs';

const SLEEP_AFTER_MS = 10_000;

/** The kind, for the service's tree. */
export function mappingKind(deps: NetworkDeps): EntityKind<MappingMessage, MappingState> {
  const { db, clock, integration, log } = deps;
  const [byMapping, byUser] = [new Buckets(OF_A_MAPPING, clock), new Buckets(OF_A_USER, clock)];

  /** Each look is ten questions to resolvers. Refuses `too_many_attempts`. */
  const notTooOften = ({ id, userId }: MappingRow) => {
    const wait = Math.ceil((byMapping.take(id) || byUser.take(userId)) / 1000);
    if (wait > 0)
      throw new Refusal('too_many_attempts', {
        message: `verified too often: try again in ${wait} s; pending mappings are looked at by themselves, too`,
        retryAfter: wait,
      });
  };

  /** Looks for the proof of a pending mapping, and turns it verified when there is one. */
  const look = async (row: MappingRow): Promise<Look> => {
    if (row.record === 'wanted' && integration !== undefined) {
      const made = await makeRecord(deps, integration, row);
      if ('recordId' in made) return verified(row, 'provider', made);
      if (made.kind === 'refused') await setRecord(db, row.id, 'refused');
      const instead = `; without it, ${toDo(row)}`;
      return { kind: 'unproven', detail: made.detail + instead, isConclusive: made.kind === 'refused' };
    }
    const name = verifyName(row.hostname);
    const answers = await deps.resolvers.lookup(name);
    if (isProven(answers, row.verifyToken)) return verified(row, 'txt');
    const isConclusive = answers.some(({ answer }) => answer.kind !== 'failed');
    return { kind: 'unproven', detail: detailOf(name, row.verifyToken, answers), isConclusive };
  };

  const verified = async (
    row: MappingRow,
    by: 'provider' | 'txt',
    record?: { kind: 'made' | 'found'; recordId: string },
  ): Promise<Look> => {
    const now = clock.now();
    const proven = await db.tx(async (tx) => {
      const nextCheckAt = by === 'txt' ? new Date(now + RECHECK_MS) : null;
      const outcome = await verifyMapping(tx, row.id, new Date(now), { lost: LOST, nextCheckAt });
      if (record !== undefined) await setRecord(tx, row.id, record);
      if (outcome === undefined) return outcome;
      for (const loser of outcome === 'taken' ? [row] : outcome.displaced)
        await append(tx, noticeOf(loser, now, `${loser.hostname} is somebody else's`, LOST));
      if (outcome === 'taken') return outcome;
      await audit(tx, {
        userId: row.userId,
        username: 'platform',
        action: 'mapping.verified',
        target: row.id,
        detail: { domain: row.hostname, by },
      });
      return outcome;
    });
    if (proven === 'taken') return { kind: 'taken' };
    log.info({ mappingId: row.id, hostname: row.hostname, by }, 'mapping verified');
    return { kind: 'verified' };
  };

  /** Looks whether the name of a verified mapping still is its user's: by the record, or since it leads here. */
  const recheck = async (row: MappingRow): Promise<void> => {
    const name = verifyName(row.hostname);
    const answers = await deps.resolvers.lookup(name);
    const isHere = isProven(answers, row.verifyToken) || (await deps.leadsHere(row.hostname));
    const now = clock.now();
    const noted = (unprovenSince: Date | null, detail: string, inMs: number) =>
      noteProof(db, row.id, { unprovenSince, detail, nextCheckAt: new Date(now + inMs) });
    if (isHere === true) return noted(null, '', RECHECK_MS);
    if (isHere === undefined || answers.every(({ answer }) => answer.kind === 'failed'))
      return noted(row.unprovenSince, row.detail, RECHECK_FAILED_MS);
    const since = row.unprovenSince ?? new Date(now);
    const end = new Date(since.getTime() + GRACE_MS);
    if (now < end.getTime()) {
      const detail =
        `${row.hostname} does not lead here any more, and its TXT record is gone: ${toDo(row)} before ` +
        `${end.toISOString()}, or the mapping ends.`;
      await db.tx(async (tx) => {
        if (row.unprovenSince === null)
          await append(tx, noticeOf(row, now, `${row.hostname} is about to lapse`, detail));
        await noteProof(tx, row.id, { unprovenSince: since, detail, nextCheckAt: new Date(now + RECHECK_UNPROVEN_MS) });
      });
      return;
    }
    const why = `its proof has been missing since ${since.toISOString()}: ${toDo(row)}, then verify it`;
    await db.tx(async (tx) => {
      if ((await lapseMapping(tx, row.id, why)) === undefined) return;
      await audit(tx, {
        userId: row.userId,
        username: 'platform',
        action: 'mapping.lapsed',
        target: row.id,
        detail: { domain: row.hostname },
      });
      await append(
        tx,
        noticeOf(row, now, `${row.hostname} has lapsed`, `${row.hostname} is not served any more: ${why}.`),
      );
    });
    log.info({ mappingId: row.id, hostname: row.hostname }, 'mapping lapsed');
  };

  /** A look that was due: what it did not find is written down, and at the end of the time the mapping fails. */
  const check = async (row: MappingRow) => {
    if (row.status === 'verified') return recheck(row);
    if (row.status !== 'pending') return;
    const seen = await look(row);
    if (seen.kind !== 'unproven') return;
    const now = clock.now();
    // Not for our own resolvers being down: the next look decides.
    if (seen.isConclusive && now >= row.pendingSince.getTime() + EXPIRY_MS) {
      await failMapping(db, row.id, `not verified within 72 hours: ${seen.detail}`);
      log.info({ mappingId: row.id, hostname: row.hostname }, 'mapping failed');
      return;
    }
    const checks = row.checks + 1;
    await noteCheck(db, row.id, {
      detail: seen.detail,
      checks,
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
          : auditEntry(call, 'mapping.delete', row.id, detail);
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
    handler(deleteEndpoint, async ({ id }: MappingState, call) => {
      await gone(await own(id, call), call);
      return undefined;
    }),
    handler(verifyEndpoint, async ({ id }: MappingState, call): Promise<ReplyOf<typeof verifyEndpoint>> => {
      const row = await own(id, call);
      notTooOften(row);
      if (row.status === 'verified') {
        if (row.unprovenSince !== null) await recheck(row);
        await hasten(row);
        return { status: 'verified' };
      }
      const now = clock.now();
      if (row.status === 'failed') {
        const times = { now: new Date(now), nextCheckAt: new Date(now) };
        if ((await db.tx((tx) => retryMapping(tx, row, times))) === 'taken') throw taken();
        return { status: 'pending', detail: `it had failed and is looked at again from now on: ${toDo(row)}` };
      }
      const seen = await look(row);
      if (seen.kind === 'verified') return { status: 'verified' };
      if (seen.kind === 'taken') throw taken();
      // Whoever asks has just changed something: back to the first pace.
      await noteCheck(db, id, {
        detail: seen.detail,
        checks: 0,
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
          await handleCall(table, state, message);
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

function taken(): Refusal {
  return new Refusal('conflict', { message: SAYS.taken });
}

function noticeOf({ id, userId }: MappingRow, now: number, title: string, message: string) {
  const link = `/domains/${id}`;
  return notificationEvent('network', now, { userId, title, message, link, category: 'networking', scope: '' });
}

function toDo({ hostname, verifyToken }: MappingRow): string {
  return `make a TXT record ${verifyName(hostname)} with the value ${verifyToken}`;
}
