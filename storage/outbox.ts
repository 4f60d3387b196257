import { z } from 'zod';
import type { OutboxEntry, OutboxStore } from '../proto/bus-store.ts';
import { asBus } from './bus/errors.ts';
import type { Db } from './db.ts';
import type { Queries } from './queries.ts';

const channel = 'outbox';

/**
 * Writes an event that must not be lost, in the caller's transaction; a relay publishes it after the commit. `msgId` names
 * the event for ever: a second write under the same id changes nothing.
 */
export async function append(
  tx: Queries,
  event: { readonly msgId: string; readonly subject: string; readonly data: Uint8Array },
): Promise<void> {
  const { msgId, subject, data } = event;
  await tx.run(
    `with written as (
       insert into outbox (msg_id, subject, data) values ($1, $2, $3) on conflict (msg_id) do nothing
     )
     select pg_notify('${channel}', '')`,
    [msgId, subject, Buffer.from(data.buffer, data.byteOffset, data.byteLength)],
  );
}

const entryRow = z
  .object({ id: z.number(), msg_id: z.string(), subject: z.string(), data: z.instanceof(Buffer) })
  .transform(({ id, msg_id, subject, data }): OutboxEntry => ({ id, msgId: msg_id, subject, data }));

/** The relay's view of the outbox in `db`. Two relays at once publish an event twice, under one id; the stream keeps one. */
export function outboxStore(db: Db): OutboxStore {
  return {
    take: (limit, after) =>
      asBus(() =>
        db.many(entryRow, 'select id, msg_id, subject, data from outbox where id > $2 order by id limit $1', [
          limit,
          after,
        ]),
      ),
    remove: (ids) =>
      asBus(async () => {
        await db.run('delete from outbox where id = any($1::bigint[])', [ids]);
      }),
    onWrite: (handler) => db.listen(channel, () => handler()),
  };
}
