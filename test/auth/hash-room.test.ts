import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { HashRoom } from '../../actors/auth/login/hash-room.ts';
import { turns as loop, refused } from '../support/service/compute.ts';

/** Work that ends when told to, in a room; notes what began. */
function world(options: { seats: number; capacity: number; perLane: number }) {
  const room = new HashRoom(options);
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  const bring = (lane: string, name: string) =>
    room.run(lane, async () => {
      begun.push(name);
      await new Promise<void>((resolve) => ends.set(name, resolve));
      return name;
    });
  const end = async (name: string) => {
    ends.get(name)?.();
    await loop(5);
  };
  return { room, begun, bring, end };
}

describe('the room where hashes wait', () => {
  test('works on as many as there are seats, and lanes take turns', async () => {
    const { begun, bring, end, room } = world({ seats: 2, capacity: 100, perLane: 100 });
    const all = ['a1', 'a2', 'a3', 'a4', 'b1', 'b2', 'c1'].map((name) => bring(name.slice(0, 1), name));
    await loop(5);
    assert.deepEqual(begun, ['a1', 'a2']);
    for (let i = 0; i < all.length; i++) await end(begun[i] ?? '');
    assert.deepEqual(begun, ['a1', 'a2', 'a3', 'b1', 'c1', 'a4', 'b2']);
    assert.equal((await Promise.all(all)).length, 7);
    assert.equal(room.waiting, 0);
    assert.equal(room.full('a'), false);
  });

  test('refuses past its bound and past the bound of a lane, and lets others in meanwhile', async () => {
    const { begun, bring, end, room } = world({ seats: 1, capacity: 4, perLane: 2 });
    const all = ['a0', 'a1', 'a2'].map((name) => bring('a', name));
    assert.equal(room.full('a'), true);
    await refused('overloaded', bring('a', 'a3'));
    all.push(bring('b', 'b1'), bring('c', 'c1'));
    assert.equal(room.waiting, 4);
    await refused('overloaded', bring('d', 'd1'));
    for (let i = 0; i < all.length; i++) await end(begun[i] ?? '');
    await Promise.all(all);
    assert.deepEqual(begun, ['a0', 'a1', 'b1', 'c1', 'a2']);
  });

  test('gives the seat of work that failed to the next', async () => {
    const { begun, bring, end, room } = world({ seats: 1, capacity: 4, perLane: 4 });
    const failing = assert.rejects(
      room.run('a', async () => {
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
});
