/**
 * Requests that two readers may read in two ways, and what the gateway makes of each: refused with a status,
 * or passed on as exactly these requests. `/@` stands for a path of its own, so that each can be found again in an origin's log.
 */

/** What an origin may see: method, path and length of the body. */
export type Seen = readonly [method: string, path: string, length: number];

export interface AmbiguousRequest {
  readonly subject: string;
  /** latin1. */
  readonly bytes: string;
  /** Of the gateway's refusal; undefined when all of it is passed on. */
  readonly refused: number | undefined;
  /** What an origin is asked, whole, in order. */
  readonly forwarded: readonly Seen[];
  /** Whether an origin may be asked for a beginning that is then broken off. */
  readonly begins: boolean;
}

/** A request that is hidden in others. */
const HIDDEN = 'GET /hidden HTTP/1.1\r\nHost: a.test\r\n\r\n';

const head = (line: string, fields: readonly string[]) => `${[line, ...fields].join('\r\n')}\r\n\r\n`;
const get = (...fields: string[]) => head('GET /@ HTTP/1.1', ['Host: a.test', ...fields]);
const post = (...fields: string[]) => head('POST /@ HTTP/1.1', ['Host: a.test', ...fields]);

const all: AmbiguousRequest[] = [];
function refuse(subject: string, status: number, ...texts: string[]): void {
  for (const bytes of texts) all.push({ subject, bytes, refused: status, forwarded: [], begins: false });
}
/** Refused once its body turns out to be malformed: the origin may have seen the head. */
function breakOff(subject: string, ...texts: string[]): void {
  for (const bytes of texts) all.push({ subject, bytes, refused: 400, forwarded: [], begins: true });
}
function pass(subject: string, bytes: string, ...forwarded: Seen[]): void {
  all.push({ subject, bytes, refused: undefined, forwarded, begins: false });
}

// A length beside a coding.
for (const [length, coding] of [
  ['Content-Length: 4', 'Transfer-Encoding: chunked'],
  ['Content-Length: 0', 'Transfer-Encoding: chunked'],
  ['Content-Length: 48', 'Transfer-Encoding: identity'],
  ['content-length: 4', 'TRANSFER-ENCODING: CHUNKED'],
  ['Content-Length: 6', 'Transfer-Encoding: chunked, identity'],
  ['Content-Length: x', 'Transfer-Encoding: chunked'],
] as const) {
  const status = 400;
  refuse(
    'length-and-coding',
    status,
    `${post(length, coding)}0\r\n\r\n${HIDDEN}`,
    `${post(coding, length)}0\r\n\r\n${HIDDEN}`,
  );
  refuse('length-and-coding', status, `${post('X: y', coding, 'Y: z', length)}5c\r\n${HIDDEN}\r\n0\r\n\r\n`);
}

// Codings.
for (const value of [
  ...[',chunked', 'chunked,', 'chunked,chunked', 'chunked, chunked', 'xchunked', 'chunkedx', '"chunked"', "'chunked'"],
  ...['chunked,identity', 'chunked, gzip', 'identity', 'gzip', 'deflate', 'cow', 'chunked;q=1'],
  ...[
    'chunked ;',
    'x chunked',
    'chunked x',
    '\xa0chunked',
    'chunked\xa0',
    'chunk',
    'chunked=1',
    '',
    ';chunked',
    'trailers',
  ],
])
  refuse('coding', 400, `${post(`Transfer-Encoding: ${value}`)}0\r\n\r\n${HIDDEN}`);
for (const value of ['identity,chunked', 'gzip, chunked'])
  refuse('coding', 501, `${post(`Transfer-Encoding: ${value}`)}0\r\n\r\n${HIDDEN}`);
