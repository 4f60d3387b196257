import { z } from 'zod';
import type { Delivery, DeliveryId, Fetched, StoredConsumer } from '../../proto/ports/bus-store.ts';
import type { Db, Tx } from '../db.ts';
import { isConstraint } from '../errors.ts';
import { fieldsOf, manyValues, oneValue } from '../rows.ts';
import { storableReason } from './dead-letters.ts';
import { noStream } from './errors.ts';

/** Most payload bytes handed out at once (one message may be larger). */
const MAX_FETCH_BYTES = 8 << 20;
/** Messages looked at in one fetch when few match the filter. */
const MAX_SCAN = 5000;

/** Creates the consumer, beginning with the oldest message, or changes its limits; its position stays. */
export async function ensureConsumer(db: Db, stream: string, consumer: StoredConsumer): Promise<void> {
  try {
    await db.run(
      `insert into bus_consumers (stream, durable, filter, ack_wait_ms, max_deliver, max_ack_pending)
       values ($1, $2, $3, $4, $5, $6)
       on conflict (stream, durable) do update set filter = excluded.filter, ack_wait_ms = excluded.ack_wait_ms,
         max_deliver = excluded.max_deliver, max_ack_pending = excluded.max_ack_pending`,
      [
        stream,
        consumer.durable,
        consumer.filter ?? null,
        consumer.ackWaitMs,
        consumer.maxDeliver,
        consumer.maxAckPending,
      ],
    );
  } catch (error) {
    if (isConstraint(error, 'bus_consumers_stream_fkey')) throw noStream(stream);
    throw error;
  }
}

const consumerRow = z.object({
  filter: z.string().nullable(),
  ack_wait_ms: z.number(),
  max_deliver: z.number(),
  max_ack_pending: z.number(),
  next_seq: z.number(),
});
type ConsumerRow = z.output<typeof consumerRow>;

const deliveryRow = z
  .object({
    seq: z.number(),
    subject: z.string(),
    data: z.instanceof(Buffer),
    attempts: z.number(),
    msg_id: z.string().nullable(),
    at: z.date(),
  })
  .transform(
    ({ seq, subject, data, attempts, msg_id, at }): Delivery => ({
      seq,
      subject,
      data,
      deliveryCount: attempts,
      storedAt: at.getTime(),
      msgId: msg_id ?? undefined,
    }),
  );

/** StreamStore.fetch. Rejects BusError `no_stream` when the consumer does not exist. */
export function fetch(db: Db, stream: string, durable: string): Promise<Fetched> {
  return db.tx(async (tx) => {
    // Held until commit: callers with one durable take turns, and each sees what the other took.
    const consumer = await tx.one(
      consumerRow,
      // These tables are empty when statistics are gathered: without it, all of one is read for each row of another.
      `select filter, ack_wait_ms, max_deliver, max_ack_pending, next_seq, set_config('enable_seqscan', 'off', true)
       from bus_consumers where stream = $1 and durable = $2 for update`,
      [stream, durable],
    );
    if (consumer === undefined) throw noStream(stream);
    await buryExhausted(tx, stream, durable, consumer.max_deliver);
    const again = await redeliver(tx, stream, durable, consumer);
    const fresh = again.full ? { deliveries: [], more: true } : await deliverNew(tx, stream, durable, consumer);
    const dueMs = await oneValue(
      tx,
      z.number().nullable(),
      `select ceil(extract(epoch from min(due) - clock_timestamp()) * 1000)::float8
       from bus_deliveries where stream = $1 and durable = $2`,
      [stream, durable],
    );
    return {
      deliveries: [...again.deliveries, ...fresh.deliveries].sort((a, b) => a.seq - b.seq),
      nextDueMs: dueMs == null ? undefined : Math.max(0, dueMs),
      more: fresh.more,
    };
  });
}

async function buryExhausted(tx: Tx, stream: string, durable: string, maxDeliver: number): Promise<void> {
  await tx.run(
    `with spent as (
       delete from bus_deliveries where stream = $1 and durable = $2 and due <= now() and attempts >= $3
       returning seq, attempts
     )
     insert into bus_dead_letters (stream, durable, seq, stored_at, subject, data, msg_id, deliveries, reason)
     select $1, $2, seq, at, subject, data, msg_id, attempts, 'delivered too often'
     from spent join bus_messages using (seq) where bus_messages.stream = $1
     on conflict (stream, durable, seq, stored_at) do nothing`,
    [stream, durable, maxDeliver],
  );
}

async function redeliver(tx: Tx, stream: string, durable: string, consumer: ConsumerRow) {
  // What the stream's limits removed meanwhile cannot be handed out again.
  await tx.run(
    `delete from bus_deliveries as out where stream = $1 and durable = $2 and due <= now()
       and not exists (select from bus_messages where stream = $1 and seq = out.seq)`,
    [stream, durable],
  );
  const due = await manyValues(
    tx,
    z.number(),
    `select seq from (
       select out.seq, sum(size) over (order by out.seq) - size as before
       from bus_deliveries as out join bus_messages as message on message.stream = $1 and message.seq = out.seq
       where out.stream = $1 and durable = $2 and due <= now()
       order by out.seq limit $3
     ) as candidates where before < $4`,
    [stream, durable, consumer.max_ack_pending, MAX_FETCH_BYTES],
  );
  // Mostly nothing is: looking for it must not cost more when much is out.
  if (due.length === 0) return { deliveries: [], full: false };
  const deliveries = await tx.many(
    deliveryRow,
    `with again as (
       update bus_deliveries set attempts = attempts + 1, due = clock_timestamp() + $4 * interval '1 millisecond'
       where stream = $1 and durable = $2 and seq between $5 and $6 and seq = any($3::bigint[])
       returning seq, attempts
     )
     select seq, subject, data, attempts, msg_id, at from again join bus_messages using (seq)
     where bus_messages.stream = $1 order by seq`,
    [stream, durable, due, consumer.ack_wait_ms, due[0], due.at(-1)],
  );
  const bytes = deliveries.reduce((sum, { data }) => sum + data.byteLength, 0);
  return { deliveries, full: bytes >= MAX_FETCH_BYTES };
}

