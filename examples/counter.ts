import { dispatch, query, type Ref, spawn, start, stop, stopped } from 'troupe/actors';

/** What the counter takes: the type of its ref, so nothing else compiles. */
type CounterMessage =
  | { readonly type: 'add'; readonly amount: number }
  | { readonly type: 'read'; readonly replyTo: Ref<number> };

const system = start({ name: 'example' });

const counter = spawn(
  system,
  (count: number, message: CounterMessage) => {
    switch (message.type) {
      case 'add':
        return count + message.amount;
      case 'read':
        dispatch(message.replyTo, count);
        return count;
    }
  },
  { name: 'counter', initialState: 0 },
);

// A tell: it does not wait.
dispatch(counter, { type: 'add', amount: 2 });
dispatch(counter, { type: 'add', amount: 3 });
// An ask: a reply, or an ActorError, within a second.
const count = await query(counter, (replyTo: Ref<number>): CounterMessage => ({ type: 'read', replyTo }), 1000);
console.log(`the count is ${count}`);

stop(system);
await stopped(system);