for (const line of [
  'Transfer-Encoding: chunked\x0b',
  'Transfer-Encoding: \x0bchunked',
  'Transfer-Encoding: \x0cchunked',
  'Transfer-Encoding: chunked\x00',
  'Transfer-Encoding : chunked',
  'Transfer-Encoding\t: chunked',
  'Transfer-Encoding\x00: chunked',
  'Transfer-\x00Encoding: chunked',
  ' Transfer-Encoding: chunked',
  '\tTransfer-Encoding: chunked',
  'X: y\nTransfer-Encoding: chunked',
  'X: y\rTransfer-Encoding: chunked',
  'Transfer-Encoding: chunked\nX: y',
  'Transfer-Encoding\r\n: chunked',
  'Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked',
  'Transfer-Encoding: identity\r\nTransfer-Encoding: chunked',
  'Transfer-Encoding: chunked\r\nTransfer-Encoding: cow',
  'Transfer-Encoding: \xff\x00chunked',
])
  refuse('coding', 400, `${post(line, 'Content-Length: 4')}0\r\n\r\n${HIDDEN}`);
refuse('coding', 400, `POST /@ HTTP/1.0\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${HIDDEN}`);
// Names that are other names: the length counts, for everybody.
for (const name of [
  'Transfer_Encoding',
  'X-Transfer-Encoding',
  'TransferEncoding',
  'Transfer.Encoding',
  'Transfer-Encodin',
])
  pass('coding', `${post(`${name}: chunked`, 'Content-Length: 5')}0\r\n\r\n`, ['POST', '/@', 5]);
pass('coding', `${post('Transfer-Encoding:chunked')}5\r\nhello\r\n0\r\n\r\n`, ['POST', '/@', 5]);
pass('coding', `${post('Transfer-Encoding:\t chunked \t')}5\r\nhello\r\n0\r\n\r\n`, ['POST', '/@', 5]);
pass('coding', `${post('TrAnSfEr-EnCoDiNg: ChUnKeD')}5\r\nhello\r\n0\r\n\r\n`, ['POST', '/@', 5]);

// Lengths.
for (const value of [
  ...[
    '',
    ' ',
    '5,5',
    '5, 5',
    '5,6',
    '+5',
    '-48',
    '-0',
    '0x10',
    '0x5',
    '1_0',
    '1Z',
    '5 5',
    '5.0',
    '5e0',
    '1e3',
    "'5'",
    '"5"',
  ],
  ...[
    '99999999999999999999',
    '18446744073709551617',
    '18446744073709551621',
    'chunked',
    'five',
    '\xb2',
    '5;',
    '5\xa0',
    '٥',
  ],
])
  refuse('length', 400, `${post(`Content-Length: ${value}`)}hello${HIDDEN}`);
for (const lines of [
  'Content-Length: 5\r\nContent-Length: 6',
  'Content-Length: 6\r\nContent-Length: 5',
  'Content-Length: 5\r\nContent-Length: 5',
  'Content-Length: 0\r\nContent-Length: 44',
  'Content-Length: 5\r\ncontent-length: 0',
  'Content-Length: 5\r\n 6',
  'Content-Length:\r\n 5',
  'Content-Length : 5',
  'Content-Length\t: 5',
  'Content-Length: 5\x00',
  'Content-Length: \x0b5',
  'Content-Length: 5\x0b',
  'Content-Length: 5\rX: y',
  'Content-Length: 5\nX: y',
  'X: y\nContent-Length: 5',
  'Content-Length\x00: 5',
  'Content-Length\x0b: 5',
])
  refuse('length', 400, `${post(lines)}hello${HIDDEN}`);
for (const value of ['5', '05', '005', '00000000005', ' 5', '5 ', '\t5\t'])
  pass('length', `${post(`Content-Length:${value}`)}hello`, ['POST', '/@', 5]);
for (const name of ['Content_Length', 'ContentLength', 'X-Content-Length'])
  pass('length', post(`${name}: 44`), ['POST', '/@', 0]);

// Names.
for (const letter of [...'(),/;<=>?@[]{} "\\'].concat(['\x01', '\x08', '\x1f', '\x7f', '\x80', '\xff', '\t', '\x00']))
  refuse('field-names', 400, get(`X${letter}Y: z`));
