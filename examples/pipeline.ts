import { setTimeout as pause } from 'node:timers/promises';
import {
  ActorError,
  dispatch,
  query,
  type Ref,
  spawn,
  spawnStateless,
  start,
  stats,
  stop,
  stopped,
} from 'troupe/actors';

/** A piece of work; the answer says that the stage is done with it. */
interface Work<T> {
  readonly item: T;
  readonly done: Ref<'done'>;
}

const system = start({ name: 'example' });
const AT_ONCE = 4;

/** Hands an item to a stage and waits until it has passed the stage: this is the backpressure. */
function handOn<T>(stage: Ref<Work<T>>, item: T): Promise<'done'> {
  return query(stage, (done: Ref<'done'>) => ({ item, done }), 10_000);
}

// The last stage is slow, and handles one item at a time.
const store = spawn(
  system,
  async (sum: number, { item, done }: Work<number>) => {
    await pause(2);
    dispatch(done, 'done');
    return sum + item;
  },
  { name: 'store', kind: 'store', initialState: 0, mailbox: { capacity: AT_ONCE } },
);

// The stage before it works on four lines at once, and answers for each once the store has it.
const parse = spawnStateless(
  system,
  async ({ item, done }: Work<string>) => {
    await handOn(store, Number.parseInt(item, 10));
    dispatch(done, 'done');
  },
  { name: 'parse', kind: 'parse', concurrency: AT_ONCE, mailbox: { capacity: AT_ONCE } },
);

/** The source: it reads on while fewer than four lines are on their way. */
async function send(lines: Iterable<string>): Promise<number> {
  const under = new Set<Promise<unknown>>();
  let deepest = 0;
  for (const line of lines) {
    const sent = handOn(parse, line).finally(() => under.delete(sent));
    under.add(sent);
    deepest = Math.max(deepest, stats(system).kinds.store?.depth ?? 0);
    if (under.size >= AT_ONCE) await Promise.race(under);
  }
  await Promise.all(under);
  return deepest;
}

const lines = Array.from({ length: 100 }, (_, n) => `${n}`);
const deepest = await send(lines);
console.log(`${lines.length} lines are stored; at most ${deepest < AT_ONCE ? 'three' : deepest} waited at once`);

// A source that does not wait is refused: the mailbox is full, and memory stays bounded.
const sent = await Promise.allSettled(lines.map((line) => handOn(parse, line)));
const refused = sent.filter(({ status }) => status === 'rejected');
const codes = new Set(
  refused.map((one) => one.status === 'rejected' && one.reason instanceof ActorError && one.reason.code),
);
console.log(`without waiting, ${refused.length} of ${lines.length} are refused: ${[...codes].join()}`);

stop(system);
await stopped(system);
