/** The cache's memory: what it counts is what it uses, and it never uses more than it may. */
import '../support/own-process.ts'; // It measures the heap of its process.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { Entry } from '../../transports/gateway/cache/entry.ts';
import { CacheStore } from '../../transports/gateway/cache/store.ts';

let time = 0;
const clock = () => time;

function entry(
  host: string,
  path: string,
  bytes: number,
  more: { variant?: string; freshMs?: number; body?: Buffer } = {},
): Entry {
  const { variant = '', freshMs = 30_000, body = Buffer.allocUnsafeSlow(bytes).fill(120) } = more;
  return new Entry(
    {
      ...{ host, path, variant, freshMs, reason: 'OK', ageMs: 0, isPublic: false, now: time, askedAt: time },
      fields: [{ name: 'content-type', value: 'text/plain', line: 'Content-Type: text/plain' }],
      body,
    },
    clock,
  );
}

test('a million unique URLs take no more than the capacity, by its own count and by that of the process', () => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc');
  const used = () => {
    // What one collection finds dead may hold memory outside the heap until the next.
    collect();
    collect();
    const { heapUsed, arrayBuffers } = process.memoryUsage();
    return heapUsed + arrayBuffers;
  };
  const capacity = 25_000_000;
  const store = new CacheStore({ capacity });
  const before = used();
  for (let n = 0; n < 25_000; n++) assert.ok(store.set(entry(`host-number-${n}.test`, '/', 100)));
  const hosts = used() - before;
  assert.ok(hosts <= store.bytes, `${store.entries} hosts take ${hosts} bytes, and are counted with ${store.bytes}`);
  // Those that are driven out again need no body of their own: making them is most of this test's time.
  const shared = { body: Buffer.alloc(100, 120) };
  for (let n = 0; n < 400_000; n++) {
    // Cut out of a head, as paths are.
    const head = `GET /unique/${n} HTTP/1.1\r\nUser-Agent: ${'x'.repeat(200)}`;
    assert.ok(store.set(entry('a.test', head.slice(4, head.indexOf(' HTTP')), 100, n < 300_000 ? shared : {})));
    if (n % 100_000 === 0) assert.ok(store.bytes <= capacity);
  }
  assert.ok(store.bytes <= capacity);
  assert.ok(store.bytes > capacity * 0.99, 'it is used, too');
  const grown = used() - before;
  assert.ok(grown <= capacity, `${store.entries} entries take ${grown} bytes, and are counted with ${store.bytes}`);
  assert.ok(store.get('a.test', '/unique/399999', '', 0) !== undefined);
  assert.equal(store.get('a.test', '/unique/0', '', 0), undefined);
  store.clear();
  assert.deepEqual([store.bytes, store.entries], [0, 0]);
});

test('what was used last stays longest', () => {
  const size = entry('a.test', '/0', 1000).size;
  const store = new CacheStore({ capacity: 3 * size, share: 10 * size });
  for (const path of ['/1', '/2', '/3']) store.set(entry('a.test', path, 1000));
  store.get('a.test', '/1', '', 0);
  store.set(entry('a.test', '/4', 1000));
  const kept = ['/1', '/2', '/3', '/4'].filter((path) => store.get('a.test', path, '', 0) !== undefined);
  assert.deepEqual(kept, ['/1', '/3', '/4']);
  assert.equal(store.evictions, 1);
});

test('a flood for one host drives out no other once it has its share', () => {
  const size = entry('a.test', '/000', 1000).size;
  const store = new CacheStore({ capacity: 100 * size });
  for (let n = 0; n < 70; n++) store.set(entry('b.test', `/${n}`, 1000));
  for (let n = 0; n < 1000; n++) store.set(entry('a.test', `/${n}`, 1000));
  let left = 0;
  for (let n = 0; n < 70; n++) if (store.get('b.test', `/${n}`, '', 0) !== undefined) left++;
  assert.equal(left, 70);
  assert.ok(store.bytes <= 100 * size);
});

test('one path keeps a few variants, and loses all of them at once', () => {
  const store = new CacheStore();
  for (let n = 0; n < 50; n++) store.set(entry('a.test', '/x', 10, { variant: `v${n}` }));
  assert.equal(store.entries, 32);
  store.set(entry('a.test', '/y', 10));
  store.delete('b.test', '/x');
  assert.equal(store.entries, 33);
  store.delete('a.test', '/x');
  assert.equal(store.entries, 1);
});

test('what is being sent counts until it has been sent, though it was dropped', () => {
  const sent = entry('a.test', '/x', 1000);
  const store = new CacheStore({ capacity: 2 * sent.size, share: 10 * sent.size });
  store.set(sent);
  const release = sent.hold();
  store.delete('a.test', '/x');
  assert.equal(store.bytes, sent.size);
  store.set(entry('a.test', '/y', 1000));
  assert.ok(store.set(entry('a.test', '/z', 1000)));
  assert.equal(store.entries, 1);
  release();
  release();
  assert.equal(store.bytes, sent.size);
  assert.ok(store.set(entry('a.test', '/y', 1000)));
  assert.equal(store.entries, 2);
});

test('a cleanup drops what is no longer fresh, in steps', () => {
  time = 0;
  const store = new CacheStore();
  for (let n = 0; n < 12_000; n++) store.set(entry('a.test', `/${n}`, 1, { freshMs: n % 2 === 0 ? 1000 : 5000 }));
  time = 2000;
  const steps = [...store.sweep(clock)].length;
  assert.ok(steps >= 2, `${steps} steps`);
  assert.equal(store.entries, 6000);
  time = 0;
});

test('counts stay true whatever happens', () => {
  const operation = fc.tuple(
    fc.constantFrom('set', 'get', 'delete', 'hold', 'release', 'sweep'),
    fc.constantFrom('a.test', 'b.test'),
    fc.integer({ min: 0, max: 9 }),
    fc.constantFrom('', 'v'),
    fc.integer({ min: 0, max: 4000 }),
  );
  fc.assert(
    fc.property(fc.array(operation, { maxLength: 200 }), (operations) => {
      time = 0;
      const capacity = 20_000;
      const store = new CacheStore({ capacity });
      const held: (() => void)[] = [];
      for (const [what, host, n, variant, size] of operations) {
        time += 1000;
        const path = `/${n}`;
        if (what === 'set') store.set(entry(host, path, size, { variant, freshMs: 20_000 }));
        else if (what === 'delete') store.delete(host, path);
        else if (what === 'sweep') for (const _ of store.sweep(clock));
        else if (what === 'release') held.pop()?.();
        else {
          const found = store.get(host, path, variant, time);
          if (found !== undefined) {
            assert.deepEqual([found.host, found.path, found.variant], [host, path, variant]);
            assert.ok(found.expiresAt > time);
            if (what === 'hold') held.push(found.hold());
          }
        }
        assert.ok(store.bytes <= capacity && store.bytes >= 0);
      }
      for (const release of held) release();
      store.clear();
      assert.deepEqual([store.bytes, store.entries], [0, 0]);
    }),
    { numRuns: 300 },
  );
});