refuse(
  'field-names',
  400,
  get('X : y'),
  get('X\t: y'),
  get(' X: y'),
  get('\tX: y'),
  get(': y'),
  get(':'),
  get('no colon'),
);
refuse('field-names', 400, head('GET /@ HTTP/1.1', [' Host: a.test']), head('GET /@ HTTP/1.1', [' ', 'Host: a.test']));
refuse(
  'field-names',
  400,
  get('X\r\nY: z'),
  get('Content-Length\r\n: 5'),
  get('X: y', '', 'Z: a').replace('\r\n\r\nZ', '\r\n \r\nZ'),
);
pass('field-names', get("!#$%&'*+-.^_`|~09azAZ: y"), ['GET', '/@', 0]);

// Controls and line ends.
for (const letter of ['\x00', '\x01', '\x07', '\x08', '\x0b', '\x0c', '\x0e', '\x1b', '\x1f', '\x7f', '\r', '\n'])
  refuse('field-values', 400, get(`X: a${letter}b`), get(`X: a${letter}`));
refuse(
  'field-values',
  400,
  'GET /@ HTTP/1.1\nHost: a.test\n\n',
  'GET /@ HTTP/1.1\r\nHost: a.test\n\r\n',
  'GET /@ HTTP/1.1\r\nHost: a.test\r\n\n',
  'GET /@ HTTP/1.1\r\nHost: a.test\n\n',
  'GET /@ HTTP/1.1\nHost: a.test\r\n\r\n',
  `GET /@ HTTP/1.1\r\nHost: a.test\r\n\rX: y\r\n\r\n${HIDDEN}`,
  `GET /@ HTTP/1.1\r\nHost: a.test\r\n\r\r\n\r\n${HIDDEN}`,
  'GET /@ HTTP/1.1\rHost: a.test\r\n\r\n',
  'GET /@ HTTP/1.1\r\nHost: a.test\rX: y\r\n\r\n',
  'GET /@ HTTP/1.1\r\nHost: a.test\r\nX: y\n\nGET /hidden HTTP/1.1\r\nHost: a.test\r\n\r\n',
);
pass('field-values', get('X: \xe4\xf6\xfc\xff'), ['GET', '/@', 0]);
pass('field-values', get('X: a\tb'), ['GET', '/@', 0]);

// Folded lines.
for (const name of ['Transfer-Encoding', 'Content-Length', 'Host', 'Authorization', 'Cookie', 'X'])
  refuse('folding', 400, post(`${name}:`, ' chunked'), post(`${name}: a`, '\tb'), post(`${name}: a`, ' ', 'Y: z'));

