/** Fields that came before are not read again: what a head means must not depend on what came before it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { KnownFields } from '../../transports/wire/h1/parse-cache.ts';
import { type RequestHead, readRequestHead } from '../../transports/wire/h1/request-head.ts';

let count = 0;
/** Fields that were never seen, of a length that others have, too. */
const fresh = () => `x-count: ${String(1e9 + count++)}\r\n`;

/** All that a head says, or why it is none; without the count. */
function meaning(text: string): unknown {
  const head = readRequestHead(text);
  if (!('method' in head)) return head;
  const fields = head.fields.map(({ name, value, line }) => (name === 'x-count' ? { name } : { name, value, line }));
  return { ...head, fields, hopByHop: [...head.hopByHop] };
}

function accepted(text: string): RequestHead {
  const head = readRequestHead(text);
  if (!('method' in head)) assert.fail(head.reason);
  return head;
}

const LINES = [
  ...[
    'GET / HTTP/1.1',
    'GET /a/b?c=d HTTP/1.1',
    'HEAD / HTTP/1.1',
    'POST /x HTTP/1.1',
    'OPTIONS * HTTP/1.1',
    'GET * HTTP/1.1',
  ],
  ...[
    'GET / HTTP/1.0',
    'GET / HTTP/1.2',
    'GET / HTTP/2.0',
    'GET / http/1.1',
    'GET / HTTP/1.1 ',
    'GET  / HTTP/1.1',
    'GET /',
  ],
  ...[
    'GET http://a.test/x HTTP/1.1',
    'GET http://b.test/x HTTP/1.1',
    'GET x HTTP/1.1',
    'CONNECT a.test:443 HTTP/1.1',
    'CONNECT / HTTP/1.1',
  ],
  ...[
    'GET /a"b HTTP/1.1',
    'GET /\x01 HTTP/1.1',
    'GET /\xe9 HTTP/1.1',
    'G(T / HTTP/1.1',
    'G\x00T / HTTP/1.1',
    ' GET / HTTP/1.1',
    '',
  ],
  ...['GET /\n HTTP/1.1', 'GET /\r HTTP/1.1', 'GET /a b HTTP/1.1', '\tGET / HTTP/1.1', `${'A'.repeat(32)} / HTTP/1.1`],
  ...[`${'A'.repeat(33)} / HTTP/1.1`, `GET /${'a'.repeat(8191)} HTTP/1.1`, `GET /${'a'.repeat(8192)} HTTP/1.1`],
];
const BLOCKS = [
  ...[
    'Host: a.test\r\n',
    'Host: A.Test.:80\r\nConnection: keep-alive, x-count\r\n',
    'Host: a.test\r\nConnection: close\r\n',
    '',
  ],
  ...[
    'Host: a.test\r\nHost: a.test\r\n',
    'Host: a b\r\n',
    'Host: a.test\r\nContent-Length: 3\r\n',
    'Host: a.test\r\nContent-Length: 0\r\n',
  ],
  ...[
    'Host: a.test\r\nTransfer-Encoding: chunked\r\n',
    'Host: a.test\r\nTransfer-Encoding: gzip\r\n',
    'Host: a.test\r\nExpect: 100-continue\r\n',
  ],
  ...[
    'Host: a.test\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\n',
    'Host: a.test\r\nX: \x7f\r\n',
    'Host: a.test\r\n folded\r\n',
  ],
];

test('each first line means the same before fields that are known and fields that are not', () => {
  for (const block of BLOCKS) {
    const known = `${block}${fresh()}\r\n`;
    for (let n = 0; n < 4; n++) readRequestHead(`GET / HTTP/1.1\r\n${known}`);
    for (const line of LINES) {
      const expected = meaning(`${line}\r\n${block}${fresh()}\r\n`);
      for (let n = 0; n < 3; n++) assert.deepEqual(meaning(`${line}\r\n${known}`), expected, `${line} ${block}`);
    }
  }
});

test('heads mean the same however often, and among whichever others, they come', () => {
  const part = fc.constantFrom(
    'Host: a.test',
    'Host: b.test',
    'Connection: close',
    'Accept: */*',
    'Cookie: a=1',
    'Cookie: a=2',
    'X: y\n',
    'X : y',
  );
  const heads = fc.record({
    line: fc.constantFrom(...LINES),
    fields: fc.array(part, { maxLength: 4 }),
  });
  fc.assert(
    fc.property(
      fc.array(heads, { minLength: 1, maxLength: 12 }),
      fc.array(fc.nat(11), { maxLength: 60 }),
      (all, order) => {
        const texts = all.map(({ line, fields }) => ({
          now: `${line}\r\n${fields.map((field) => `${field}\r\n`).join('')}`,
          expected: meaning(`${line}\r\n${fields.map((field) => `${field}\r\n`).join('')}${fresh()}\r\n`),
        }));
        const tail = fresh();
        for (const n of order) {
          const { now, expected } = texts[n % texts.length] ?? assert.fail();
          assert.deepEqual(meaning(`${now}${tail}\r\n`), expected);
        }
      },
    ),
    { numRuns: 300 },
  );
});

test('a known block is found by all of its text, and what comes once pushes nobody out', () => {
  const known = new KnownFields<string>();
  const read = (block: string) => block.toUpperCase();
  const block = `host: a.test\r\ncookie: ${'c'.repeat(400)}\r\n\r\n`;
  const line = 'GET / HTTP/1.1\r\n';
  known.saw(line + block, line.length, read);
  assert.equal(known.find(line + block, line.length), undefined, 'once is not again');
  known.saw(line + block, line.length, read);
  assert.equal(known.find(`another ${line}${block}`, `another ${line}`.length), block.toUpperCase());
  // One character of it, wherever: also where no sample is taken.
  for (let at = 0; at < block.length; at++) {
    const other = `${block.slice(0, at)}\x01${block.slice(at + 1)}`;
    assert.equal(known.find(other, 0), undefined, `${at}`);
  }
  assert.equal(known.find(block.slice(1), 0), undefined);
  for (let n = 0; n < 20_000; n++) known.saw(`host: a.test\r\nx: ${n}\r\n\r\n`, 0, read);
  assert.equal(known.find(block, 0), block.toUpperCase());
  const long = `x: ${'x'.repeat(3000)}\r\n\r\n`;
  for (let n = 0; n < 3; n++) known.saw(long, 0, read);
  assert.equal(known.find(long, 0), undefined);
});

test('requests with the same fields share them, so nobody may change them', () => {
  const text = `GET / HTTP/1.1\r\nHost: a.test\r\n${fresh()}\r\n`;
  const [, , third, fourth] = [1, 2, 3, 4].map(() => accepted(text));
  assert.equal(third?.fields, fourth?.fields);
  assert.notEqual(third, fourth);
});
