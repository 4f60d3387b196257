import { z } from 'zod';
import type { StreamConfig } from '../../proto/ports/bus.ts';
import type { NewMessage, Stored } from '../../proto/ports/bus-store.ts';
import type { Db, Tx } from '../db.ts';
import { columnsOf, fieldsOf } from '../rows.ts';
import { KEPT_DEAD_LETTERS } from './dead-letters.ts';
import { noStream } from './errors.ts';

/** Channel on which appends are announced; the payload is the stream's name. */
export const APPEND_CHANNEL = 'bus_append';

/** Creates the stream or changes its configuration; its messages stay. */
export async function ensureStream(db: Db, config: StreamConfig): Promise<void> {
  await db.run(
    `insert into bus_streams (name, subjects, max_messages, max_bytes, max_age_ms, duplicate_window_ms)
     values ($1, $2, $3, $4, $5, $6)
     on conflict (name) do update set subjects = excluded.subjects, max_messages = excluded.max_messages,
       max_bytes = excluded.max_bytes, max_age_ms = excluded.max_age_ms, duplicate_window_ms =
       excluded.duplicate_window_ms`,
    [config.name, config.subjects, config.maxMessages, config.maxBytes, config.maxAgeMs, config.duplicateWindowMs],
  );
}

const streamRow = z.object({
  name: z.string(),
  subjects: z.array(z.string()),
  maxMessages: z.number(),
  maxBytes: z.number(),
  maxAgeMs: z.number(),
  duplicateWindowMs: z.number(),
});

/** All streams. */
export function listStreams(db: Db): Promise<StreamConfig[]> {
  return db.many(streamRow, `select ${columnsOf(streamRow)} from bus_streams order by name`);
}

const counters = z.object({
  last_seq: z.number(),
  duplicate_window_ms: z.number(),
  max_messages: z.number(),
  max_bytes: z.number(),
  messages: z.number(),
  bytes: z.number(),
});
const seenRow = z.object({ msg_id: z.string(), seq: z.number() });

/** Stores the messages in order, all or none. Rejects BusError `no_stream`. */
export function append(db: Db, stream: string, messages: readonly NewMessage[]): Promise<Stored[]> {
  return db.tx(async (tx) => {
    // The lock makes numbers visible in their order, which lets consumers keep a plain cursor.
    const state = await tx.one(
      counters,
      `select last_seq, duplicate_window_ms, max_messages, max_bytes, messages, bytes,
         set_config('enable_seqscan', 'off', true)
       from bus_streams where name = $1 for update`,
      [stream],
    );
    if (state === undefined) throw noStream(stream);
    const seen = await seenIds(tx, stream, messages, state.duplicate_window_ms);
    const results: Stored[] = [];
    const fresh: (NewMessage & { seq: number })[] = [];
    for (const message of messages) {
      const known = message.msgId === undefined ? undefined : seen.get(message.msgId);
      if (known !== undefined) {
        results.push({ seq: known, duplicate: true });
        continue;
      }
      const seq = state.last_seq + fresh.length + 1;
      if (message.msgId !== undefined) seen.set(message.msgId, seq);
      fresh.push({ ...message, seq });
      results.push({ seq, duplicate: false });
    }
    if (fresh.length === 0) return results;
    const bytes = fresh.reduce((sum, { data }) => sum + data.byteLength, 0);
    await insert(tx, stream, fresh, bytes);
    const messagesOver = state.messages + fresh.length - state.max_messages;
    const bytesOver = state.bytes + bytes - state.max_bytes;
    if (messagesOver > 0 || bytesOver > 0) await dropOldest(tx, stream, messagesOver, bytesOver);
    return results;
  });
}

async function seenIds(tx: Tx, stream: string, messages: readonly NewMessage[], windowMs: number) {
  const ids = messages.flatMap(({ msgId }) => (msgId === undefined ? [] : [msgId]));
  if (ids.length === 0) return new Map<string, number>();
  const rows = await tx.many(
    seenRow,
    // Looked up one by one: as a list it would be compared with every id of the stream.
    `select msg_id, seq from (
       select msg_id, (select seq from bus_message_ids as known
         where known.stream = $1 and known.msg_id = wanted.msg_id and at > now() - $3 * interval '1 millisecond') as seq
       from unnest($2::text[]) as wanted (msg_id)
     ) as looked_up where seq is not null`,
    [stream, ids, windowMs],
  );
  return new Map(rows.map(({ msg_id, seq }) => [msg_id, seq]));
}

