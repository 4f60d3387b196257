/**
 * Ambiguous requests through the gateway to a real server: does the server ever see a request that the gateway did not, or another one?
 * The gateway's access entries are compared with the server's own log and with what the recorder behind it took as whole requests.
 */
import type { AccessEntry } from '../../../proto/gateway/traffic.ts';
import type { Cleanup } from '../temp.ts';
import { until } from '../until.ts';
import { AMBIGUOUS, numbered, type Seen } from './ambiguous-requests.ts';
import { type Origin, startOrigin } from './origins.ts';
import { openProxy } from './proxy.ts';
import { exchange } from './raw-exchange.ts';
import { answerTo } from './recording-origin.ts';

export interface DifferentialReport {
  /** Connections that were made to the gateway. */
  readonly sent: number;
  /** Requests that the gateway passed on. */
  readonly forwarded: number;
  /** Requests that the server took as whole. */
  readonly taken: number;
  /** Connections that the gateway opened to the server: the fewer, the more requests shared one. */
  readonly connections: number;
  /** What does not fit together, in words. */
  readonly problems: string[];
}

/**
 * What varnish makes of requests, also without anybody before it: it drops the body of a GET, and passes what came of a chunked request
 * that breaks off as the whole.
 */
const DROPS_BODIES_OF_GET = new Set(['varnish']);
const TAKES_PARTS = new Set(['varnish']);

/** Sends each request (every `every`th of them) bare, and between two good ones, to the origin of this name. */
export async function differential(t: Cleanup, name: string, every = 1): Promise<DifferentialReport> {
  const origin = await startOrigin(t, name);
  const proxy = await openProxy(t, origin.port, { limits: { idleMs: 20_000 } });
  const problems: string[] = [];
  const lengths = new Map<string, number>();
  let sent = 0;
  let connections = 0;
  for (const [index, original] of AMBIGUOUS.entries()) {
    if (index % every !== 0) continue;
    for (const form of ['bare', 'pipelined']) {
      const id = `i${index}-${form}`;
      const request = numbered(original, id);
      for (const [method, path, length] of request.forwarded)
        lengths.set(`${method} ${path}`, method === 'GET' && DROPS_BODIES_OF_GET.has(name) ? 0 : length);
      const good = (at: string) => `GET /${id}-${at} HTTP/1.1\r\nHost: a.test\r\n\r\n`;
      const bytes = form === 'bare' ? request.bytes : good('before') + request.bytes + good('after');
      const from = proxy.log.length;
      const text = await exchange(proxy.port, bytes);
      sent++;
      connections = Math.max(connections, proxy.upstreams.counts()[0]?.connections ?? 0);
      problems.push(...answersOf(id, text, proxy.log.slice(from), lengths));
    }
  }
  // The last request has been answered; what the server makes of what was broken off may still come.
  await exchange(proxy.port, 'GET /last HTTP/1.1\r\nHost: a.test\r\n\r\n');
  await until(async () => (await origin.seen()).some(([, path]) => path === '/last'), { what: 'the last request' });
  const entries = proxy.log.filter(({ upstream }) => upstream !== '');
  problems.push(...(await compare(entries, origin, lengths, TAKES_PARTS.has(name))));
  return { sent, forwarded: entries.length, taken: (await origin.seen()).length, connections, problems };
}

/** Whether the client got the answers to its own requests, in their order. */
function answersOf(id: string, text: string, entries: AccessEntry[], lengths: ReadonlyMap<string, number>): string[] {
  const wanted = entries
    .filter(({ status, upstream }) => upstream !== '' && status === 200)
    .map((entry) => seenOf(entry, lengths));
  const got = text.match(/\[[A-Z]+ [^\]]* \d+\]/g) ?? [];
  const keys = wanted.map((seen) => key(answerTo(seen)));
  return JSON.stringify(got.map(key)) === JSON.stringify(keys)
    ? []
    : [`${id}: the client got ${got.join(' ')} instead of ${wanted.map(answerTo).join(' ')}`];
}

function seenOf({ method, target }: AccessEntry, lengths: ReadonlyMap<string, number>): Seen {
  const path = target.replace(/^http:\/\/[^/]*/i, '');
  return [method, path, lengths.get(`${method} ${path}`) ?? 0];
}

/** Servers may write a path in another way (`/a/../b` as `/b`): the part that is a request's own must be there. */
function key(text: string): string {
  const [, method = text, , own = '', length = ''] =
    /^\[?([A-Z-]+) (.*?)(i\d+-[a-z]+(?:-[a-z]+)?|last)[^ ]*( \d+)?\]?$/.exec(text) ?? [];
  return `${method} ${own}${length}`;
}

async function compare(
  entries: AccessEntry[],
  origin: Origin,
  lengths: ReadonlyMap<string, number>,
  takesParts: boolean,
): Promise<string[]> {
  const problems: string[] = [];
  const whole = countBy(
    entries.filter(({ status }) => status === 200).map((entry) => key(answerTo(seenOf(entry, lengths)))),
  );
  const taken = countBy((await origin.seen()).map((seen) => key(answerTo(seen))));
  // Refused by the gateway in the middle of the body.
  const parts = countBy(
    entries.filter(({ status }) => status === 400).map((entry) => key(`${entry.method} ${entry.target}`)),
  );
  for (const [request, count] of taken) {
    if (whole.get(request) === count) continue;
    if (takesParts && parts.get(request.replace(/ \d+$/, '')) === count) continue;
    problems.push(`it took ${request} ${count} times, the gateway passed it on ${whole.get(request) ?? 0} times`);
  }
  for (const [request, count] of whole)
    if (!taken.has(request)) problems.push(`the gateway passed on ${request} ${count} times, it took none`);
  // Its own log knows also what it began to read, or refused.
  const passed = countBy(entries.map(({ method, target }) => key(`${method} ${target}`)));
  for (const [request, count] of countBy((await origin.logged()).map(key)))
    if ((passed.get(request) ?? 0) < count)
      problems.push(`it logged ${request} ${count} times, the gateway ${passed.get(request) ?? 0} times`);
  return problems;
}

function countBy(keys: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const one of keys) counts.set(one, (counts.get(one) ?? 0) + 1);
  return counts;
}
