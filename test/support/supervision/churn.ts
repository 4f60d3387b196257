import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { dispatch, query, type Ref, type SystemRef, spawn, stop, stopped } from '../../../supervision/index.ts';

let gc: (() => void) | undefined;

/** Bytes of the heap in use after everything unreachable was collected. */
export function heapInUse(): number {
  if (gc === undefined) {
    setFlagsFromString('--expose-gc');
    gc = collector(runInNewContext('gc'));
  }
  gc();
  return process.memoryUsage().heapUsed;
}

type Message = number | { readonly replyTo: Ref<number> };
const BATCH = 5000;

/** Sends `count` messages to ten actors, each with an object in it, an ask after every batch. */
export async function manyMessages(system: SystemRef, count: number): Promise<void> {
  const actors = Array.from({ length: 10 }, () =>
    spawn<number, { readonly say: Message }>(
      system,
      (sum, { say }) => {
        if (typeof say === 'number') return sum + say;
        dispatch(say.replyTo, sum);
        return sum;
      },
      { initialState: 0 },
    ),
  );
  let heard = 0;
  for (let sent = 0; sent < count; sent += BATCH) {
    for (let i = 0; i < BATCH; i++) {
      const actor = actors[i % actors.length];
      if (actor !== undefined) dispatch(actor, { say: 1 });
    }
    const sums = await Promise.all(
      actors.map((actor) => query(actor, (replyTo: Ref<number>) => ({ say: { replyTo } }), 60_000)),
    );
    heard = sums.reduce((a, b) => a + b, 0);
  }
  if (heard !== count) throw new Error(`${count} messages were sent and ${heard} heard`);
  for (const actor of actors) stop(actor);
  await Promise.all(actors.map((actor) => stopped(actor)));
}

/** Makes and ends `count` actors, each with a name, a child, a watch, a timer and a message. */
export async function manyLives(system: SystemRef, count: number): Promise<void> {
  const done = { lived: 0, watched: 0 };
  const watcher = spawn<number, 'ended' | { readonly watch: Ref<string> }>(
    system,
    (ended, msg, ctx) => {
      if (msg === 'ended') return ended + 1;
      ctx.watch(msg.watch, () => 'ended');
      done.watched++;
      return ended;
    },
    { initialState: 0 },
  );
  for (let made = 0; made < count; made += 500) {
    const refs: Ref<string>[] = [];
    for (let i = 0; i < 500; i++) {
      const ref = spawn<undefined, string>(
        system,
        (_, _msg, ctx) => {
          spawn(ctx.self, () => undefined);
          ctx.after(60_000, 'never');
          done.lived++;
          return undefined;
        },
        { name: `life-${made + i}` },
      );
      dispatch(watcher, { watch: ref });
      dispatch(ref, 'live');
      refs.push(ref);
    }
    // Who is stopped before it has lived leaves a dead letter, and so does a watch too many: they would be counted.
    const all = made + refs.length;
    while (done.lived < all || done.watched < all) await new Promise((resolve) => setImmediate(resolve));
    for (const ref of refs) stop(ref);
    await Promise.all(refs.map((ref) => stopped(ref)));
  }
  stop(watcher);
  await stopped(watcher);
}

function collector(found: unknown): () => void {
  if (typeof found !== 'function') throw new TypeError('this engine has no gc to call');
  return () => void found();
}