async function insert(tx: Tx, stream: string, fresh: readonly (NewMessage & { seq: number })[], bytes: number) {
  await tx.run(
    `with stored as (
       insert into bus_messages (stream, seq, subject, data, size, msg_id)
       select $1, seq, subject, data, octet_length(data), msg_id
       from unnest($2::bigint[], $3::text[], $4::bytea[], $5::text[]) as new (seq, subject, data, msg_id)
     ), ids as (
       insert into bus_message_ids (stream, msg_id, seq)
       select $1, msg_id, seq from unnest($2::bigint[], $5::text[]) as new (seq, msg_id) where msg_id is not null
       on conflict (stream, msg_id) do update set seq = excluded.seq, at = excluded.at
     ), counted as (
       update bus_streams set last_seq = last_seq + $6, messages = messages + $6, bytes = bytes + $7 where name = $1
     )
     select pg_notify('${APPEND_CHANNEL}', $1)`,
    [
      stream,
      ...fieldsOf(fresh, 'seq', 'subject'),
      fresh.map(({ data }) => Buffer.from(data.buffer, data.byteOffset, data.byteLength)),
      fresh.map(({ msgId }) => msgId ?? null),
      fresh.length,
      bytes,
    ],
  );
}

/** Removes oldest messages until `messages` and `bytes` of them are gone. The stream's row is locked by the caller. */
async function dropOldest(tx: Tx, stream: string, messages: number, bytes: number): Promise<void> {
  // Numbers have no gaps and only the oldest ever go, so the count is plain; the bytes are summed from the oldest on.
  await tx.run(
    `with doomed as (
       select seq, size from (
         select seq, size, row_number() over w as place, sum(size) over w - size as before
         from bus_messages where stream = $1 window w as (order by seq)
       ) as old
       where place <= $2 or before < $3
     ), gone as (
       delete from bus_messages where stream = $1 and seq in (select seq from doomed)
     )
     update bus_streams set
       messages = messages - (select count(*) from doomed),
       bytes = bytes - (select coalesce(sum(size), 0) from doomed)
     where name = $1`,
    [stream, messages, bytes],
  );
}

/** Rows removed in one step, so that no transaction runs long. */
const STEP = 5000;

/** Removes expired messages, message ids and surplus dead letters, one step of each. True when more remain. */
export async function trim(db: Db): Promise<boolean> {
  const counts = [
    await dropExpiredMessages(db),
    await db.run(
      `delete from bus_message_ids where ctid in (
         select old.ctid from bus_message_ids as old join bus_streams on name = stream
         where old.at < now() - duplicate_window_ms * interval '1 millisecond' limit $1)`,
      [STEP],
    ),
    await db.run(
      `delete from bus_dead_letters where id in (
         select id from (select id, row_number() over (partition by stream order by id desc) as place from
         bus_dead_letters) as all_letters
         where place > $1 limit $2)`,
      [KEPT_DEAD_LETTERS, STEP],
    ),
  ];
  return counts.some((count) => count >= STEP);
}

async function dropExpiredMessages(db: Db): Promise<number> {
  // The streams are locked in one order, as appends lock them, and the counters follow what was really removed.
  return db.tx(async (tx) => {
    await tx.run('select from bus_streams order by name for update');
    return tx.run(
      `with doomed as (
         delete from bus_messages where ctid in (
           select message.ctid from bus_streams as stream
           cross join lateral (
             select ctid, at from bus_messages where stream = stream.name order by seq limit $1
           ) as message
           where message.at < now() - stream.max_age_ms * interval '1 millisecond')
         returning stream, size
       ), counted as (
         update bus_streams set messages = messages - gone.messages_gone, bytes = bytes - gone.bytes_gone
         from (select stream, count(*) as messages_gone, sum(size) as bytes_gone from doomed group by stream) as gone
         where name = gone.stream
       )
       select from doomed`,
      [STEP],
    );
  });
}
