import { z } from 'zod';
import type { KvEntry } from '../../proto/ports/bus.ts';
import type { KvStore } from '../../proto/ports/bus-store.ts';
import type { Db } from '../db.ts';
import { asBus } from './errors.ts';

const entryRow = z.object({ key: z.string(), value: z.instanceof(Buffer), revision: z.number() });
const revisionRow = z.object({ revision: z.number() });
const keyRow = z.object({ key: z.string() });

const EXPIRY = "clock_timestamp() + $4 * interval '1 millisecond'";

/** Buckets in the database. The server's clock decides on expiry, so all processes agree. */
export function kvStore(db: Db): KvStore {
  const write = async (text: string, values: readonly unknown[]): Promise<number | undefined> =>
    (await asBus(() => db.one(revisionRow, text, values)))?.revision;
  return {
    get: (bucket, key): Promise<KvEntry | undefined> =>
      asBus(() =>
        db.one(
          entryRow,
          'select key, value, revision from bus_kv where bucket = $1 and key = $2 and expires_at > clock_timestamp()',
          [bucket, key],
        ),
      ),
    create: (bucket, key, value, ttlMs) =>
      write(
        `insert into bus_kv as old (bucket, key, value, revision, expires_at)
         values ($1, $2, $3, nextval('bus_kv_revisions'), ${EXPIRY})
         on conflict (bucket, key) do update
           set value = excluded.value, revision = excluded.revision, expires_at = excluded.expires_at
           where old.expires_at <= clock_timestamp()
         returning revision`,
        [bucket, key, asBuffer(value), ttlMs],
      ),
    update: (bucket, key, value, revision, ttlMs) =>
      write(
        `update bus_kv set value = $3, revision = nextval('bus_kv_revisions'), expires_at = ${EXPIRY}
         where bucket = $1 and key = $2 and revision = $5 and expires_at > clock_timestamp()
         returning revision`,
        [bucket, key, asBuffer(value), ttlMs, revision],
      ),
    put: async (bucket, key, value, ttlMs) =>
      (await write(
        `insert into bus_kv (bucket, key, value, revision, expires_at)
         values ($1, $2, $3, nextval('bus_kv_revisions'), ${EXPIRY})
         on conflict (bucket, key) do update
           set value = excluded.value, revision = nextval('bus_kv_revisions'), expires_at = excluded.expires_at
         returning revision`,
        [bucket, key, asBuffer(value), ttlMs],
      )) ?? 0,
    delete: async (bucket, key, revision) =>
      (await asBus(() =>
        db.run(
          `delete from bus_kv where bucket = $1 and key = $2 and expires_at > clock_timestamp()
             and ($3::bigint is null or revision = $3)`,
          [bucket, key, revision ?? null],
        ),
      )) === 1,
    keys: async (bucket) => {
      const rows = await asBus(() =>
        db.many(keyRow, 'select key from bus_kv where bucket = $1 and expires_at > clock_timestamp() order by key', [
          bucket,
        ]),
      );
      return rows.map(({ key }) => key);
    },
  };
}

function asBuffer(value: Uint8Array): Buffer {
  return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
}
