/** Heads of requests, clause by clause (RFC 9110, RFC 9112). */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type RequestHead, readRequestHead } from '../../transports/wire/h1/request-head.ts';

const head = (...lines: string[]) => `${lines.join('\r\n')}\r\n\r\n`;
const get = (...fields: string[]) => head('GET / HTTP/1.1', 'Host: a.test', ...fields);
const post = (...fields: string[]) => head('POST / HTTP/1.1', 'Host: a.test', ...fields);

function accepted(text: string): RequestHead {
  const result = readRequestHead(text);
  if ('reason' in result) assert.fail(`${JSON.stringify(text)}: ${result.reason}`);
  return result;
}
function refused(status: number, ...texts: string[]): void {
  for (const text of texts) {
    const result = readRequestHead(text);
    assert.ok('reason' in result, `accepted: ${JSON.stringify(text.slice(0, 200))}`);
    assert.equal(result.status, status, `${JSON.stringify(text.slice(0, 200))}: ${result.reason}`);
  }
}

describe('the request line (RFC 9112, section 3)', () => {
  test('is method, target and version, one space between', () => {
    const { method, target, minor, host, keepAlive } = accepted(head('PATCH /a/b?c=d HTTP/1.1', 'Host: A.Test.'));
    assert.deepEqual([method, target, minor, host, keepAlive], ['PATCH', '/a/b?c=d', 1, 'a.test', true]);
    for (const line of [
      ...[
        'GET  / HTTP/1.1',
        'GET / HTTP/1.1 ',
        ' GET / HTTP/1.1',
        'GET / ',
        'GET /',
        'GET',
        '',
        '/ HTTP/1.1',
        'GET\t/\tHTTP/1.1',
      ],
      ...['GET / x HTTP/1.1', 'G"T / HTTP/1.1', 'G(T / HTTP/1.1', 'GÉT / HTTP/1.1', `${'A'.repeat(33)} / HTTP/1.1`],
    ])
      refused(400, head(line, 'Host: a.test'));
  });

  test('speaks HTTP/1.0 or HTTP/1.1 and says so in no other way', () => {
    assert.equal(accepted(head('GET / HTTP/1.0')).minor, 0);
    for (const version of ['HTTP/2.0', 'HTTP/0.9', 'HTTP/1.2', 'HTTP/9.9'])
      refused(505, head(`GET / ${version}`, 'Host: a.test'));
    for (const version of [
      'HTTP/1.32',
      'HTTP/4294967295.255',
      'http/1.1',
      'HTTP/1',
      'HTTP/1.',
      'HTTP/ 1.1',
      'HTTP1.1',
      'ICY/1.1',
      'HTTP/1.1x',
      'HTTP/01.1',
    ])
      refused(400, head(`GET / ${version}`, 'Host: a.test'));
    refused(400, 'GET / HTTP/\r\r1.1\r\nHost: a.test\r\n\r\n');
  });

  test('has a target of visible ASCII without a fragment; a long one is 414', () => {
    for (const target of [
      '/',
      '/a;b=c,d/..%2f?x=[1]&y={z}|^`',
      '/%00',
      '//',
      '/*',
      "/!$&'()*+,;=:@-._~",
      '/a?p=C:\\dir?\\',
    ])
      assert.equal(accepted(head(`GET ${target} HTTP/1.1`, 'Host: a.test')).target, target);
    for (const target of [
      '!',
      'a',
      '?x',
      '/a#b',
      '/ä',
      '/a\\b',
      '/a\\b?x',
      '/a?x\\#y',
      '/"',
      '/<a>',
      '/\x7f',
      '/\x00',
      'ftp://a.test/',
      'http:/a.test/',
      '*a',
    ])
      refused(400, head(`GET ${target} HTTP/1.1`, 'Host: a.test'));
    refused(414, head(`GET /${'a'.repeat(8192)} HTTP/1.1`, 'Host: a.test'));
    accepted(head(`GET /${'a'.repeat(8191)} HTTP/1.1`, 'Host: a.test'));
  });

  test('may have an absolute target that names the same host', () => {
    assert.equal(accepted(head('GET http://a.test/x?y HTTP/1.1', 'Host: a.test')).target, '/x?y');
    assert.equal(accepted(head('GET HTTP://A.TEST HTTP/1.1', 'Host: a.test')).target, '/');
    assert.equal(accepted(head('GET http://a.test?q HTTP/1.1', 'Host: a.test')).target, '/?q');
    refused(
      400,
      head('GET http://b.test/ HTTP/1.1', 'Host: a.test'),
      head('GET http://a.test:81/ HTTP/1.1', 'Host: a.test'),
    );
    refused(400, head('GET http://u@a.test/ HTTP/1.1', 'Host: a.test'), head('GET http:///x HTTP/1.1', 'Host: a.test'));
  });

  test('* is for OPTIONS, CONNECT is for nobody', () => {
    assert.equal(accepted(head('OPTIONS * HTTP/1.1', 'Host: a.test')).target, '*');
    refused(400, head('GET * HTTP/1.1', 'Host: a.test'));
    refused(501, head('CONNECT a.test:443 HTTP/1.1', 'Host: a.test'));
  });
});

