import { z } from 'zod';
import type { DeadLetterSink, NewDeadLetter, StoredDeadLetter } from '../../proto/ports/bus-store.ts';
import type { Db } from '../db.ts';
import { append } from '../outbox.ts';
import { columnsOf, fieldsOf, orUndefined } from '../rows.ts';
import { asBus } from './errors.ts';

const unixMs = z.date().transform((date) => date.getTime());
const letterRow = z.object({
  id: z.number(),
  stream: z.string(),
  durable: z.string(),
  seq: z.number(),
  storedAt: unixMs,
  subject: z.string(),
  data: z.instanceof(Buffer),
  msgId: orUndefined(z.string()),
  deliveries: z.number(),
  reason: z.string(),
  at: unixMs,
  replayedAt: orUndefined(unixMs),
});
const COLUMNS = columnsOf(letterRow);

/**
 * A reason as it is kept: it may quote a message, and what cannot be stored must not keep the message from being given
 * up.
 */
export function storableReason(reason: string): string {
  return reason.replaceAll('\0', '').slice(0, 1000);
}

/** Where a bus whose streams are elsewhere puts its dead letters. */
export function deadLetterSink(db: Db): DeadLetterSink {
  return { add: (letters) => asBus(() => addDeadLetters(db, letters)) };
}

/** Most dead letters kept of one stream; the oldest go first. */
export const KEPT_DEAD_LETTERS = 10_000;

async function addDeadLetters(db: Db, letters: readonly NewDeadLetter[]): Promise<void> {
  await db.run(
    `insert into bus_dead_letters (stream, durable, seq, stored_at, subject, data, msg_id, deliveries, reason)
     select stream, durable, seq, to_timestamp(stored_at / 1000), subject, data, msg_id, deliveries, reason
     from unnest($1::text[], $2::text[], $3::bigint[], $4::float8[], $5::text[], $6::bytea[], $7::text[], $8::int[],
     $9::text[])
       as new (stream, durable, seq, stored_at, subject, data, msg_id, deliveries, reason)
     on conflict (stream, durable, seq, stored_at) do nothing`,
    [
      ...fieldsOf(letters, 'stream', 'durable', 'seq', 'storedAt', 'subject'),
      letters.map(({ data }) => Buffer.from(data.buffer, data.byteOffset, data.byteLength)),
      letters.map(({ msgId }) => msgId ?? null),
      ...fieldsOf(letters, 'deliveries'),
      letters.map(({ reason }) => storableReason(reason)),
    ],
  );
  await db.run(
    `delete from bus_dead_letters where id in (
       select surplus.id from unnest($1::text[]) as of (stream) cross join lateral (
         select id from bus_dead_letters where stream = of.stream order by id desc offset $2
       ) as surplus)`,
    [[...new Set(letters.map(({ stream }) => stream))], KEPT_DEAD_LETTERS],
  );
}

/** Newest first, at most `limit`; of one stream, or of all. */
export function listDeadLetters(db: Db, stream: string | undefined, limit: number): Promise<StoredDeadLetter[]> {
  return db.many(
    letterRow,
    `select ${COLUMNS} from bus_dead_letters where $1::text is null or stream = $1 order by id desc limit $2`,
    [stream ?? null, limit],
  );
}

/** One dead letter; undefined when there is none of this id. */
export function findDeadLetter(db: Db, id: number): Promise<StoredDeadLetter | undefined> {
  return db.one(letterRow, `select ${COLUMNS} from bus_dead_letters where id = $1`, [id]);
}

/** Which dead letters: those of the ids, or all of a stream, or all. */
export type DeadLetterChoice = { readonly ids: readonly number[] } | { readonly stream: string | undefined };

const replayRow = z.object({ id: z.number(), subject: z.string(), data: z.instanceof(Buffer), replays: z.number() });

/**
 * Puts the messages into the outbox, from where the platform sends them to their streams again, each under an id of its
 * own, and notes it in the same transaction. Those replayed before are left alone unless `again`. Returns the ids of
 * those it took.
 */
export function replayDeadLetters(db: Db, choice: DeadLetterChoice, again: boolean): Promise<number[]> {
  return db.tx(async (tx) => {
    const [condition, value] = conditionOf(choice);
    const rows = await tx.many(
      replayRow,
      `update bus_dead_letters set replays = replays + 1, replayed_at = now()
       where ${condition} and (replayed_at is null or $2) returning id, subject, data, replays`,
      [value, again],
    );
    rows.sort((a, b) => a.id - b.id);
    for (const { id, subject, data, replays } of rows) {
      await append(tx, { msgId: `dead-letter-${id}-${replays}`, subject, data });
    }
    return rows.map(({ id }) => id);
  });
}

/** Deletes dead letters. Returns how many there were. */
export function discardDeadLetters(db: Db, choice: DeadLetterChoice): Promise<number> {
  const [condition, value] = conditionOf(choice);
  return db.run(`delete from bus_dead_letters where ${condition}`, [value]);
}

function conditionOf(choice: DeadLetterChoice): [string, unknown] {
  if ('ids' in choice) return ['id = any($1::bigint[])', choice.ids];
  return ['($1::text is null or stream = $1)', choice.stream ?? null];
}
