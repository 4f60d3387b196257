import {
  DiscardPolicy,
  JetStreamApiCodes,
  JetStreamApiError,
  jetstream,
  RetentionPolicy,
  StorageType,
} from '@nats-io/jetstream';
import { type KV, Kvm } from '@nats-io/kv';
import { nanos } from '@nats-io/transport-node';
import type { Kv } from '../../proto/ports/bus.ts';
import { checkKey, checkSize } from './checks.ts';
import { API_MS, type NatsAdmin } from './nats-admin.ts';
import { asBusError, isNoResponders } from './nats-errors.ts';
import type { NatsLink } from './nats-link.ts';

/** Window in which the server knows repeated writes; not longer than entries live. */
const MAX_DUPLICATE_MS = 120_000;

/**
 * A bucket as NATS keeps them: a stream of one message a key, whose age is the time to live. (Per-entry times to live
 * need server 2.11; older ones accept and ignore them.) A key that is none throws TypeError.
 */
export async function natsBucket(link: NatsLink, admin: NatsAdmin, bucket: string, ttlMs: number): Promise<Kv> {
  const ensure = () =>
    admin.ensure({
      name: `KV_${bucket}`,
      subjects: [`$KV.${bucket}.>`],
      retention: RetentionPolicy.Limits,
      storage: StorageType.File,
      discard: DiscardPolicy.New,
      max_msgs_per_subject: 1,
      max_age: nanos(ttlMs),
      duplicate_window: nanos(Math.min(MAX_DUPLICATE_MS, ttlMs)),
      allow_rollup_hdrs: true,
      deny_delete: true,
      // Answers come from the stream's leader: another server's could be old.
      allow_direct: false,
    });
  await ensure();

  /** Runs `work` on the bucket, which is made again when the server lost it. */
  const run = async <T>(work: (kv: KV) => Promise<T>): Promise<T> => {
    for (let attempt = 1; ; attempt += 1) {
      try {
        const js = jetstream(await link.wait(API_MS), { timeout: API_MS });
        return await work(await new Kvm(js).open(bucket, { allow_direct: false }));
      } catch (error) {
        link.check();
        if (attempt > 1 || !isGone(error)) throw asBusError(error, `use the bucket ${bucket}`);
        await ensure();
      }
    }
  };
  const write = (work: (kv: KV) => Promise<number>) => run((kv) => unlessTaken(work(kv)));
  const live = async (kv: KV, key: string) => {
    const entry = await kv.get(key);
    return entry === null || entry.operation !== 'PUT' ? undefined : entry;
  };

  return {
    async get(key) {
      checkKey(key);
      const entry = await run((kv) => live(kv, key));
      return entry === undefined ? undefined : { key, value: new Uint8Array(entry.value), revision: entry.revision };
    },
    async create(key, value) {
      checkKey(key);
      checkSize(value);
      return write((kv) => kv.create(key, value));
    },
    async update(key, value, revision) {
      checkKey(key);
      checkSize(value);
      return write((kv) => kv.update(key, value, revision));
    },
    async put(key, value) {
      checkKey(key);
      checkSize(value);
      return run((kv) => kv.put(key, value));
    },
    async delete(key, revision) {
      checkKey(key);
      for (;;) {
        const entry = await run((kv) => live(kv, key));
        if (entry === undefined || (revision !== undefined && entry.revision !== revision)) return false;
        const deleted = await write(async (kv) => {
          await kv.delete(key, { previousSeq: entry.revision });
          return entry.revision;
        });
        if (deleted !== undefined) return true;
      }
    },
    async keys() {
      link.check();
      return run(async (kv) => {
        const keys: string[] = [];
        for await (const key of await kv.keys()) keys.push(key);
        return keys.sort();
      });
    },
  };
}

/** The revision of a write; undefined when the entry is not as the writer thought. */
async function unlessTaken(write: Promise<number>): Promise<number | undefined> {
  try {
    return await write;
  } catch (error) {
    if (error instanceof JetStreamApiError && error.code === JetStreamApiCodes.StreamWrongLastSequence)
      return undefined;
    throw error;
  }
}

function isGone(error: unknown): boolean {
  if (error instanceof JetStreamApiError) return error.code === JetStreamApiCodes.StreamNotFound;
  // A write into no stream finds nobody to take it.
  return isNoResponders(error);
}