describe('the host (RFC 9112, section 3.2)', () => {
  test('is there once in HTTP/1.1, and may be absent in HTTP/1.0', () => {
    refused(
      400,
      head('GET / HTTP/1.1'),
      head('GET / HTTP/1.1', 'Host: a.test', 'Host: a.test'),
      head('GET / HTTP/1.1', 'Host: a.test', 'host: b.test'),
    );
    refused(400, head('GET / HTTP/1.0', 'Host: a.test', 'Host: b.test'));
    assert.equal(accepted(head('GET / HTTP/1.0')).host, '');
  });

  test('is a name, an address, and a port that can be', () => {
    for (const [value, host, port] of [
      ['a.test', 'a.test', undefined],
      ['A.Test:8443', 'a.test', 8443],
      ['a.test.', 'a.test', undefined],
      // RFC 3986, section 3.2.3: a port may be empty.
      ['a.test:', 'a.test', undefined],
      ['192.0.2.1:80', '192.0.2.1', 80],
      ['[2001:DB8::1]:80', '[2001:db8::1]', 80],
      ['xn--bcher-kva.test', 'xn--bcher-kva.test', undefined],
      ['a_b.test', 'a_b.test', undefined],
    ] as const) {
      const read = accepted(head('GET / HTTP/1.1', `Host: ${value}`));
      assert.deepEqual([read.host, read.port], [host, port], value);
    }
    for (const value of [
      ...[
        '',
        ' ',
        'a.test:99999',
        'a.test:0',
        'a.test:8x',
        'u@a.test',
        'a.test/x',
        'a.test?x',
        'a..test',
        '.',
        '.a',
        '-a',
      ],
      ...[
        'a b',
        'a,b',
        'bücher.test',
        '[::1',
        '::1',
        '[::1%eth0]',
        '[]',
        'a.test:80:80',
        `${'a'.repeat(300)}.test`,
        'a\\b',
        '*',
      ],
    ])
      refused(400, head('GET / HTTP/1.1', `Host: ${value}`));
    refused(400, 'GET / HTTP/1.1\r\nHost: a\x00.b\r\n\r\n');
  });
});

describe('fields (RFC 9112, section 5)', () => {
  test('have a name, a colon at once, and a value without the blanks around it', () => {
    const { fields } = accepted(
      get('X-A:b', 'x-b: \t c d \t', 'X-Empty:', "!#$%&'*+-.^_`|~09: odd", 'X-Obs: \xe4\xff'),
    );
    assert.deepEqual(
      fields.map(({ name, value }) => [name, value]),
      [
        ['host', 'a.test'],
        ['x-a', 'b'],
        ['x-b', 'c d'],
        ['x-empty', ''],
        ["!#$%&'*+-.^_`|~09", 'odd'],
        ['x-obs', '\xe4\xff'],
      ],
    );
    assert.equal(fields[2]?.line, 'x-b: \t c d \t');
  });

  test('no blank before the colon or the first name, no name that is none', () => {
    refused(
      400,
      get('X-A : b'),
      get('X-A\t: b'),
      get(': b'),
      get('X A: b'),
      get('no colon'),
      get('X(A): b'),
      get('X\x80: b'),
      get('X@A: b'),
      get('[X]: b'),
    );
    refused(400, head('GET / HTTP/1.1', ' Host: a.test'), head('GET / HTTP/1.1', ' X: y', 'Host: a.test'));
  });

  test('no NUL, no bare CR, no bare LF, no other control character', () => {
    for (const value of ['a\0b', 'a\rb', 'a\nb', 'a\x0bb', 'a\x7fb', 'a\x1bb', '\x01'])
      refused(400, `GET / HTTP/1.1\r\nHost: a.test\r\nX: ${value}\r\n\r\n`);
    refused(
      400,
      'GET / HTTP/1.1\nHost: a.test\n\n',
      'GET / HTTP/1.1\r\nHost: a.test\r\n\rX',
      'GET / HTTP/1.1\r\nHost: a.test\rX: y\r\n\r\n',
    );
  });

  test('no folded lines', () => {
    for (const name of ['Transfer-Encoding', 'Host', 'Authorization', 'X'])
      refused(400, post(`${name}:`, ' chunked'), post(`${name}: a`, '\tb'));
  });

  test('are at most a hundred', () => {
    const many = (count: number) => get(...Array.from({ length: count }, (_, i) => `X-${i}: y`));
    accepted(many(99));
    refused(431, many(100), many(10_000));
  });
});

