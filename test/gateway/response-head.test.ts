/** Heads of responses from origins (RFC 9112, sections 4 and 6.3): what is doubtful is a bad gateway. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type ResponseHead, readResponseHead } from '../../transports/gateway/h1/response-head.ts';

const head = (...lines: string[]) => `${lines.join('\r\n')}\r\n\r\n`;
function accepted(text: string, method = 'GET'): ResponseHead {
  const result = readResponseHead(text, method);
  if (typeof result === 'string') assert.fail(`${JSON.stringify(text)}: ${result}`);
  return result;
}
const refused = (...texts: string[]) => {
  for (const text of texts) assert.equal(typeof readResponseHead(text, 'GET'), 'string', JSON.stringify(text));
};

describe('the status line', () => {
  test('is version, three digits and a reason that may be empty or absent', () => {
    for (const [line, status, reason] of [
      ['HTTP/1.1 200 OK', 200, 'OK'],
      ['HTTP/1.0 404 Not Found at all', 404, 'Not Found at all'],
      ['HTTP/1.1 599 ', 599, ''],
      ['HTTP/1.1 204', 204, ''],
      ['HTTP/1.1 200 Sch\xf6n', 200, 'Sch\xf6n'],
    ] as const) {
      const read = accepted(head(line));
      assert.deepEqual([read.status, read.reason], [status, reason]);
    }
  });

  test('that is anything else is refused', () => {
    for (const line of [
      'HTTP/2 200 OK',
      'HTTP/1.1 20 OK',
      'HTTP/1.1 2000 OK',
      'HTTP/1.1 600 x',
      'HTTP/1.1 099 x',
      'HTTP/1.1  200 OK',
      ' HTTP/1.1 200 OK',
      'ICY 200 OK',
      'HTTP/1.1 2x0 OK',
      'HTTP/1.1',
      '',
      '200 OK',
    ])
      refused(head(line, 'Content-Length: 0'));
    refused(
      'HTTP/1.1 200 OK\nContent-Length: 0\n\n',
      head('HTTP/1.1 200 a\0b'),
      head('HTTP/1.1 200 OK', 'HTTP/1.1 200 OK'),
    );
  });
});

describe('framing (RFC 9112, section 6.3)', () => {
  test('follows the fields, else the end of the connection', () => {
    assert.deepEqual(accepted(head('HTTP/1.1 200 OK', 'Content-Length: 7')).framing, { kind: 'length', length: 7 });
    assert.deepEqual(accepted(head('HTTP/1.1 200 OK', 'Transfer-Encoding: chunked')).framing, { kind: 'chunked' });
    const read = accepted(head('HTTP/1.1 200 OK', 'Connection: keep-alive'));
    assert.deepEqual([read.framing, read.keepAlive], [{ kind: 'until_close' }, false]);
  });

  test('is nothing for HEAD, 1xx, 204 and 304, whatever the fields say', () => {
    const fields = ['Content-Length: 7'];
    assert.deepEqual(accepted(head('HTTP/1.1 200 OK', ...fields), 'HEAD').framing, { kind: 'none' });
    for (const status of [100, 101, 103, 204, 304])
      assert.deepEqual(accepted(head(`HTTP/1.1 ${status} x`, ...fields)).framing, { kind: 'none' });
  });

  test('that can be read in two ways is refused', () => {
    for (const fields of [
      ['Content-Length: 5', 'Transfer-Encoding: chunked'],
      ['Content-Length: 5', 'Content-Length: 5'],
      ['Content-Length: 5, 5'],
      ['Content-Length: -1'],
      ['Transfer-Encoding: gzip'],
      ['Transfer-Encoding: chunked', 'Transfer-Encoding: chunked'],
      ['X: a', ' folded'],
      ['X : a'],
      ['no colon'],
    ])
      refused(head('HTTP/1.1 200 OK', ...fields));
    refused(head('HTTP/1.0 200 OK', 'Transfer-Encoding: chunked'));
    const many = (length: number) => head('HTTP/1.1 200 OK', ...Array.from({ length }, (_, i) => `X-${i}: y`));
    accepted(many(1000));
    refused(many(1001));
  });
});

test('the connection is kept when both versions allow it', () => {
  const length = 'Content-Length: 0';
  assert.equal(accepted(head('HTTP/1.1 200 OK', length)).keepAlive, true);
  assert.equal(accepted(head('HTTP/1.1 200 OK', length, 'Connection: Close')).keepAlive, false);
  assert.equal(accepted(head('HTTP/1.0 200 OK', length)).keepAlive, false);
  assert.equal(accepted(head('HTTP/1.0 200 OK', length, 'Connection: keep-alive')).keepAlive, true);
  assert.deepEqual(accepted(head('HTTP/1.1 101 x', 'Connection: Upgrade', 'Upgrade: WebSocket')).upgrade, [
    'websocket',
  ]);
});
