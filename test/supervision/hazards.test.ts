/** What actors do to themselves and to each other. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ActorError, dispatch, query, type Ref, spawn, stats } from '../../supervision/index.ts';
import { rejectsWith, until, withSystem } from '../support/supervision/system.ts';

interface Ask {
  readonly replyTo: Ref<string>;
}

test('a million messages to one that does not read them: it keeps its bound, and others are answered meanwhile', () =>
  withSystem(async (system) => {
    const FLOOD = 1_000_000;
    const CAPACITY = 1000;
    let release: () => void = () => {};
    const gate = new Promise<void>((resolve) => {
      release = resolve;
    });
    let handled = 0;
    const flooded = spawn<undefined, number>(
      system,
      async () => {
        handled += 1;
        await gate;
        return undefined;
      },
      { kind: 'flooded', mailbox: { capacity: CAPACITY, policy: 'drop-newest' } },
    );
    const other = spawn<undefined, Ask>(system, (_, { replyTo }) => {
      dispatch(replyTo, 'here');
      return undefined;
    });
    for (let n = 0; n < FLOOD; n++) dispatch(flooded, n);
    assert.equal(await query(other, (replyTo: Ref<string>) => ({ replyTo }), 60_000), 'here');
    const { depth = 0 } = stats(system).kinds.flooded ?? {};
    assert.ok(depth <= CAPACITY, `${depth} messages wait`);
    release();
    await until(() => stats(system).kinds.flooded?.depth === 0, 'the mailbox is empty');
    assert.ok(handled >= CAPACITY && handled <= CAPACITY + 1, `${handled} were handled`);
    assert.equal(stats(system).kinds.flooded?.dropped, FLOOD - handled);
  }));

test('two actors that ask each other in a circle both hear timeout, and go on', () =>
  withSystem(async (system) => {
    type Message =
      | { readonly type: 'ask'; readonly replyTo: Ref<string> }
      | { readonly type: 'circle'; readonly replyTo: Ref<string> };
    const peers: Ref<Message>[] = [];
    const actor = (own: number) =>
      spawn<undefined, Message>(system, async (_, message) => {
        if (message.type === 'ask') {
          dispatch(message.replyTo, 'here');
          return undefined;
        }
        const peer = peers[1 - own];
        assert.ok(peer);
        const answer = await query(peer, (replyTo: Ref<string>) => ({ type: 'circle', replyTo }) as const, 100).catch(
          (error: unknown) => (error instanceof ActorError ? error.code : 'another error'),
        );
        dispatch(message.replyTo, answer);
        return undefined;
      });
    peers.push(actor(0), actor(1));
    const [first, second] = peers;
    assert.ok(first && second);
    const both = await Promise.all(
      [first, second].map((peer) =>
        query(peer, (replyTo: Ref<string>) => ({ type: 'circle', replyTo }) as const, 60_000),
      ),
    );
    assert.deepEqual(both, ['timeout', 'timeout']);
    for (const peer of peers) {
      assert.equal(await query(peer, (replyTo: Ref<string>) => ({ type: 'ask', replyTo }) as const, 60_000), 'here');
    }
  }));

test('a handler that never resolves holds up its own actor only', () =>
  withSystem(async (system) => {
    const stuck = spawn<undefined, Ask>(system, () => new Promise<undefined>(() => {}), { shutdownMs: 20 });
    const other = spawn<undefined, Ask>(system, (_, { replyTo }) => {
      dispatch(replyTo, 'here');
      return undefined;
    });
    const make = (replyTo: Ref<string>) => ({ replyTo });
    const waiting = [rejectsWith(query(stuck, make, 50), 'timeout'), rejectsWith(query(stuck, make, 50), 'timeout')];
    assert.equal(await query(other, make, 60_000), 'here');
    await Promise.all(waiting);
  }));
