/** Splitting the input anywhere never changes the outcome, and no input crashes a reader or makes it keep bytes without bound. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import {
  cut,
  MAX_HEAD,
  readChunks,
  readHeads,
  readHello,
  readProtocol,
  readRequest,
} from '../support/gateway/incremental-readers.ts';

const RUNS = 2000;
const places = fc.array(fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }), { maxLength: 8 });
const piecesOf = (...parts: string[]) =>
  fc
    .array(fc.oneof({ weight: 6, arbitrary: fc.constantFrom(...parts) }, fc.string({ maxLength: 4 })), {
      maxLength: 30,
    })
    .map((list) => Buffer.from(list.join(''), 'latin1'));

const heads = piecesOf(
  ...[
    'GET ',
    '/ ',
    'HTTP/1.1',
    '\r\n',
    '\r\n\r\n',
    'Host: a.test',
    'Content-Length: 5',
    'Transfer-Encoding: chunked',
    ': ',
    '\n',
    '\r',
    '\0',
    ' ',
    '\t',
  ],
  ...['HTTP/1.1 200 OK', 'Connection: close', 'x'.repeat(MAX_HEAD / 4)],
);
const requests = fc
  .tuple(fc.nat(3), heads)
  .map(([empty, rest]) =>
    Buffer.concat([Buffer.from(`${'\r\n'.repeat(empty)}GET /x HTTP/1.1\r\nHost: a.test\r\n`), rest]),
  );
const chunks = piecesOf(
  '0',
  '5',
  'a',
  '\r\n',
  'hello',
  '\r',
  '\n',
  ';a=b',
  '0\r\n\r\n',
  '5\r\nhello\r\n',
  'X: y\r\n',
  ' ',
);
const hellos = fc
  .array(
    fc.oneof(
      fc.constantFrom(
        [22, 3, 1, 0, 60],
        [1, 0, 0, 56],
        [3, 3],
        [0, 0, 0, 11, 0, 9, 0, 0, 6, 97, 46, 116, 101, 115, 116],
        [0, 16, 0, 3, 0, 1, 0],
      ),
      fc.array(fc.nat(255), { maxLength: 40 }),
    ),
    { maxLength: 8 },
  )
  .map((list) => Buffer.from(list.flat()));
const firsts = piecesOf('SSH-', 'S', 'SS', 'GET', ' ', '\x16', 'POST /', 'a');

describe('however the bytes are cut, the outcome is one', () => {
  for (const [what, inputs, read] of [
    ['heads', heads, readHeads],
    ['requests after empty lines', requests, readRequest],
    ['chunked bodies', chunks, readChunks],
    ['ClientHellos', hellos, readHello],
    ['first bytes', firsts, readProtocol],
  ] as const) {
    test(`of ${what}`, () => {
      fc.assert(
        fc.property(inputs, places, (bytes, fractions) => {
          const whole = read([bytes]);
          assert.equal(read(cut(bytes, fractions)), whole);
          assert.equal(read([...bytes].map((byte) => Buffer.of(byte))), whole);
          assert.notEqual(whole, 'unbounded');
        }),
        { numRuns: RUNS },
      );
    });
  }
});

test('a head is bounded, to the byte', () => {
  const head = (length: number) => {
    const start = 'GET / HTTP/1.1\r\nHost: a.test\r\nX: ';
    return Buffer.from(`${start}${'x'.repeat(length - start.length - 4)}\r\n\r\n`);
  };
  for (const fractions of [[], [0.5], [0.1, 0.2, 0.99]]) {
    assert.match(readHeads(cut(head(MAX_HEAD), fractions)), /^\[/);
    assert.equal(readHeads(cut(head(MAX_HEAD + 1), fractions)), 'too_large');
  }
  assert.equal(readHeads([Buffer.alloc(MAX_HEAD + 1, 0x61)]), 'too_large');
  assert.equal(readHeads([Buffer.alloc(MAX_HEAD, 0x61)]), 'incomplete');
});

test('the protocol is told by the first bytes', () => {
  for (const [text, protocol] of [
    ['SSH-2.0-OpenSSH', 'ssh'],
    ['\x16\x03\x01', 'tls'],
    ['GET / HTTP/1.1', 'http'],
    ['PROPFIND /', 'http'],
    ['M-SEARCH * ', 'http'],
    ['SSH', 'undecided'],
    ['SEARCH ', 'http'],
    ['G', 'undecided'],
    ['', 'undecided'],
    ['get / ', 'unknown'],
    [' GET', 'unknown'],
    ['\0', 'unknown'],
    ['\x80\x2e', 'unknown'],
    ['PROXY TCP4 ', 'http'],
    ['A'.repeat(40), 'unknown'],
    ['\r\n', 'unknown'],
  ] as const)
    assert.equal(readProtocol([Buffer.from(text, 'latin1')]), protocol, JSON.stringify(text));
});
