import type { Db } from '../db.ts';
import { KEPT_DEAD_LETTERS } from './dead-letters.ts';

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
