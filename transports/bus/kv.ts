import type { Kv } from '../../proto/ports/bus.ts';
import type { KvStore } from '../../proto/ports/bus-store.ts';
import { checkKey, checkSize } from './checks.ts';

/** One bucket of the store. `check` throws once the bus is closed. A key that is none throws TypeError. */
export function bucketOf(store: KvStore, bucket: string, ttlMs: number, check: () => void): Kv {
  const checked = (key: string, value?: Uint8Array): void => {
    check();
    checkKey(key);
    if (value !== undefined) checkSize(value);
  };
  return {
    async get(key) {
      checked(key);
      return store.get(bucket, key);
    },
    async create(key, value) {
      checked(key, value);
      return store.create(bucket, key, value, ttlMs);
    },
    async update(key, value, revision) {
      checked(key, value);
      return store.update(bucket, key, value, revision, ttlMs);
    },
    async put(key, value) {
      checked(key, value);
      return store.put(bucket, key, value, ttlMs);
    },
    async delete(key, revision) {
      checked(key);
      return store.delete(bucket, key, revision);
    },
    async keys() {
      check();
      return store.keys(bucket);
    },
  };
}
