/** Which requests take part in the cache, and which responses are kept: tables, and what holds for any head. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  hasTag,
  isMutating,
  keepingOf,
  MAX_BODY,
  pathsNamedBy,
  questionOf,
  TTL_MS,
} from '../../transports/gateway/cache/rules.ts';
import { readResponseHead } from '../../transports/gateway/h1/response-head.ts';
import { readRequestHead } from '../../transports/wire/h1/request-head.ts';

const NOW = Date.parse('2026-11-21T10:00:00Z');

function requestOf(lines: string[] = [], first = 'GET /x HTTP/1.1', host = 'a.test') {
  const head = readRequestHead(`${first}\r\nHost: ${host}\r\n${lines.map((line) => `${line}\r\n`).join('')}\r\n`);
  if ('reason' in head) throw new Error(head.reason);
  return head;
}

function question(lines: string[] = [], first?: string, host?: string) {
  const head = requestOf(lines, first, host);
  return questionOf({
    head,
    origin: { host: '127.0.0.1', port: 1 },
    target: head.target,
    isEncrypted: false,
    address: '127.0.0.1',
  });
}

function responseOf(lines: string[], status = '200 OK') {
  const response = readResponseHead(`HTTP/1.1 ${status}\r\n${lines.map((line) => `${line}\r\n`).join('')}\r\n`, 'GET');
  if (typeof response === 'string') throw new Error(response);
  return response;
}

function keeping(
  lines: string[],
  options: { isPersonal?: boolean; isExplicit?: boolean; delayMs?: number; status?: string } = {},
) {
  const { isPersonal = false, isExplicit = false, delayMs = 0, status } = options;
  return keepingOf({ isPersonal, isExplicit, isForAll: false }, responseOf(['Content-Length: 1', ...lines], status), {
    wallMs: NOW,
    delayMs,
  });
}

test('a browser, curl and fetch take part', () => {
  for (const lines of [
    ['User-Agent: curl/8.14.1', 'Accept: */*'],
    [
      'Connection: keep-alive',
      'sec-ch-ua: "Chromium";v="140", "Not=A?Brand";v="24"',
      'sec-ch-ua-mobile: ?0',
      'Upgrade-Insecure-Requests: 1',
      'User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36',
      'Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8',
      'Sec-Fetch-Site: none',
      'Referer: https://a.test/page?x=1&y=%20',
      'Accept-Encoding: gzip, deflate, br, zstd',
      'Accept-Language: de-DE,de;q=0.9',
      'Priority: u=0, i',
    ],
    ['accept: */*', 'accept-language: *', 'sec-fetch-mode: cors', 'user-agent: node', 'accept-encoding: gzip, deflate'],
  ])
    assert.equal(question(lines)?.reads, true, lines.join());
});

test('what a client asks of caches is heard', () => {
  assert.equal(question(['Cache-Control: no-store']), undefined);
  for (const line of [
    'Cache-Control: no-cache',
    'Cache-Control: max-age=0',
    'Pragma: no-cache',
    'Cache-Control: max-age=x',
  ])
    assert.equal(question([line])?.reads, false, line);
  const asked = question(['Cache-Control: max-age=7, min-fresh=3', 'Pragma: no-cache']);
  assert.deepEqual([asked?.reads, asked?.maxAge, asked?.minFresh], [true, 7, 3]);
});

test('a request with any field that is not known takes no part', () => {
  const name = fc.stringMatching(/^[a-z][a-z_-]{0,12}[a-z]$/);
  fc.assert(
    fc.property(name, fc.stringMatching(/^[ -~]{0,20}$/), (field, value) => {
      let asked: ReturnType<typeof question>;
      try {
        asked = question([`x-${field}: ${value}`]);
      } catch {
        return;
      }
      assert.ok(
        asked === undefined || /^x-(forwarded-(for|proto|host|port|server|prefix)|real-ip)$/.test(`x-${field}`),
      );
    }),
  );
});

test('questions are the same only if nothing differs that an origin could see and answer by', () => {
  const part = fc.record({
    host: fc.constantFrom('a.test', 'b.test', 'a.test:80', 'a.test:8000'),
    path: fc.constantFrom('/x', '/x/', '/y'),
    accept: fc.constantFrom('', 'a', 'a b', 'b'),
    language: fc.constantFrom('', 'a', 'b', 'b a'),
    encoding: fc.constantFrom('', 'gzip', 'br', 'gzip, br'),
    port: fc.constantFrom(1, 2),
    target: fc.constantFrom('/x', '/y'),
    isEncrypted: fc.boolean(),
  });
  const keyOf = ({
    host,
    path,
    accept,
    language,
    encoding,
    port,
    target,
    isEncrypted,
  }: Record<string, string | number | boolean>) => {
    const head = requestOf(
      [`Accept: ${accept}`, `Accept-Language: ${language}`, `Accept-Encoding: ${encoding}`],
      `GET ${path} HTTP/1.1`,
      String(host),
    );
    const asked = questionOf({
      head,
      origin: { host: '127.0.0.1', port: Number(port) },
      target: String(target),
      isEncrypted: isEncrypted === true,
      address: '127.0.0.1',
    });
    return `${asked?.host}|${asked?.path}|${asked?.variant}`;
  };
  fc.assert(
    fc.property(part, part, (one, other) => {
      assert.equal(keyOf(one) === keyOf(other), JSON.stringify(one) === JSON.stringify(other));
    }),
    { numRuns: 2000 },
  );
});

