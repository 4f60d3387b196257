import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { LogCursor, normalStamp } from '../../actors/compute/logs/cursor.ts';

const BASE = 1_790_000_000n * 1_000_000_000n;

/** The stamp of so many nanoseconds after a fixed time. */
function at(nanos: number): string {
  const time = BASE + BigInt(nanos);
  return normalStamp(
    `${new Date(Number(time / 1_000_000n)).toISOString().slice(0, 19)}.${String(time % 1_000_000_000n).padStart(9, '0')}Z`,
  );
}

/** What a reader who is at `since` gets of a log. */
function read(lines: readonly string[], since?: string): string[] {
  const cursor = new LogCursor(since);
  return lines.flatMap((line) => cursor.take(line) ?? []);
}

const stampOf = (line: string | undefined) => line?.split(' ')[0];
const textOf = (line: string) => line.slice(line.indexOf(' ') + 1);

describe('the place in a log', () => {
  test('is found again wherever a reader stopped, whatever the stamps: each line once, in order', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: -30, max: 40 }), { minLength: 1, maxLength: 60 }),
        fc.array(fc.nat(60), { maxLength: 8 }),
        (steps, stops) => {
          let time = 1_000_000;
          const lines = steps.map((step, i) => {
            time += step; // The engine's clock stands still and goes back.
            return `${at(time)} line ${i}`;
          });
          const got: string[] = [];
          for (const stop of [...stops, lines.length]) got.push(...read(lines, stampOf(got.at(-1))).slice(0, stop));
          got.push(...read(lines, stampOf(got.at(-1))));
          assert.deepEqual(got.map(textOf), lines.map(textOf));
          for (let i = 1; i < got.length; i++) assert.ok((stampOf(got[i]) ?? '') > (stampOf(got[i - 1]) ?? ''));
        },
      ),
    );
  });

  test('is not moved by lines that the engine sends once more, wherever it does', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: -30, max: 40 }), { minLength: 2, maxLength: 60 }),
        fc.nat(60),
        fc.integer({ min: 1, max: 40 }),
        (steps, where, many) => {
          let time = 1_000_000;
          const lines = steps.map((step, i) => {
            time += step;
            return `${at(time)} line ${i}`;
          });
          const cut = Math.max(2, Math.min(where, lines.length));
          // It repeats the end of a file, in which the latest line is the last.
          const end = lines.slice(0, cut);
          const last = `${at(2_000_000)} the last of its file`;
          const again = [...end, last].slice(-many);
          const whole = [...end, last, ...lines.slice(cut)];
          assert.deepEqual(read([...end, last, ...again, ...lines.slice(cut)]), read(whole));
        },
      ),
    );
  });

  test('passes on equal lines that were printed again, and equal pieces of a line', () => {
    const lines = [`${at(0)} tick`, `${at(1)} tick`, `${at(5)} tick`, `${at(6)} tock`, `${at(7)} tick`];
    assert.deepEqual(read(lines).map(textOf), lines.map(textOf));
    const piece = 'x'.repeat(16_384);
    const pieces = [`${at(10)} ${piece}`, `${at(11)} other`, `${at(10)} ${piece}`, `${at(10)} end`];
    assert.deepEqual(read(pieces).map(textOf), pieces.map(textOf));
  });

  test('leaves the stamps of an orderly log as they are', () => {
    const lines = [0, 1, 1_000_000_000].map((nanos) => `${at(nanos)} a line`);
    assert.deepEqual(read(lines), lines);
    assert.deepEqual(read(lines, at(0)), lines.slice(1));
    assert.deepEqual(read(lines, at(2)), lines.slice(2));
    assert.deepEqual(read(lines, at(1_000_000_000)), []);
  });

  test('gives what shares a stamp, or has none, the next nanosecond, over the second if need be', () => {
    const last = `${at(0).slice(0, 20)}999999999Z`;
    const lines = [`${last} one`, `${last} two`, ' three', ' four', `${last.slice(0, 10)} five`];
    const got = read(lines);
    assert.deepEqual(got.map(textOf), ['one', 'two', 'three', 'four', 'five']);
    assert.deepEqual(got.slice(0, 3).map(stampOf), [last, at(1_000_000_000), at(1_000_000_001)]);
    assert.deepEqual(read(['no stamp']), ['no stamp']);
  });

  test('is the same in any notation of the time', () => {
    for (const same of [
      '2026-01-31T12:00:00.5Z',
      '2026-01-31t12:00:00.500000000z',
      '2026-01-31T13:00:00.50+01:00',
      '2026-01-31T06:30:00.5000-05:30',
    ])
      assert.equal(normalStamp(same), '2026-01-31T12:00:00.500000000Z');
    assert.equal(normalStamp('1969-12-31T23:59:59.25Z'), '1969-12-31T23:59:59.250000000Z');
  });

  test('asks the engine to begin a minute before, and stays within the years of four digits', () => {
    assert.equal(new LogCursor().engineSince, undefined);
    assert.equal(new LogCursor('2026-01-31T12:00:30.7Z').engineSince, '2026-01-31T11:59:30.000000000Z');
    assert.equal(new LogCursor('0000-01-01T00:00:00Z').engineSince, '0000-01-01T00:00:00.000000000Z');
    assert.equal(new LogCursor('9999-12-31T23:59:59-23:00').engineSince, '9999-12-31T23:58:59.000000000Z');
  });
});
