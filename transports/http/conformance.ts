/**
 * The bytes that tell a strict server from others, and a test with them that takes a second at most. The suite in
 * test/http runs it on every adapter; `auto` runs it on a build of uWebSockets.js that nobody has tried yet.
 */
import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import type { HttpServer, HttpServerOptions } from '../../proto/ports/http.ts';

/** Bytes to send, each string in a segment of its own, and what has to come of them. */
interface Probe {
  readonly name: string;
  readonly segments: readonly string[];
  /** How the answer begins; or, of a WebSocket, the close code in its one frame. */
  readonly answer: string | number;
  /** What the body of the answer must be. */
  readonly body?: string;
}

/** Never to be read as a request: it stands behind bytes that were refused. */
const HIDDEN = '/hidden';
const BEHIND = `GET ${HIDDEN} HTTP/1.1\r\nHost: a\r\n\r\n`;
const HANDSHAKE =
  'GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n' +
  'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n';
const LONG = `GET /q?${'x'.repeat(4096)} HTTP/1.1\r\nHost: a\r\n\r\n`;

const get = (...lines: string[]) => ['GET / HTTP/1.1', ...lines, '', ''].join('\r\n');
const refused = (name: string, request: string): Probe[] => [
  { name, segments: [`${request}${BEHIND}`], answer: 'HTTP/1.1 400 ' },
  { name: `${name}, and more in a later segment`, segments: [request, BEHIND], answer: 'HTTP/1.1 400 ' },
];

/** All of them. */
const PROBES: readonly Probe[] = [
  {
    name: 'a request line cut in two',
    segments: ['GET /heal', 'thz HTTP/1.1\r\nHost: a\r\n\r\n'],
    answer: 'HTTP/1.1 200 ',
    body: '/healthz 0',
  },
  {
    name: 'a query of 4 KB cut at 1,430 bytes',
    segments: [LONG.slice(0, 1430), LONG.slice(1430, 2860), LONG.slice(2860)],
    answer: 'HTTP/1.1 200 ',
    body: '/q 4096',
  },
  {
    name: 'an absolute target (RFC 9112, section 3.2.2)',
    segments: ['GET http://a/healthz?q HTTP/1.1\r\nHost: a\r\n\r\n'],
    answer: 'HTTP/1.1 200 ',
    body: '/healthz 1',
  },
  ...refused('a header name that is none', get('Host: a', 'X[]: y')),
  ...refused('NUL in a header value', get('Host: a', 'X: y\0z')),
  ...refused('no Host', get('X: y')),
  ...refused('two Hosts', get('Host: a', 'Host: b')),
  ...refused('a Host that is none', get('Host: a b')),
  ...refused('two lengths', get('Host: a', 'Content-Length: 5', 'Content-Length: 0')),
  ...refused('a coding after chunked', get('Host: a', 'Transfer-Encoding: chunked, gzip')),
  ...refused('a length beside a coding', get('Host: a', 'Content-Length: 5', 'Transfer-Encoding: chunked')),
  { name: 'a frame that is not masked', segments: [HANDSHAKE, '\x81\x02hi'], answer: 1002 },
];

/** How long an answer is waited for, and how long segments keep apart, ms. */
const PATIENCE_MS = 800;
const APART_MS = 20;

type Listen = (options: HttpServerOptions) => Promise<HttpServer>;

/** The probes that a server of `listen` does not pass, each with what came instead; none: it is strict. */
export async function failedProbes(listen: Listen, patienceMs = PATIENCE_MS): Promise<string[]> {
  const results = await Promise.all(PROBES.map((probe) => failureOf(probe, listen, patienceMs)));
  return results.filter((result) => result !== undefined);
}

/** A server for each probe: what it was asked is nobody else's. */
async function failureOf(probe: Probe, listen: Listen, patienceMs: number): Promise<string | undefined> {
  let isHiddenAsked = false;
  let isHeard = false;
  const server = await listen({
    host: '127.0.0.1',
    port: 0,
    onRequest: ({ path, query }) => {
      isHiddenAsked ||= path === HIDDEN;
      return { status: 200, headers: [], body: `${path} ${query.length}` };
    },
    onUpgrade: () => ({
      accept: {
        open: () => undefined,
        drain: () => undefined,
        close: () => undefined,
        message: () => {
          isHeard = true;
        },
      },
    }),
  });
  try {
    const said = await exchange(server.port, probe, patienceMs);
    const instead = answerMissing(probe, said);
    if (isHiddenAsked) return `${probe.name}: what stands behind it is read as a request`;
    if (isHeard) return `${probe.name}: it is taken`;
    return instead === undefined ? undefined : `${probe.name}: ${instead}`;
  } finally {
    await server.close(0);
  }
}

/** What came instead of the answer, if it did not. */
function answerMissing({ answer, body }: Probe, said: string): string | undefined {
  if (typeof answer === 'number') {
    const frame = Buffer.from(said.slice(said.indexOf('\r\n\r\n') + 4), 'latin1');
    return frame[0] === 0x88 && frame.length >= 4 && frame.readUInt16BE(2) === answer ? undefined : 'no close code';
  }
  if (!said.startsWith(answer)) return said === '' ? 'no answer' : `answered ${said.slice(9, 12)}`;
  return body === undefined || said.endsWith(`\r\n\r\n${body}`) ? undefined : 'another answer';
}

/** Sends the probe and gives what came back, until it is enough or the time is over. */
async function exchange(port: number, { segments, answer, body }: Probe, patienceMs: number): Promise<string> {
  const socket = connect({ host: '127.0.0.1', port, noDelay: true });
  let said = '';
  const ended = new Promise<void>((resolve) => {
    socket
      .on('data', (bytes) => {
        said += bytes.toString('latin1');
        // One that is refused has to be over, too.
        if (body !== undefined && said.endsWith(body)) resolve();
      })
      .on('error', () => undefined)
      .on('close', () => resolve());
  });
  const timer = new AbortController();
  try {
    for (const segment of segments) {
      socket.write(Buffer.from(segment, 'latin1'));
      // A frame belongs behind the answer to its handshake.
      await delay(typeof answer === 'number' ? 3 * APART_MS : APART_MS);
    }
    await Promise.race([ended, delay(patienceMs, undefined, { signal: timer.signal })]);
  } finally {
    timer.abort();
    socket.destroy();
  }
  return said;
}