// Chunks.
const chunked = (body: string) => `${post('Transfer-Encoding: chunked')}${body}`;
breakOff(
  'chunks',
  ...[
    '0x5',
    '+5',
    '-5',
    '-0x0',
    '5_0',
    ' 5',
    '\t5',
    '5 ',
    '5these-bytes',
    '',
    '\x005',
    'g',
    '5,',
    '5\x0b',
    'fffffffffffffffff',
  ].map((size) => chunked(`${size}\r\nhello\r\n0\r\n\r\n${HIDDEN}`)),
  ...['10000000000000005', 'fffffffffffffffe', '0000000000000000000005', '٥', '5\x00'].map((size) =>
    chunked(`${size}\r\nhello\r\n0\r\n\r\n${HIDDEN}`),
  ),
  chunked('5\nhello\r\n0\r\n\r\n'),
  chunked('5\rhello\r\n0\r\n\r\n'),
  chunked('5\r\nhello\n0\r\n\r\n'),
  chunked('5\r\nhelloXX0\r\n\r\n'),
  chunked('5\r\nhello0\r\n\r\n'),
  chunked(`5\r\nhello\r\n0\r\n\rX${HIDDEN}`),
  chunked(`5\r\nhello\r\n0\r\nXX${HIDDEN}`),
  chunked(`5\r\nhello\r\n0\n\n${HIDDEN}`),
  chunked(`5\r\nhello\r\n0\r\n\n${HIDDEN}`),
  chunked('5;a=\rb\r\nhello\r\n0\r\n\r\n'),
  chunked('5;a=\nb\r\nhello\r\n0\r\n\r\n'),
  chunked(`5;a\n${HIDDEN}`),
  chunked('5;\x00\r\nhello\r\n0\r\n\r\n'),
  chunked(`5;${'a'.repeat(5000)}\r\nhello\r\n0\r\n\r\n`),
  chunked(`5\r\nhello\r\n0\r\nX: y\rZ: a\r\n\r\n${HIDDEN}`),
  chunked(`5\r\nhello\r\n0\r\nX: y\nZ: a\r\n\r\n${HIDDEN}`),
  chunked(`5\r\nhello\r\n0\r\nX: ${'y'.repeat(9000)}\r\n\r\n`),
  ...['\x00: y', ': y', 'X y', 'X : y', ' X: y', 'X: y\r\n z', 'X(: y', 'X: \x7f', HIDDEN.slice(0, 20)].map((trailer) =>
    chunked(`5\r\nhello\r\n0\r\n${trailer}\r\n\r\n`),
  ),
  chunked('5;\x7f\r\nhello\r\n0\r\n\r\n'),
);
pass('chunks', chunked('5\r\nhello\r\n0\r\n\r\n'), ['POST', '/@', 5]);
pass('chunks', chunked('05\r\nhello\r\n000\r\n\r\n'), ['POST', '/@', 5]);
pass('chunks', chunked('A\r\nhellohello\r\na\r\nhellohello\r\n0\r\n\r\n'), ['POST', '/@', 20]);
pass('chunks', chunked('5;a=b;c="d"\r\nhello\r\n0;x\r\n\r\n'), ['POST', '/@', 5]);
pass('chunks', chunked('5 ;a=b\r\nhello\r\n0\r\n\r\n'), ['POST', '/@', 5]);
pass('chunks', chunked('0\r\n\r\n'), ['POST', '/@', 0]);
// Trailers are read and dropped, those that would change the message too.
for (const trailer of ['Content-Length: 99', 'Transfer-Encoding: chunked', 'Host: b.test', 'Authorization: x', 'X: y'])
  pass('chunks', chunked(`5\r\nhello\r\n0\r\n${trailer}\r\n\r\n`), ['POST', '/@', 5]);
// What looks like a request in the data is data.
pass('chunks', chunked(`${HIDDEN.length.toString(16)}\r\n${HIDDEN}\r\n0\r\n\r\n`), ['POST', '/@', HIDDEN.length]);
pass('chunks', `${post(`Content-Length: ${HIDDEN.length}`)}${HIDDEN}`, ['POST', '/@', HIDDEN.length]);

// The first line.
for (const version of ['HTTP/2.0', 'HTTP/0.9', 'HTTP/1.2', 'HTTP/3.0', 'HTTP/9.9'])
  refuse('first-line', 505, head(`GET /@ ${version}`, ['Host: a.test']));
// An empty line before a request is forgiven, and what follows it is the first line.
for (const line of [
  ...['GET /@ HTTP/1.32', 'GET /@ HTTP/4294967295.255', 'GET /@ HTTP/01.1', 'GET /@ http/1.1', 'GET /@ HTTP/1.1 '],
  ...[
    'GET /@ HTTP/1',
    'GET /@ HTTP/1.',
    'GET /@ HTTP/ 1.1',
    'GET /@ HTTP1.1',
    'GET /@ HTTP/1.1x',
    'GET /@ HTTP/\r\r1.1',
  ],
  ...[
    'GET /@',
    'GET',
    '',
    'GET  /@ HTTP/1.1',
    ' GET /@ HTTP/1.1',
    'GET\t/@\tHTTP/1.1',
    'GET /@\tHTTP/1.1',
    'GET /@ x HTTP/1.1',
  ],
  ...[
    'GE"T /@ HTTP/1.1',
    'G\x00T /@ HTTP/1.1',
    'G(T /@ HTTP/1.1',
    'GET: /@ HTTP/1.1',
    `${'G'.repeat(10_240)} /@ HTTP/1.1`,
  ],
  ...[
    'GET /@\x00 HTTP/1.1',
    'GET /@#x HTTP/1.1',
    'GET ! HTTP/1.1',
    'GET @ HTTP/1.1',
    'GET /@\xa0 HTTP/1.1',
    'GET /@\x7f HTTP/1.1',
  ],
  ...[
    'GET /@\nX HTTP/1.1',
    'GET /@\r HTTP/1.1',
    'GET \\@ HTTP/1.1',
    'GET /@"x HTTP/1.1',
    'GET /@<x> HTTP/1.1',
    'GET /@\\x HTTP/1.1',
  ],
  ...[
    'GET http:// HTTP/1.1',
    'GET http:///@ HTTP/1.1',
    'GET ftp://a.test/@ HTTP/1.1',
    'GET a.test/@ HTTP/1.1',
    'GET ?@ HTTP/1.1',
  ],
])
  refuse('first-line', 400, head(line, ['Host: a.test']));
