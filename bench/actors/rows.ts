import { dispatch, spawn } from '../../supervision/index.ts';
import { type Engine, type EngineRef, type Handler, nact, our, ours } from './engines.ts';

/** One question: prepares in `system`, then gives what is timed; that resolves with how many units it did. */
export interface Row {
  readonly row: string;
  readonly unit: string;
  /** Units at scale 1. */
  readonly count: number;
  readonly prepare: (
    engine: Engine,
    system: EngineRef,
    count: number,
  ) => (() => Promise<number> | number) | Promise<() => Promise<number> | number>;
  /** Work of nact in this row beside `count`, when it differs from its scale; 0 when it could not end in our time. */
  readonly nactScale?: number;
  /** What the row is called in actors.erl. */
  readonly erlang?: string;
  /** The same question without the burden it is about, for ours: a peer named `unburdened`. */
  readonly unburdened?: Row['prepare'];
}

interface Countdown {
  readonly reached: Promise<void>;
  readonly done: () => void;
}

/** Resolves when `done` was called `times` times. */
function countdown(times: number): Countdown {
  let left = times;
  let resolve = (): void => {};
  const reached = new Promise<void>((settle) => {
    resolve = settle;
  });
  return {
    reached,
    done: () => {
      if (--left === 0) resolve();
    },
  };
}

/**
 * What stays from row to row: a countdown, and an actor of each engine that once had messages waiting. V8 forgets the
 * shape of objects, and throws away the code that knew it, when the last one is gone: each round would end with the
 * handlers being compiled anew, on the core that is measured. A process that does anything always has some.
 */
export const lasting: readonly unknown[] = [countdown(1), ...[ours, nact].map(lastingActor)];

function lastingActor(engine: Engine): EngineRef {
  const actor = engine.spawn(engine.start(), (state) => state);
  for (let i = 0; i < 1000; i++) engine.dispatch(actor, i);
  return actor;
}

const isAsk = (msg: unknown): msg is { readonly replyTo: EngineRef } =>
  typeof msg === 'object' && msg !== null && 'replyTo' in msg;

const ask = (replyTo: EngineRef): { readonly replyTo: EngineRef } => ({ replyTo });
const BATCH = 1000;
const FAN_OUT = 100_000;
const RING = 1000;

/** Sends each of 100,000 actors a message and waits for all, until `count` were sent. */
function fanOutOf(engine: Engine, system: EngineRef): (count: number) => Promise<number> {
  let end = countdown(FAN_OUT);
  // Under 100 parents: the question is about sending, the cost of many siblings has rows of its own.
  const parents = Array.from({ length: 100 }, () => engine.spawn(system, () => undefined));
  const leaves = Array.from({ length: FAN_OUT }, (_, i) => engine.spawn(parents[i % 100], () => end.done()));
  return async (count) => {
    for (let sent = 0; sent < count; sent += FAN_OUT) {
      end = countdown(FAN_OUT);
      for (const leaf of leaves) engine.dispatch(leaf, sent);
      await end.reached;
    }
    return count;
  };
}

/** Tells an actor with so many children `count` messages. */
function parentOf(children: number): Row['prepare'] {
  return (engine, system, count) => {
    let end = countdown(count);
    const parent = engine.spawn(system, () => end.done());
    const idle: Handler = (state) => state;
    for (let i = 0; i < children; i++) engine.spawn(parent, idle);
    return async () => {
      end = countdown(count);
      for (let i = 0; i < count; i++) engine.dispatch(parent, i);
      await end.reached;
      return count;
    };
  };
}

/** Tells 100 siblings `count` messages, beside a neighbour that crashes at its every message and is reset at once or not. */
function besideCrashes(crashing: boolean): Row['prepare'] {
  return (_engine, system, count) => {
    let end = countdown(1);
    let heard = 0;
    const siblings = Array.from({ length: 100 }, () =>
      spawn<undefined, number>(our(system), () => {
        if (++heard === count) end.done();
        else if (heard % BATCH === 0) setImmediate(feed);
        return undefined;
      }),
    );
    const feed = (): void => {
      for (let i = 0; i < BATCH; i++) {
        const sibling = siblings[i % siblings.length];
        if (sibling !== undefined) dispatch(sibling, i);
      }
    };
    if (crashing) {
      const neighbour = spawn<undefined, string>(
        our(system),
        () => {
          throw new Error('in a loop');
        },
        {
          onCrash: (msg, _error, ctx) => {
            dispatch(neighbour, msg ?? 'again');
            return ctx.reset;
          },
          intensity: { max: Number.MAX_SAFE_INTEGER, withinMs: 1 },
          backoff: { minMs: 1, maxMs: 10 },
        },
      );
      dispatch(neighbour, 'crash');
    }
    return async () => {
      end = countdown(1);
      heard = 0;
      feed();
      await end.reached;
      return count;
    };
  };
}

