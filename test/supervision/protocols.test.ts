/** Wrong messages and replies do not compile: `npm run check:types` fails when one of the lines marked here does. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type AnyRef,
  dispatch,
  type Entities,
  query,
  type Ref,
  type SystemRef,
  spawn,
} from '../../supervision/index.ts';
import type { Cluster, PlacedKind } from '../../supervision/placement/index.ts';

type Count =
  | { readonly type: 'add'; readonly amount: number }
  | { readonly type: 'read'; readonly replyTo: Ref<number> };

const read = (replyTo: Ref<number>): Count => ({ type: 'read', replyTo });
const isNumber = (count: Promise<number>) => count;
const isText = (text: Promise<string>) => text;

/** Never called: only its types count. */
function localActors(system: SystemRef, counter: Ref<Count>, anybody: AnyRef): void {
  dispatch(counter, { type: 'add', amount: 1 });
  // @ts-expect-error no message of that type
  dispatch(counter, { type: 'drop' });
  // @ts-expect-error the amount is a number
  dispatch(counter, { type: 'add', amount: '1' });
  // @ts-expect-error whoever may be sent to is not known
  dispatch(anybody, { type: 'add', amount: 1 });
  void isNumber(query(counter, read, 1));
  // @ts-expect-error the reply is a number
  void isText(query(counter, read, 1));
  // @ts-expect-error the counter replies with a number
  void query(counter, (replyTo: Ref<string>) => ({ type: 'read', replyTo }), 1);
  spawn<number, Count>(system, (count, message) => {
    // @ts-expect-error the asker waits for a number
    if (message.type === 'read') dispatch(message.replyTo, 'many');
    return count;
  });
  // @ts-expect-error the next state is a number
  spawn<number, Count>(system, () => 'many');
}

/** Never called: entities of this process, and those of the cluster. */
function manyEntities(local: Entities<Count>, cluster: Cluster, kind: PlacedKind<Count>): void {
  for (const counters of [local, cluster.place(kind)]) {
    counters.tell('a', { type: 'add', amount: 1 });
    // @ts-expect-error no message of that type
    counters.tell('a', { type: 'drop' });
    void isNumber(counters.ask('a', read, 1));
    // @ts-expect-error the reply is a number
    void isText(counters.ask('a', read, 1));
    // @ts-expect-error the counter replies with a number
    void counters.ask('a', (replyTo: Ref<string>) => ({ type: 'read', replyTo }), 1);
  }
}

test('messages and replies of actors and entities have types', () => {
  assert.deepEqual([localActors.length, manyEntities.length], [3, 3]);
});
