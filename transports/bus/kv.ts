import type { KvStore } from '../../proto/bus-store.ts';
import { BusError, type Kv } from '../../proto/ports.ts';

// What NATS takes for a key, so that both buses take the same.
const keyPattern = /^[-/_=.a-zA-Z0-9]{1,512}$/;
const maxValueBytes = 1 << 20;

/** One bucket of the store. `check` throws once the bus is closed. A key that is none throws TypeError. */
export function bucketOf(store: KvStore, bucket: string, ttlMs: number, check: () => void): Kv {
  const checked = (key: string, value?: Uint8Array): void => {
    check();
    if (!keyPattern.test(key) || key.startsWith('.') || key.endsWith('.')) {
      throw new TypeError(`Not a key: ${JSON.stringify(key.slice(0, 100))}`);
    }
    if (value !== undefined && value.byteLength > maxValueBytes) {
      throw new BusError('too_large', `A value has at most ${maxValueBytes} bytes.`);
    }
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