test('what says nothing, or varies by what one client sends, is for that client alone', () => {
  const isShared = (...lines: string[]) => {
    const kept = keeping(lines);
    return typeof kept === 'string' ? kept : kept.isShared;
  };
  for (const marked of ['Cache-Control: public', 'Cache-Control: s-maxage=9', 'Cache-Control: max-age=9']) {
    assert.equal(isShared(marked), true, marked);
    assert.equal(isShared(marked, 'Vary: Accept, Origin'), true, marked);
    for (const vary of ['User-Agent', 'X-Forwarded-For', 'Accept, DNT'])
      assert.equal(isShared(marked, `Vary: ${vary}`), false, vary);
  }
  assert.equal(isShared('Expires: Sat, 21 Nov 2026 10:00:10 GMT'), true);
  for (const silent of ['X: y', 'Last-Modified: Sat, 21 Nov 2026 09:00:00 GMT', 'Cache-Control: must-revalidate'])
    assert.equal(isShared(silent), false, silent);
});

test('an entity tag is found in If-None-Match by weak comparison, and nothing else is', () => {
  for (const text of ['"a"', 'W/"a"', '"b", "a"', '"b",W/"a" ', '*', '"b" ,"a,b", "a"'])
    assert.equal(hasTag(text, '"a"'), true, text);
  assert.equal(hasTag('"a"', 'W/"a"'), true);
  for (const text of ['a', '"A"', '"b"', '"a', '"a" "b"', '', '"a,b"', 'w/"a"', '"b"a"'])
    assert.equal(hasTag(text, '"a"'), false, text);
  for (const tag of [undefined, '', 'a', '"a" ']) assert.equal(hasTag('"a"', tag), false, tag);
});

test('what may be kept, and how long', () => {
  const table: [string[], number | string, Parameters<typeof keeping>[1]?][] = [
    [[], TTL_MS],
    [['Cache-Control: max-age=5'], 5000],
    [['Cache-Control: max-age=5'], 3000, { delayMs: 2000 }],
    [['Cache-Control: max-age=3600'], TTL_MS],
    [['Cache-Control: max-age="7"'], 7000],
    [['Cache-Control: max-age=0, s-maxage=9'], 9000],
    [['Cache-Control: max-age=60', 'CDN-Cache-Control: max-age=3'], 3000],
    [['Expires: Sat, 21 Nov 2026 10:00:10 GMT'], 10_000],
    [['Expires: Sat, 21 Nov 2026 10:00:10 GMT', 'Date: Sat, 21 Nov 2026 09:59:55 GMT'], 5000],
    [['Cache-Control: max-age=60', 'Age: 40'], 20_000],
    [['Cache-Control: max-age=60', 'Date: Sat, 21 Nov 2026 09:59:15 GMT'], 15_000],
    [['Cache-Control: public'], TTL_MS, { isPersonal: true }],
    [['Cache-Control: s-maxage=5'], 5000, { isPersonal: true }],
    [['Vary: Accept, Accept-Encoding, ACCEPT-LANGUAGE, Origin'], TTL_MS],
    [
      ['Cache-Control: max-age=60'],
      'a cookie came, and nothing says that the response is for everybody',
      { isPersonal: true },
    ],
    [['Cache-Control: max-age=60'], 'a status other than 200', { status: '203 Other' }],
    [['Set-Cookie: a=b', 'Cache-Control: public'], 'a Set-Cookie'],
    [['Content-Range: bytes 0-0/1'], 'a part of a whole'],
    [['Content-Type: text/event-stream'], 'a stream'],
    [['Vary: Cookie'], 'a Vary that the key does not know'],
    [['Vary: *'], 'a Vary that the key does not know'],
    [['Vary: X-Forwarded-For, User-Agent, Sec-CH-UA'], TTL_MS],
    [['Cache-Control: NO-STORE'], 'Cache-Control: no-store'],
    [['Cache-Control: max-age=60,private'], 'Cache-Control: private'],
    [['Cache-Control: max-age=60', 'Cache-Control: no-cache="set-cookie"'], 'Cache-Control: no-cache'],
    [['Cache-Control: max-age=60', 'Surrogate-Control: no-store'], 'Cache-Control: no-store'],
    [['Pragma: no-cache'], 'Pragma: no-cache'],
    [['Cache-Control: max-age=60', 'Age: 40, 0'], 20_000],
    [['Cache-Control: max-age=60', 'Age: 0, 7200'], TTL_MS],
    [['Cache-Control: max-age=60', 'Age: 45', 'Age: 1'], 15_000],
    [['Cache-Control: max-age=60', 'Age: soon'], TTL_MS],
    [['Cache-Control: max-age=60', 'Age: -1'], TTL_MS],
    [['Cache-Control: max-age=60', 'Age: 60'], 'no longer fresh when it came'],
    [['Cache-Control: max-age'], 'no longer fresh when it came'],
    [['Expires: tomorrow'], 'no longer fresh when it came'],
  ];
  for (const [lines, expected, options] of table) {
    const kept = keeping(lines, options);
    assert.equal(typeof kept === 'string' ? kept : kept.freshMs, expected, lines.join('; '));
  }
  const large = responseOf([`Content-Length: ${MAX_BODY + 1}`]);
  assert.equal(
    keepingOf({ isPersonal: false, isExplicit: false, isForAll: false }, large, { wallMs: NOW, delayMs: 0 }),
    'a body that is too large',
  );
  assert.equal(
    keepingOf({ isPersonal: false, isExplicit: false, isForAll: false }, responseOf([]), { wallMs: NOW, delayMs: 0 }),
    'a body without an end of its own',
  );
});