describe('framing (RFC 9112, section 6)', () => {
  test('is nothing, a length, or chunks', () => {
    assert.deepEqual(accepted(post()).framing, { kind: 'none' });
    assert.deepEqual(accepted(post('Content-Length: 0')).framing, { kind: 'length', length: 0 });
    assert.deepEqual(accepted(post('content-length:  48 ')).framing, { kind: 'length', length: 48 });
    assert.deepEqual(accepted(post('Transfer-Encoding: chunked')).framing, { kind: 'chunked' });
    assert.deepEqual(accepted(post('TRANSFER-ENCODING: Chunked')).framing, { kind: 'chunked' });
  });

  test('never a length beside a coding', () => {
    refused(
      400,
      post('Content-Length: 5', 'Transfer-Encoding: chunked'),
      post('Transfer-Encoding: chunked', 'Content-Length: 5'),
      post('Transfer-Encoding: x', 'Content-Length: 5'),
    );
  });

  test('no coding but chunked, once', () => {
    for (const value of [
      ',chunked',
      'chunked,chunked',
      'chunked, chunked',
      'xchunked',
      'chunked, gzip',
      'gzip',
      'chunked,identity',
      'identity',
      'chunked;q=1',
      '"chunked"',
      '',
    ])
      refused(400, post(`Transfer-Encoding: ${value}`));
    for (const value of ['identity,chunked', 'gzip, chunked']) refused(501, post(`Transfer-Encoding: ${value}`));
    refused(
      400,
      post('Transfer-Encoding: chunked\x0b'),
      post('Transfer-Encoding: chunked', 'Transfer-Encoding: chunked'),
      post('Transfer-Encoding: identity', 'Transfer-Encoding: chunked'),
    );
    refused(400, post('Transfer-Encoding: \xa0chunked'));
    refused(400, head('POST / HTTP/1.0', 'Host: a.test', 'Transfer-Encoding: chunked'));
    // A name that is none but looks like it is refused as a name, and another name is no coding.
    refused(400, post('Transfer-Encoding : chunked'), post('Transfer\x00-Encoding: chunked'));
    assert.deepEqual(accepted(post('Transfer_Encoding: chunked')).framing, { kind: 'none' });
  });

  test('one length, of digits alone', () => {
    refused(400, post('Content-Length: 5', 'Content-Length: 6'), post('Content-Length: 5', 'Content-Length: 5'));
    for (const value of [
      '',
      '5,5',
      '5, 5',
      '+5',
      '-48',
      '0x10',
      '1_0',
      '1Z',
      '1 0',
      '5.0',
      '1e3',
      '٣',
      '99999999999999999999',
      '18446744073709551617',
      'chunked',
    ])
      refused(400, post(`Content-Length: ${value}`));
    refused(400, post('Content-Length: 5', ' 6'), post('Content-Length: 5', 'Transfer-Encoding:', ' chunked'));
    // Leading zeros are digits, and mean the same to everybody who reads decimals (RFC 9110, section 8.6).
    assert.deepEqual(accepted(post('Content-Length: 010')).framing, { kind: 'length', length: 10 });
  });
});

describe('the connection (RFC 9112, section 9; RFC 9110, section 7.6.1)', () => {
  test('is kept unless somebody says otherwise', () => {
    for (const [text, keeps] of [
      [get(), true],
      [get('Connection: close'), false],
      [get('Connection: Keep-Alive, CLOSE'), false],
      [get('Connection: x', 'Connection: close'), false],
      [head('GET / HTTP/1.0'), false],
      [head('GET / HTTP/1.0', 'Connection: Keep-Alive'), true],
    ] as const)
      assert.equal(accepted(text).keepAlive, keeps, text);
  });

  test('names fields that are not sent on, but cannot take away what others rely on', () => {
    const { hopByHop } = accepted(
      get('Connection: X-Secret, authorization, host, x-forwarded-for, close, content-length'),
    );
    assert.ok(hopByHop.has('x-secret') && hopByHop.has('te') && hopByHop.has('upgrade'));
    for (const kept of ['authorization', 'host', 'x-forwarded-for', 'content-length'])
      assert.ok(!hopByHop.has(kept), kept);
    assert.ok(!accepted(get()).hopByHop.has('x-secret'));
  });

  test('is upgraded only when Connection says so too, and never in HTTP/1.0', () => {
    assert.deepEqual(accepted(get('Connection: keep-alive, Upgrade', 'Upgrade: WebSocket')).upgrade, ['websocket']);
    assert.deepEqual(accepted(get('Upgrade: websocket')).upgrade, []);
    assert.deepEqual(accepted(head('GET / HTTP/1.0', 'Connection: upgrade', 'Upgrade: websocket')).upgrade, []);
    assert.deepEqual(accepted(get('Connection: upgrade', 'Upgrade: h2c, websocket')).upgrade, ['h2c', 'websocket']);
  });

  test('expects 100-continue or nothing (RFC 9110, section 10.1.1)', () => {
    assert.equal(accepted(post('Expect: 100-Continue', 'Content-Length: 5')).expectsContinue, true);
    assert.equal(accepted(head('POST / HTTP/1.0', 'Expect: 100-continue')).expectsContinue, false);
    refused(
      417,
      post('Expect: 200-ok'),
      post('Expect: 100-continue, x'),
      post('Expect: '),
      post('Expect: 100-continue', 'Expect: 100-continue'),
      post('Expect: y 100-continue'),
    );
  });
});
