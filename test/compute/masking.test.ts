/** What a container printed, without its secrets. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { shownLines } from '../../actors/compute/container/evidence.ts';
import { linesWithoutSecrets, withoutSecrets } from '../../actors/compute/container/masking.ts';
import { MAX_LINE_BYTES } from '../../proto/ports/engine.ts';
import { LineAssembler } from '../../transports/engines/common/log-lines.ts';

test('the values of secrets are masked wherever they are, the longest first', () => {
  assert.equal(withoutSecrets('a hunter2x and hunter2.', ['hunter2', 'hunter2x']), 'a *** and ***.');
  assert.equal(withoutSecrets('nothing here', []), 'nothing here');
});

test('short values stay, or nothing could be read', () => {
  assert.equal(withoutSecrets('port 1 of 12', ['1', '12', '', 'no']), 'port 1 of 12');
});

test('of a value with several lines each is masked', () => {
  const key = '-----BEGIN KEY-----\r\nabcdef\n-----END KEY-----\n';
  assert.equal(withoutSecrets('x abcdef y -----END KEY-----', [key]), 'x *** y ***');
});

test('the beginning of one at the end of a text that was cut is masked, too', () => {
  assert.equal(withoutSecrets('say hunte', ['hunter2'], true), 'say ***');
  assert.equal(withoutSecrets('say hunte', ['hunter2']), 'say hunte');
  assert.equal(withoutSecrets('say hun', ['hunter2'], true), 'say hun');
});

const stampOf = (second: number) => `2026-11-27T12:00:0${second}.000000000Z`;
/** A log as engines cut it. */
function logOf(...texts: readonly string[]): string[] {
  const [lines, output] = [[] as string[], new LineAssembler()];
  const text = texts.map((each, at) => `${stampOf(at)} ${each}\n`).join('');
  output.push(Buffer.from(text), (line) => lines.push(line));
  return lines;
}

test('a value that stands where a long line was cut is masked, wherever it was', () => {
  const secret = 'hunter2-and-more';
  for (let at = 0; at <= secret.length; at++) {
    const before = 'x'.repeat(MAX_LINE_BYTES - at);
    const lines = logOf('a', `${before}${secret} y`, 'b');
    assert.equal(lines.length, 4);
    const [first, middle, ...rest] = linesWithoutSecrets(lines, [secret]);
    assert.equal(first, `${stampOf(0)} a`);
    assert.ok(middle === `${stampOf(1)} ${before}*** y`, `${at}`);
    assert.deepEqual(rest, [`${stampOf(2)} b`]);
  }
  const shown = shownLines(logOf(`${'x'.repeat(MAX_LINE_BYTES - 8)}${secret}`), [secret]);
  assert.deepEqual([shown.length, shown[0]?.endsWith('x***'), shown[0]?.includes('more')], [1, true, false]);
  // A line of the other output may stand between, and a value may be longer than a piece.
  const long = 'hunter2'.repeat(20_000);
  const lines = logOf('a', `é${long} y`, 'b');
  lines.splice(2, 0, `${stampOf(5)} other`);
  assert.deepEqual(linesWithoutSecrets(lines, [long]), [
    `${stampOf(0)} a`,
    `${stampOf(1)} é*** y`,
    `${stampOf(5)} other`,
    `${stampOf(2)} b`,
  ]);
});

test('what is left of a value where a log begins, and where it ends, is masked', () => {
  const lines = [`${stampOf(0)} er2 and more`, `${stampOf(1)} nter2`, `${stampOf(2)} say hunte`];
  assert.deepEqual(linesWithoutSecrets(lines.slice(1), ['hunter2']), [`${stampOf(1)} ***`, `${stampOf(2)} say ***`]);
  assert.deepEqual(linesWithoutSecrets(lines, ['hunter2'])[1], lines[1]);
  assert.deepEqual(linesWithoutSecrets([], ['hunter2']), []);
});
