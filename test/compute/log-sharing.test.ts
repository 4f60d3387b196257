/** Readers of one log share one stream of the engine's, and each has every line once and in order, however it reads. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { LogRing } from '../../actors/compute/logs/ring.ts';
import { LogSharing, type LogStart } from '../../actors/compute/logs/sharing.ts';
import { EngineError, type LogOptions } from '../../proto/ports/engine.ts';
import { failOnLeaks } from '../support/leaks.ts';
import type { Cleanup } from '../support/temp.ts';
import { until } from '../support/until.ts';

failOnLeaks();

const stamp = (n: number) => `2026-01-31T12:00:00.${String(n).padStart(9, '0')}Z`;

/** An engine with one log. */
class OneLog {
  readonly lines: string[] = [];
  /** Streams that are open, and those that follow. */
  open = 0;
  following = 0;
  asked = 0;
  end: 'stopped' | 'broken' | undefined;
  readonly #waiting = new Set<() => void>();
  #count = 0;

  print(count: number, text = 'line'): void {
    for (let i = 0; i < count; i++) {
      this.#count++;
      // Every fifth comes after one with a later stamp, as those of the other output do.
      const at = this.#count % 5 === 0 ? this.#count * 100 - 150 : this.#count * 100;
      this.lines.push(`${stamp(at)} ${text} ${this.#count}`);
    }
    this.wake();
  }