test('with "explicit", nothing is kept but what says itself how long it is fresh', () => {
  const table: [lines: string[], expected: unknown][] = [
    [[], 'it does not say how long it is fresh'],
    [['Cache-Control: public'], 'it does not say how long it is fresh'],
    [['Last-Modified: Mon, 02 Nov 2026 10:00:00 GMT', 'ETag: "x"'], 'it does not say how long it is fresh'],
    [['CDN-Cache-Control: max-age=20'], 'it does not say how long it is fresh'],
    [['Cache-Control: max-age=20'], 20_000],
    [['Cache-Control: s-maxage=10, max-age=20'], 10_000],
    [['Cache-Control: max-age=20', 'CDN-Cache-Control: max-age=10'], 10_000],
    [['Expires: Sat, 21 Nov 2026 10:00:20 GMT'], 20_000],
    [['Expires: 0'], 'no longer fresh when it came'],
    [['Cache-Control: max-age=600'], TTL_MS],
  ];
  for (const [lines, expected] of table) {
    const kept = keeping(lines, { isExplicit: true });
    assert.equal(typeof kept === 'string' ? kept : kept.freshMs, expected, lines.join('; '));
  }
});

test('whatever the fields say, what is kept is fresh for 1 to 30 seconds, and no forbidding word is overlooked', () => {
  const directive = fc.constantFrom(
    'public',
    'max-age=60',
    'max-age=0',
    's-maxage=99',
    'must-revalidate',
    'x="a, b"',
    '=',
    ',',
    'max-age="',
  );
  const line = fc.oneof(
    fc.array(directive, { maxLength: 4 }).map((all) => `Cache-Control: ${all.join(',')}`),
    fc.stringMatching(/^(Age|Expires|Date|Vary|Pragma): [ -~]{0,12}$/),
  );
  const forbidding = fc.constantFrom('no-store', 'private', 'no-cache', 'private="a"', 'No-Store', ' no-cache ');
  fc.assert(
    fc.property(fc.array(line, { maxLength: 6 }), fc.nat(60_000), forbidding, fc.nat(6), (lines, delayMs, word, at) => {
      const kept = keeping(lines, { delayMs });
      if (typeof kept !== 'string') assert.ok(kept.freshMs >= 1000 && kept.freshMs <= TTL_MS && kept.ageMs >= delayMs);
      const forbidden = [...lines.slice(0, at), `Cache-Control: max-age=60, ${word}`, ...lines.slice(at)];
      assert.equal(typeof keeping(forbidden, { delayMs }), 'string');
    }),
    { numRuns: 2000 },
  );
});

test('methods that change something, and what their answers name', () => {
  assert.deepEqual(['GET', 'HEAD', 'OPTIONS', 'TRACE', 'POST', 'get', 'QUERY'].map(isMutating), [
    false,
    false,
    false,
    false,
    true,
    true,
    true,
  ]);
  const named = (value: string, host = 'a.test', status = '201 Created') =>
    pathsNamedBy(
      requestOf([], 'POST /base/x?q HTTP/1.1', host),
      responseOf([`Location: ${value}`, 'Content-Length: 0'], status),
    );
  assert.deepEqual(named('/y?z'), ['/y']);
  assert.deepEqual(named('y'), ['/base/y']);
  assert.deepEqual(named('https://a.test/y'), ['/y']);
  for (const other of [
    'http://b.test/y',
    '//b.test/y',
    'http://a.test:81/y',
    'http://a.test@b.test/',
    '\\\\b.test\\y',
    'http://[',
    'javascript:x',
  ])
    assert.deepEqual(named(other), [], other);
  assert.deepEqual(named('http://a.test/y', 'a.test:81'), []);
  assert.deepEqual(named('/y', 'a.test', '400 Bad'), []);
});