refuse(
  'first-line',
  501,
  head('CONNECT a.test:443 HTTP/1.1', ['Host: a.test']),
  head('CONNECT /@ HTTP/1.1', ['Host: a.test']),
);
pass('first-line', `\r\n\r\n${get()}`, ['GET', '/@', 0]);
pass('first-line', head('PROPFIND /@ HTTP/1.1', ['Host: a.test']), ['PROPFIND', '/@', 0]);

// The host.
for (const value of [
  ...['', ' ', 'a.test:99999', 'a.test:0', 'a.test:-1', 'a.test:8x', 'u@a.test', 'a.test/x', 'a.test?x', 'a.test#x'],
  ...[
    'a..test',
    '.',
    '.a.test',
    '-a.test',
    'a b',
    'a,b',
    'b\xfccher.test',
    '[::1',
    '::1',
    '[::1%eth0]',
    '[fe80::1%25eth0]',
    '[]',
  ],
  ...[
    'a.test:80:80',
    `${'a'.repeat(300)}.test`,
    'a\\b',
    '*',
    'http://a.test',
    'a%2etest',
    '%',
    "a'b",
    'a"b',
    'a<b',
    '(a)',
  ],
])
  refuse('host', 400, head('GET /@ HTTP/1.1', [`Host: ${value}`]));
for (const lines of [
  [],
  ['Host: a.test', 'Host: a.test'],
  ['Host: a.test', 'Host: b.test'],
  ['Host: b.test', 'host: a.test'],
  ['Host: a\x00.b'],
  ['Host : a.test'],
  ['Host: a.test', ' b.test'],
  ['Host:\r\n a.test'],
  ['Host\x00: b.test', 'Host: a.test'],
])
  refuse('host', 400, head('GET /@ HTTP/1.1', lines));
for (const target of [
  'http://b.test/@',
  'http://a.test:81/@',
  'http://u@a.test/@',
  'http://a.test@b.test/@',
  'https://b.test/@',
])
  refuse('host', 400, head(`GET ${target} HTTP/1.1`, ['Host: a.test']));
refuse('host', 400, head('GET * HTTP/1.1', ['Host: a.test']), head('OPTIONS *x HTTP/1.1', ['Host: a.test']));
for (const host of [
  'A.TEST',
  'a.test.',
  'a.test:80',
  'a_b.test',
  'xn--bcher-kva.test',
  '192.0.2.1',
  '[2001:db8::1]:80',
])
  pass('host', head('GET /@ HTTP/1.1', [`Host: ${host}`]), ['GET', '/@', 0]);
pass('host', head('GET http://a.test/@ HTTP/1.1', ['Host: a.test']), ['GET', '/@', 0]);
pass('host', head('GET HTTP://A.TEST/@ HTTP/1.1', ['Host: a.test']), ['GET', '/@', 0]);
pass('host', 'GET /@ HTTP/1.0\r\nHost: a.test\r\n\r\n', ['GET', '/@', 0]);