  wake(): void {
    for (const wake of [...this.#waiting]) wake();
  }

  readonly logs = async function* (this: OneLog, _id: string, { tail, since, follow, signal }: LogOptions) {
    this.open++;
    this.asked++;
    if (follow) this.following++;
    try {
      await new Promise(setImmediate);
      const wanted = this.lines
        .map((line, at) => ({ line, at }))
        .filter(({ line }) => since === undefined || line > since);
      let at = wanted.at(-Math.min(tail, wanted.length) || wanted.length)?.at ?? this.lines.length;
      while (!signal.aborted) {
        if (at < this.lines.length) {
          const batch = this.lines.slice(at, at + 7);
          at += batch.length;
          yield batch;
        } else if (!follow || this.end === 'stopped') return;
        else if (this.end === 'broken') throw new EngineError('unavailable', 'down');
        else
          await new Promise<void>((resolve) => {
            const wake = () => {
              this.#waiting.delete(wake);
              resolve();
            };
            this.#waiting.add(wake);
            signal.addEventListener('abort', wake, { once: true });
          });
      }
    } finally {
      this.open--;
      if (follow) this.following--;
    }
  }.bind(this);
}

interface TestReader {
  readonly taken: string[];
  /** Takes nothing more until it is resumed. */
  pause(): void;
  resume(): void;
  leave(): Promise<void>;
  readonly ended: Promise<unknown>;
}

function reader(t: Cleanup, sharing: LogSharing, start: LogStart = { tail: 100 }): TestReader {
  const controller = new AbortController();
  const taken: string[] = [];
  let gate: Promise<void> | undefined;
  let open = () => {};
  const ended = (async () => {
    for await (const lines of sharing.read('one', start, controller.signal)) {
      taken.push(...lines);
      await gate;
    }
  })().catch((error: unknown) => error);
  const resume = () => {
    gate = undefined;
    open();
  };
  const leave = async () => {
    controller.abort();
    resume();
    await ended;
  };
  t.after(leave);
  return {
    ...{ taken, ended, leave, resume },
    pause: () => {
      gate = new Promise((resolve) => {
        open = resolve;
      });
    },
  };
}

const TIMES = { stallMs: 50, quietMs: 20, pauseMs: 0 };
const texts = (lines: readonly string[]) => lines.map((line) => line.slice(31));
const isOrdered = (lines: readonly string[]) => lines.every((line, i) => i === 0 || (lines[i - 1] ?? '') < line);

describe('readers of one log', () => {
  test('have one follower of the engine in the end, wherever they began, and every line once', async (t) => {
    const engine = new OneLog();
    const sharing = new LogSharing(engine, TIMES);
    engine.print(30);
    const first = reader(t, sharing);
    await until(() => first.taken.length === 30, { what: 'the first has all' });
    assert.equal(engine.asked, 1);
    const starts: LogStart[] = [
      { tail: 100 },
      { tail: 3 },
      { tail: 0 },
      { tail: Number.POSITIVE_INFINITY, since: stamp(1000) },
      { tail: Number.POSITIVE_INFINITY, since: '2026-01-31T13:00:00Z' },
    ];
    const many = Array.from({ length: 50 }, (_, i) => reader(t, sharing, starts[i % starts.length]));
    await until(() => engine.following === 1 && engine.open === 1, { what: 'they share one' });
    engine.print(100);
    const all = texts(engine.lines);
    await until(() => first.taken.length === 130, { what: 'the first has more' });
    const expected = [all, all.slice(27), all.slice(30)];
    for (const [i, one] of many.entries()) {
      if (i % 5 === 4) assert.deepEqual(one.taken, []);
      else if (i % 5 === 3) {
        await until(() => one.taken.length >= 119, { what: `reader ${i}` });
        assert.ok(one.taken.every((line) => line > stamp(1000)));
        assert.deepEqual(texts(one.taken), all.slice(-one.taken.length));
      } else {
        await until(() => one.taken.length === expected[i % 5]?.length, { what: `reader ${i}` });
        assert.deepEqual(texts(one.taken), expected[i % 5]);
      }
      assert.ok(isOrdered(one.taken));
    }
    assert.equal(engine.following, 1);
    // The same stamps as a reader alone is given.
    assert.deepEqual(many[0]?.taken, first.taken);
    for (const one of many) await one.leave();
    await first.leave();
    await until(() => engine.open === 0, { what: 'nothing is left with the engine' });
  });

  test('of a log that has nothing yet share it as well', async (t) => {
    const engine = new OneLog();
    const sharing = new LogSharing(engine, TIMES);
    const readers = Array.from({ length: 10 }, () => reader(t, sharing));
    await until(() => engine.following === 1 && engine.open === 1, { what: 'they share one' });
    engine.print(20);
    for (const one of readers) {
      await until(() => one.taken.length === 20, { what: 'all lines' });
      assert.deepEqual(texts(one.taken), texts(engine.lines));
    }
  });

  test('do not wait for a slower one, who holds nothing at the engine and misses nothing', async (t) => {
    const engine = new OneLog();
    const sharing = new LogSharing(engine, TIMES);
    engine.print(10);
    const [fast, slow, slow2] = [reader(t, sharing), reader(t, sharing), reader(t, sharing, { tail: 0 })];
    await until(() => engine.open === 1, { what: 'they share one' });
    slow.pause();
    slow2.pause();
    engine.print(5);
    await until(() => slow.taken.length > 10 && slow2.taken.length > 0, { what: 'they have begun' });
    // Far more than is kept for them.
    for (let i = 0; i < 6; i++) {
      engine.print(1000);
      await until(() => fast.taken.length === 15 + 1000 * (i + 1), { what: 'the fast one has all' });
    }
    assert.equal(engine.open, 1);
    slow.resume();
    slow2.resume();
    await until(() => slow.taken.length >= 6015 && slow2.taken.length >= 6005, { what: 'the slow ones have all' });
    engine.print(1, 'last');
    await until(() => [fast, slow, slow2].every(({ taken }) => taken.at(-1)?.includes('last')), {
      what: 'the last line',
    });
    assert.deepEqual(slow.taken, fast.taken);
    assert.deepEqual(texts(slow2.taken), texts(engine.lines).slice(10));
    await until(() => engine.open === 1, { what: 'they share one again' });
  });

  test('who stall on streams of their own give them back, and go on where they were', async (t) => {
    const engine = new OneLog();
    const sharing = new LogSharing(engine, TIMES);
    engine.print(5000);
    const readers = Array.from({ length: 8 }, () => reader(t, sharing, { tail: Number.POSITIVE_INFINITY }));
    for (const one of readers) one.pause();
    await until(() => readers.every(({ taken }) => taken.length > 0) && engine.open <= 1, { what: 'nobody holds one' });
    for (const one of readers) one.resume();
    for (const one of readers) {
      await until(() => one.taken.length === 5000, { what: 'all lines' });
      assert.deepEqual(texts(one.taken), texts(engine.lines));
    }
  });

  test('end with the log; when the shared stream breaks each is told by the engine', async (t) => {
    for (const end of ['stopped', 'broken'] as const) {
      const engine = new OneLog();
      const sharing = new LogSharing(engine, TIMES);
      engine.print(3);
      const readers = [reader(t, sharing), reader(t, sharing)];
      await until(() => engine.open === 1, { what: 'they share one' });
      engine.end = end;
      engine.print(2);
      for (const one of readers) {
        const how = await one.ended;
        assert.equal(how instanceof EngineError ? how.code : how, end === 'broken' ? 'unavailable' : undefined);
        assert.deepEqual(texts(one.taken), texts(engine.lines));
      }
      assert.equal(engine.open, 0);
    }
  });
});

test('a place in a log is told by the lines before it, if there is only one such', () => {
  const ring = new LogRing();
  ring.push(['a', 'b', 'a', 'c']);
  assert.equal(ring.behind(['x', 'b']), undefined);
  assert.equal(ring.behind(['b']), 2);
  assert.equal(ring.behind(['a']), undefined);
  // What came before the oldest is not known.
  assert.equal(ring.behind(['b', 'a']), undefined);
  assert.equal(ring.behind(['a', 'b']), 2);
  assert.equal(ring.behind(['older', 'than', 'a', 'b']), 2);
  assert.equal(ring.behind([]), undefined);
  ring.push(Array.from({ length: 3000 }, (_, i) => `${i}`));
  assert.equal(ring.first, 1004);
  assert.deepEqual(ring.from(ring.first, 2), ['1000', '1001']);
  assert.equal(ring.behind(['c']), undefined);
  const large = new LogRing();
  large.push(['x'.repeat(20_000), 'y'.repeat(1_100_000)]);
  assert.equal(large.first, 1);
  assert.equal(large.behind(['y'.repeat(1_100_000)]), undefined);
});
