import { z } from 'zod';
import type { OutboxStore } from '../proto/ports/bus-store.ts';
import { asBus } from './bus/errors.ts';
import type { Db } from './db.ts';
import type { Queries } from './queries.ts';
import { columnsOf, fieldsOf } from './rows.ts';

const CHANNEL = 'outbox';

/** An event to publish. `msgId` names it for ever. */
interface OutboxEvent {
  readonly msgId: string;
  readonly subject: string;
  readonly data: Uint8Array;
}

/**
 * Writes an event that must not be lost, in the caller's transaction; a relay publishes it after the commit. A second
 * write under the same `msgId` changes nothing.
 */
export function append(tx: Queries, event: OutboxEvent): Promise<void> {
  return appendAll(tx, [event]);
}

/** The same for many events, in their order. */
export async function appendAll(tx: Queries, events: readonly OutboxEvent[]): Promise<void> {
  await tx.run(
    `insert into outbox (msg_id, subject, data)
     select msg_id, subject, data from unnest($1::text[], $2::text[], $3::bytea[])
       with ordinality as new (msg_id, subject, data, place)
     order by place
     on conflict (msg_id) do nothing`,
    [
      ...fieldsOf(events, 'msgId', 'subject'),
      events.map(({ data }) => Buffer.from(data.buffer, data.byteOffset, data.byteLength)),
    ],
  );
  await tx.hint(CHANNEL);
}

const entryRow = z.object({ id: z.number(), msgId: z.string(), subject: z.string(), data: z.instanceof(Buffer) });

/** The relay's view of the outbox. Two relays at once publish an event twice under one id; the stream keeps one. */
export function outboxStore(db: Db): OutboxStore {
  return {
    take: (limit, after) =>
      asBus(() =>
        db.many(entryRow, `select ${columnsOf(entryRow)} from outbox where id > $2 order by id limit $1`, [
          limit,
          after,
        ]),
      ),
    remove: (ids) =>
      asBus(async () => {
        await db.run('delete from outbox where id = any($1::bigint[])', [ids]);
      }),
    onWrite: (handler) => db.listen(CHANNEL, () => handler()),
  };
}