// Too much.
refuse('size', 431, get(`X: ${'x'.repeat(65_536)}`), get(...Array.from({ length: 10_000 }, (_, i) => `X-${i}: y`)));
refuse(
  'size',
  431,
  get(...Array.from({ length: 200 }, (_, i) => `X-${i}: y`)),
  get(...Array(100).fill(`Cookie: ${'c'.repeat(8192)}`)),
);
refuse('size', 431, head(`GET /${'x'.repeat(1_048_576)} HTTP/1.1`, ['Host: a.test']));
refuse('size', 414, head(`GET /${'x'.repeat(8200)} HTTP/1.1`, ['Host: a.test']));

// Bodies where few expect them, expectations (the 0.CL family).
for (const method of ['GET', 'DELETE', 'OPTIONS', 'PUT', 'PATCH'])
  pass('body', head(`${method} /@ HTTP/1.1`, ['Host: a.test', 'Content-Length: 5']).concat('hello'), [method, '/@', 5]);
pass('body', `${get('Transfer-Encoding: chunked')}5\r\nhello\r\n0\r\n\r\n`, ['GET', '/@', 5]);
pass('body', `${get(`Content-Length: ${HIDDEN.length}`)}${HIDDEN}`, ['GET', '/@', HIDDEN.length]);
pass('body', `${post('Expect: 100-continue', 'Content-Length: 5')}hello`, ['POST', '/@', 5]);
pass('body', `${get('Expect: 100-continue', `Content-Length: ${HIDDEN.length}`)}${HIDDEN}`, [
  'GET',
  '/@',
  HIDDEN.length,
]);
for (const value of [
  'x',
  'y 100-continue',
  '100-continue, x',
  '100-continue\r\nExpect: 100-continue',
  '',
  '100-continuex',
  '"100-continue"',
])
  refuse('body', 417, `${post(`Expect: ${value}`, `Content-Length: ${HIDDEN.length}`)}${HIDDEN}`);
refuse(
  'body',
  400,
  post('Expect:\r\n 100-continue', 'Content-Length: 5'),
  post('Expect : 100-continue', 'Content-Length: 5'),
);
breakOff('body', `${chunked('5\r\nhello\r\nXX')}`);

// Fields of the hop, and forged ones.
for (const fields of [
  ['Connection: host, content-length, authorization, x-forwarded-for'],
  ['Connection: close, content-length'],
  ['Connection: transfer-encoding'],
  ['Connection: x', 'X: y'],
  ['Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c', 'HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA'],
  ['Upgrade: h2c'],
  ['TE: trailers, chunked'],
  ['Trailer: Content-Length'],
  [
    'X-Forwarded-For: 203.0.113.9',
    'X-Forwarded-Host: b.test',
    'X-Forwarded-Proto: https',
    'Forwarded: for=x',
    'X-Real-IP: y',
  ],
  ['x_forwarded_for: 203.0.113.9', 'X_Real_IP: 1'],
  ['X-HTTP-Method-Override: DELETE', 'X-Original-URL: /hidden', 'X-Rewrite-URL: /hidden'],
  ['Keep-Alive: timeout=999', 'Proxy-Connection: keep-alive', 'Proxy-Authorization: x'],
])
  pass('hop', `${post(...fields, 'Content-Length: 5')}hello`, ['POST', '/@', 5]);
for (const path of [
  '/x/..%2fx/@',
  '/x/../@',
  '/@//x',
  '//@',
  '/@/%00',
  '/@;a=b',
  '/@/%c0%af',
  '/@/%252e%252e',
  '/@/.',
  '/@?a=/../x',
  '/@%20HTTP/1.1',
  '/@/%0d%0aX:%20y',
])
  pass('hop', head(`GET ${path} HTTP/1.1`, ['Host: a.test']), ['GET', path, 0]);

/** All of them. */
export const AMBIGUOUS: readonly AmbiguousRequest[] = all;

/** Puts a path of its own into a request and into what is expected of it. */
export function numbered(request: AmbiguousRequest, id: string): AmbiguousRequest {
  const named = (text: string) => text.replaceAll('/@', `/${id}`);
  return {
    ...request,
    bytes: named(request.bytes),
    forwarded: request.forwarded.map(([method, path, length]) => [method, named(path), length]),
  };
}
