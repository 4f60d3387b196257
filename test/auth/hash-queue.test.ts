import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { HashQueue } from '../../actors/auth/login/hash-queue.ts';
import { refused } from '../support/service/calls.ts';
import { turns as loop } from '../support/until.ts';

/** Work that ends when told to, in a queue; notes what began. */
function queueOf(options: { concurrency: number; capacity: number; perSite: number }) {
  const queue = new HashQueue(options);
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  const bring = (client: string, name: string) =>
    queue.run(clientOf(client), async () => {
      begun.push(name);
      await new Promise<void>((resolve) => ends.set(name, resolve));
      return name;
    });
  const end = async (name: string) => {
    ends.get(name)?.();
    await loop(5);
  };
  return { queue, begun, bring, end };
}

/** `a`: an IPv4 address. `a:1`: a /64 of the /48 `a`. */
const clientOf = (name: string) => ({ network: name, site: name.split(':')[0] ?? '' });

describe('the queue where hashes wait', () => {
  test('works on so many at once, and clients take turns', async () => {
    const { begun, bring, end, queue } = queueOf({ concurrency: 2, capacity: 100, perSite: 100 });
    const all = ['a1', 'a2', 'a3', 'a4', 'b1', 'b2', 'c1'].map((name) => bring(name.slice(0, 1), name));
    await loop(5);
    assert.deepEqual(begun, ['a1', 'a2']);
    for (let i = 0; i < all.length; i++) await end(begun[i] ?? '');
    assert.deepEqual(begun, ['a1', 'a2', 'a3', 'b1', 'c1', 'a4', 'b2']);
    assert.equal((await Promise.all(all)).length, 7);
    assert.equal(queue.waiting, 0);
    assert.equal(queue.isFullFor(clientOf('a')), false);
  });

  test('refuses past its bound and past the bound of a client, and lets others in meanwhile', async () => {
    const { begun, bring, end, queue } = queueOf({ concurrency: 1, capacity: 4, perSite: 2 });
    const all = ['a0', 'a1', 'a2'].map((name) => bring('a', name));
    assert.equal(queue.isFullFor(clientOf('a')), true);
    await refused('overloaded', bring('a', 'a3'));
    all.push(bring('b', 'b1'), bring('c', 'c1'));
    assert.equal(queue.waiting, 4);
    await refused('overloaded', bring('b', 'b2'));
    for (let i = 0; i < all.length; i++) await end(begun[i] ?? '');
    await Promise.all(all);
    assert.deepEqual(begun, ['a0', 'a1', 'b1', 'c1', 'a2']);
  });

  test('goes on with the next when work failed', async () => {
    const { begun, bring, end, queue } = queueOf({ concurrency: 1, capacity: 4, perSite: 4 });
    const failing = assert.rejects(
      queue.run(clientOf('a'), async () => {
        throw new Error('of the work');
      }),
      /of the work/,
    );
    const next = bring('a', 'a1');
    await failing;
    await loop(5);
    assert.deepEqual(begun, ['a1']);
    await end('a1');
    await next;
  });

  test('networks of one site share its turns and its bound', async () => {
    const { begun, bring, end, queue } = queueOf({ concurrency: 1, capacity: 6, perSite: 3 });
    const all = ['a:1', 'a:1', 'a:2', 'a:3', 'b', 'b'].map((client, i) => bring(client, `${client} ${i}`));
    assert.equal(queue.isFullFor(clientOf('a:4')), true);
    await refused('overloaded', bring('a:4', 'late'));
    for (let i = 0; i < all.length; i++) await end(begun[i] ?? '');
    await Promise.all(all);
    assert.deepEqual(begun, ['a:1 0', 'a:1 1', 'b 4', 'a:2 2', 'b 5', 'a:3 3']);
  });

  test('whoever has fewer takes the last place of whoever has most, when all are taken', async () => {
    const { begun, bring, end, queue } = queueOf({ concurrency: 1, capacity: 4, perSite: 4 });
    const first = bring('a', 'a0');
    const many = ['a1', 'a2', 'a3'].map((name) => bring('a', name));
    const last = refused('overloaded', bring('a', 'a4'));
    assert.equal(queue.isFullFor(clientOf('a')), true);
    const stranger = bring('b', 'b1');
    await last;
    assert.equal(queue.waiting, 4);
    for (let i = 0; i < 5; i++) await end(begun[i] ?? '');
    await Promise.all([first, ...many, stranger]);
    assert.deepEqual(begun, ['a0', 'a1', 'b1', 'a2', 'a3']);
  });

  test('a network with fewer takes the last place of the network that has most of its site', async () => {
    const { begun, bring, end } = queueOf({ concurrency: 1, capacity: 9, perSite: 3 });
    const kept = ['a:1 0', 'a:1 1', 'a:1 2'].map((name) => bring('a:1', name));
    const last = refused('overloaded', bring('a:1', 'a:1 3'));
    const neighbour = bring('a:2', 'a:2 4');
    await last;
    for (let i = 0; i < 4; i++) await end(begun[i] ?? '');
    await Promise.all([...kept, neighbour]);
    assert.deepEqual(begun, ['a:1 0', 'a:1 1', 'a:2 4', 'a:1 2']);
  });
});