const scanned = z.object({ seq: z.number(), hit: z.boolean() });

async function deliverNew(tx: Tx, stream: string, durable: string, consumer: ConsumerRow) {
  const out = 'select count(*) from bus_deliveries where stream = $1 and durable = $2';
  const room = consumer.max_ack_pending - ((await oneValue(tx, z.number(), out, [stream, durable])) ?? 0);
  // An acknowledgement makes room, and wakes the consumer.
  if (room <= 0) return { deliveries: [], more: false };
  const regex = subjectRegex(consumer.filter ?? undefined);
  const limit = regex === undefined ? room : Math.max(room, MAX_SCAN);
  const rows = await tx.many(
    scanned,
    `select seq, hit from (
       select seq, coalesce(subject ~ $4, true) as hit, sum(size) over (order by seq) - size as before
       from bus_messages where stream = $1 and seq >= $2 order by seq limit $3
     ) as upcoming where before < $5 order by seq`,
    [stream, consumer.next_seq, limit, regex ?? null, MAX_FETCH_BYTES],
  );
  const taken = rows.filter(({ hit }) => hit).slice(0, room);
  const hits = rows.reduce((count, { hit }) => count + (hit ? 1 : 0), 0);
  const last = hits > taken.length ? taken.at(-1) : rows.at(-1);
  if (last === undefined) return { deliveries: [], more: false };
  const seqs = taken.map(({ seq }) => seq);
  // What lies between two of them was part of the look above, and so are its bytes.
  const deliveries = await tx.many(
    deliveryRow,
    `with moved as (
       update bus_consumers set next_seq = $4 where stream = $1 and durable = $2
     ), handed_out as (
       insert into bus_deliveries (stream, durable, seq, attempts, due)
       select $1, $2, seq, 1, clock_timestamp() + $5 * interval '1 millisecond' from unnest($3::bigint[]) as new (seq)
     )
     select seq, subject, data, 1 as attempts, msg_id, at from bus_messages where stream = $1 and seq between $6 and $7
     order by seq`,
    [stream, durable, seqs, last.seq + 1, consumer.ack_wait_ms, seqs[0] ?? last.seq + 1, seqs.at(-1) ?? last.seq],
  );
  const wanted = new Set(seqs);
  return { deliveries: deliveries.filter(({ seq }) => wanted.has(seq)), more: true };
}

/** StreamStore.ack */
export async function ack(db: Db, stream: string, durable: string, seqs: readonly number[]): Promise<void> {
  let [least, most] = [Number.POSITIVE_INFINITY, 0];
  for (const seq of seqs) [least, most] = [Math.min(least, seq), Math.max(most, seq)];
  if (seqs.length === 0) return;
  await db.run(
    `delete from bus_deliveries
     where stream = $1 and durable = $2 and seq between $4 and $5 and seq = any($3::bigint[])`,
    [stream, durable, seqs, least, most],
  );
}

/** StreamStore.nak */
export async function nak(
  db: Db,
  stream: string,
  durable: string,
  items: readonly (DeliveryId & { delayMs: number })[],
): Promise<void> {
  await db.run(
    `update bus_deliveries as out set due = clock_timestamp() + item.delay_ms * interval '1 millisecond'
     from unnest($3::bigint[], $4::int[], $5::float8[]) as item (seq, attempts, delay_ms)
     where stream = $1 and durable = $2 and out.seq = item.seq and out.attempts = item.attempts`,
    [stream, durable, ...fieldsOf(items, 'seq', 'deliveryCount', 'delayMs')],
  );
}

/** StreamStore.term */
export async function term(
  db: Db,
  stream: string,
  durable: string,
  items: readonly (DeliveryId & { reason: string })[],
): Promise<void> {
  await db.run(
    `with given_up as (
       delete from bus_deliveries as out
       using unnest($3::bigint[], $4::int[], $5::text[]) as item (seq, attempts, reason)
       where stream = $1 and durable = $2 and out.seq = item.seq and out.attempts = item.attempts
       returning out.seq, out.attempts, item.reason
     )
     insert into bus_dead_letters (stream, durable, seq, stored_at, subject, data, msg_id, deliveries, reason)
     select $1, $2, seq, at, subject, data, msg_id, attempts, reason
     from given_up join bus_messages using (seq) where bus_messages.stream = $1
     on conflict (stream, durable, seq, stored_at) do nothing`,
    [stream, durable, ...fieldsOf(items, 'seq', 'deliveryCount'), items.map(({ reason }) => storableReason(reason))],
  );
}

/**
 * The regular expression (PostgreSQL's, anchored) that subjects matching a pattern fulfil: `*` stands for one token, a
 * closing `>` for one or more. Undefined when everything matches.
 */
export function subjectRegex(pattern: string | undefined): string | undefined {
  if (pattern === undefined || pattern === '>') return undefined;
  const tokens = pattern.split('.').map((token, index, all) => {
    if (token === '*') return '[^.]+';
    if (token === '>' && index === all.length - 1) return '.+';
    return token.replace(/[\\^$.|?*+()[\]{}]/g, '\\$&');
  });
  return `^${tokens.join('\\.')}$`;
}