/** All questions, in the order they are asked. */
export const rows: readonly Row[] = [
  {
    row: 'tell to one actor, 1,000 at a time',
    erlang: 'tell_batches',
    unit: 'msg/s',
    count: 2_000_000,
    prepare: (engine, system, count) => async () => {
      let heard = 0;
      const end = countdown(1);
      const feed = (): void => {
        for (let i = 0; i < BATCH; i++) engine.dispatch(sink, i);
      };
      const sink = engine.spawn(system, () => {
        if (++heard === count) end.done();
        else if (heard % BATCH === 0) setImmediate(feed);
        return undefined;
      });
      feed();
      await end.reached;
      return count;
    },
  },
  {
    row: 'tell to one actor, all at once',
    erlang: 'tell',
    unit: 'msg/s',
    count: 1_000_000,
    prepare: (engine, system, count) => async () => {
      const end = countdown(count);
      const sink = engine.spawn(system, () => end.done());
      for (let i = 0; i < count; i++) engine.dispatch(sink, i);
      await end.reached;
      return count;
    },
  },
  {
    row: 'ask, 1,000 open',
    erlang: 'ask_open',
    unit: 'ask/s',
    count: 400_000,
    prepare: (engine, system, count) => {
      const echo = engine.spawn(system, (_, msg) => {
        if (isAsk(msg)) engine.dispatch(msg.replyTo, 1);
        return undefined;
      });
      return async () => {
        for (let sent = 0; sent < count; sent += BATCH) {
          await Promise.all(Array.from({ length: BATCH }, () => engine.query(echo, ask, 10_000)));
        }
        return count;
      };
    },
  },
  {
    row: 'ask, one after the other',
    erlang: 'ask',
    unit: 'ask/s',
    count: 200_000,
    prepare: (engine, system, count) => {
      const echo = engine.spawn(system, (_, msg) => {
        if (isAsk(msg)) engine.dispatch(msg.replyTo, 1);
        return undefined;
      });
      return async () => {
        for (let i = 0; i < count; i++) await engine.query(echo, ask, 10_000);
        return count;
      };
    },
  },
  {
    row: 'ping-pong',
    erlang: 'ping_pong',
    unit: 'msg/s',
    count: 2_000_000,
    prepare: (engine, system, count) => async () => {
      const end = countdown(1);
      const players: EngineRef[] = [];
      for (const other of [1, 0]) {
        players.push(
          engine.spawn(system, (_, left) => {
            if (typeof left === 'number' && left > 1) engine.dispatch(players[other], left - 1);
            else end.done();
            return undefined;
          }),
        );
      }
      engine.dispatch(players[0], count);
      await end.reached;
      return count;
    },
  },
  {
    row: 'ring of 1,000',
    erlang: 'ring',
    unit: 'msg/s',
    count: 2_000_000,
    prepare: (engine, system, count) => {
      let end = countdown(1);
      const ring: EngineRef[] = [];
      for (let i = 0; i < RING; i++) {
        ring.push(
          engine.spawn(system, (_, left) => {
            if (typeof left === 'number' && left > 1) engine.dispatch(ring[(i + 1) % RING], left - 1);
            else end.done();
            return undefined;
          }),
        );
      }
      return async () => {
        end = countdown(1);
        engine.dispatch(ring[0], count);
        await end.reached;
        return count;
      };
    },
  },
  {
    row: 'fan-out to 100,000',
    erlang: 'fan_out',
    unit: 'msg/s',
    count: 10 * FAN_OUT,
    nactScale: 0.2,
    prepare: async (engine, system, count) => {
      // The next row asks about the first message of each.
      const fanOut = fanOutOf(engine, system);
      await fanOut(FAN_OUT);
      return () => fanOut(count);
    },
  },
  {
    row: 'fan-out to 100,000 that never had a message',
    erlang: 'fan_out_first',
    unit: 'msg/s',
    count: FAN_OUT,
    nactScale: 1,
    prepare: (engine, system, count) => {
      const fanOut = fanOutOf(engine, system);
      return () => fanOut(count);
    },
  },
  {
    row: 'fan-out to 100,000, five times from the first message',
    erlang: 'fan_out_first',
    unit: 'msg/s',
    count: 5 * FAN_OUT,
    nactScale: 1,
    prepare: (engine, system, count) => {
      const fanOut = fanOutOf(engine, system);
      return () => fanOut(count);
    },
  },
  {
    row: 'spawn and stop',
    erlang: 'spawn_stop',
    unit: 'actor/s',
    count: 300_000,
    prepare: (engine, system, count) => () => {
      for (let i = 0; i < count; i++) engine.stop(engine.spawn(system, () => undefined));
      return count;
    },
  },
  {
    row: 'spawn under one parent',
    erlang: 'spawn',
    unit: 'actor/s',
    count: 200_000,
    prepare: (engine, system, count) => () => {
      for (let i = 0; i < count; i++) engine.spawn(system, () => undefined);
      return count;
    },
  },
  {
    row: 'message to a parent with 100,000 children',
    unit: 'msg/s',
    count: 1_000_000,
    nactScale: 0.000_02,
    prepare: parentOf(100_000),
  },
  {
    row: 'message to a parent with 1,000,000 children',
    unit: 'msg/s',
    count: 1_000_000,
    nactScale: 0,
    prepare: parentOf(1_000_000),
    unburdened: parentOf(0),
  },
  {
    row: '100 siblings beside a crash loop',
    unit: 'msg/s',
    count: 10_000_000,
    nactScale: 0,
    prepare: besideCrashes(true),
    unburdened: besideCrashes(false),
  },
];
