/** Chunked bodies (RFC 9112, section 7.1). */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { readChunks } from '../support/gateway/incremental-readers.ts';

const read = (text: string) => readChunks([Buffer.from(text, 'latin1')]);

describe('a chunked body', () => {
  test('is its chunks without their frame; what follows is left alone', () => {
    assert.equal(read('0\r\n\r\n'), 'done  0');
    assert.equal(read('5\r\nhello\r\n0\r\n\r\nGET /'), 'done hello 5');
    assert.equal(read('5\r\nhello\r\n1\r\n \r\nA\r\n0123456789\r\n0000\r\n\r\n'), 'done hello 0123456789 0');
    assert.equal(read('a\r\n\r\n\r\n\r\n\r\n\r\n\r\n0\r\n\r\n'), 'done \r\n\r\n\r\n\r\n\r\n 0');
  });

  test('may have extensions and trailers, which are dropped', () => {
    assert.equal(read('5;a=b;c="d e"\r\nhello\r\n0;x\r\nX: y\r\nZ: w\r\n\r\n'), 'done hello 0');
    assert.equal(read('5 ;a\r\nhello\r\n0\r\n\r\n'), 'done hello 0');
    assert.equal(read('0\r\nContent-Length: 9\r\nTransfer-Encoding: x\r\nHost: y\r\n\r\n'), 'done  0');
  });

  test('with a size that two readers may read in two ways is malformed', () => {
    for (const size of [
      '',
      '0x5',
      '+5',
      '-0',
      '-0x0',
      '5_0',
      ' 5',
      '\t5',
      '5 ',
      '5\t',
      'g',
      '5these-bytes',
      '5\0',
      '10000000000000000',
      'fffffffffffffffe',
      '00000000000005',
      '5,',
      '5\r',
    ])
      assert.equal(read(`${size}\r\nhello\r\n0\r\n\r\n`), 'malformed', JSON.stringify(size));
  });

  test('with a line that does not end in CRLF is malformed', () => {
    for (const text of [
      '5\nhello\r\n0\r\n\r\n',
      '5\r\nhello\n0\r\n\r\n',
      '5\r\nhelloX\r\n',
      '5\r\nhello\rX',
      '0\r\n\rX',
      '0\r\nXX\nY',
      '0\n\n',
      '5\rhello',
      '5;a\nb\r\nhello',
      '5;a\rb\r\n',
      '0\r\nX: y\n\r\n',
      '0\r\nX: y\rZ',
    ])
      assert.equal(read(text), 'malformed', JSON.stringify(text));
  });

  test('with endless extensions or trailers is malformed; a million small chunks are not', () => {
    assert.equal(read(`5;${'x'.repeat(2 ** 20)}`), 'malformed');
    assert.equal(read(`5${' '.repeat(1000)}`), 'malformed');
    assert.equal(read(`0\r\n${'X: y\r\n'.repeat(5000)}`), 'malformed');
    assert.match(read(`${'1\r\nx\r\n'.repeat(100_000)}0\r\n\r\n`), /^done x{100000} 0$/);
  });

  test('that is not over is waited for', () => {
    for (const text of [
      '',
      '5',
      '5\r',
      '5\r\n',
      '5\r\nhel',
      '5\r\nhello',
      '5\r\nhello\r',
      '0\r\n',
      '0\r\n\r',
      '0\r\nX',
    ])
      assert.match(read(text), /^more/, JSON.stringify(text));
  });
});
