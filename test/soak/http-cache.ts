/**
 * `npm run soak -- http-cache [test id]`: the public suite of tests for HTTP caches (cache-tests.fyi) against the gateway. It is
 * fetched by npm into a temporary folder. Prints every result that is not a pass; fails when a response is reused that may not be, or
 * when a test that docs/engineering/trials.md does not explain turns out otherwise.
 */
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { type AddressInfo, createServer as createRaw } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { z } from 'zod';
import { ResponseCache } from '../../transports/gateway/cache/response-cache.ts';
import { HttpProxy } from '../../transports/gateway/h1/server.ts';
import { Upstreams } from '../../transports/gateway/h1/upstreams.ts';
import { INVALID_AGE, reasonOf } from '../support/gateway/http-cache-deviations.ts';

const SUITE = 'http-cache-tests@0.4.5';
/** Where the origin says what it sent in a field that the gateway replaces. */
const ORIGINAL = 'x-sent-cache-control';

const outcome = z.union([z.literal(true), z.tuple([z.string(), z.string()])]);
const oneTest = z.looseObject({
  id: z.string(),
  name: z.string(),
  kind: z.enum(['required', 'optimal', 'check']).default('required'),
  browser_only: z.boolean().default(false),
});
const suites = z.array(z.looseObject({ id: z.string(), name: z.string(), tests: z.array(oneTest) }));
type Handler = (segments: string[], request: IncomingMessage, response: ServerResponse) => void;

const folder = mkdtempSync(join(tmpdir(), 'troupe-http-cache-'));
async function run(only: string | undefined): Promise<number> {
  fetchSuite();
  const origin = await openOrigin();
  const cache = new ResponseCache({ harmlessFields: ['test-name', 'test-id', 'req-num'] });
  const upstreams = new Upstreams();
  const proxy = new HttpProxy({
    cache,
    upstreams,
    decider: { decide: ({ target }) => ({ forward: { host: '127.0.0.1', port: origin.port }, target }) },
    onSwitch: (client, server) => {
      client.destroy();
      server.destroy();
    },
  });
  const listener = createRaw({ allowHalfOpen: true }, (socket) => {
    proxy.serve(socket, portOf(listener.address()), '127.0.0.1');
  });
  listener.listen(0, '127.0.0.1');
  await once(listener, 'listening');
  try {
    const { all, results } = await runSuite(`http://127.0.0.1:${portOf(listener.address())}`, only);
    process.stdout.write(`\n${JSON.stringify(cache.numbers())}\n`);
    return report(all, results);
  } finally {
    listener.close();
    await proxy.close(0);
    upstreams.close();
    cache.close();
    await origin.close();
  }
}

/** The suite without what it depends on: its command line alone needs that. */
function fetchSuite(): void {
  const packed = execFileSync('npm', ['pack', '--silent', SUITE], { cwd: folder, encoding: 'utf8' }).trim();
  const file = packed.split('\n').pop() ?? '';
  execFileSync('tar', ['xzf', file], { cwd: folder });
}

async function load(path: string): Promise<Record<string, unknown>> {
  return z
    .record(z.string(), z.unknown())
    .parse({ ...(await import(pathToFileURL(join(folder, 'package', path)).href)) });
}

const isFunction = z.custom<(...args: readonly unknown[]) => unknown>((value) => typeof value === 'function');

async function handlerOf(path: string): Promise<Handler> {
  const { default: handler } = await load(path);
  const call = isFunction.parse(handler);
  return (...args) => void call(...args);
}

/** The suite's origin. It also says its Cache-Control under another name, for the suite compares what it sent with what came. */
async function openOrigin(): Promise<{ port: number; close: () => Promise<void> }> {
  const handlers: Record<string, Handler> = {
    config: await handlerOf('server/handle-config.mjs'),
    test: await handlerOf('server/handle-test.mjs'),
    state: await handlerOf('server/handle-state.mjs'),
  };
  const server = createServer((request, response) => {
    const [, kind = '', ...segments] = (request.url ?? '').replace(/\?.*$/, '').split('/');
    const setHeader = response.setHeader.bind(response);
    response.setHeader = (name, value) => {
      if (name.toLowerCase() === 'cache-control') setHeader(ORIGINAL, [value].flat().map(String));
      return setHeader(name, value);
    };
    handlers[kind]?.(segments, request, response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: portOf(server.address()),
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

interface Ran {
  readonly all: z.output<typeof suites>;
  readonly results: ReadonlyMap<string, z.output<typeof outcome>>;
}

async function runSuite(base: string, only: string | undefined): Promise<Ran> {
  const { default: index } = await load('tests/index.mjs');
  const { default: surrogate } = await load('tests/surrogate-control.mjs');
  const runner = await load('client/runner.mjs');
  const runTests = isFunction.parse(runner.runTests);
  const getResults = isFunction.parse(runner.getResults);
  const listed = [...z.array(z.unknown()).parse(index), surrogate];
  const all = suites.parse(listed);
  // The tests themselves, not what was read of them: the runner writes into them.
  const chosen =
    only === undefined
      ? listed
      : all.map((suite) => ({ ...suite, tests: suite.tests.filter(({ id }) => id === only) }));
  await runTests(chosen, fetchThrough, false, base);
  return { all, results: new Map(Object.entries(z.record(z.string(), outcome).parse(getResults()))) };
}

/** Tests in which the gateway had no answer of the origin. */
const unanswered = new Set<string>();

/** Fetch, showing the Cache-Control that the origin sent. */
async function fetchThrough(url: string, init: RequestInit & { cache?: string } = {}): Promise<Response> {
  const { cache: _, ...rest } = init;
  const response = await fetch(url, rest);
  // Answered by the gateway itself: without the origin's count the suite takes it for something kept.
  if (response.status === 502 && !response.headers.has('server-request-count')) {
    const id = new Headers(rest.headers).get('test-id');
    if (id !== null) unanswered.add(id);
  }
  const original = response.headers.get(ORIGINAL);
  if (original === null) return response;
  const headers = new Headers(response.headers);
  headers.set('cache-control', original);
  const hasBody = ![101, 204, 205, 304].includes(response.status);
  return new Response(hasBody ? response.body : null, { status: response.status, headers });
}

/** Prints what is not a pass, and why; 1 when something is reused that may not be, or nobody knows why. */
function report(all: Ran['all'], results: Ran['results']): number {
  const counts = new Map<string, number>();
  const bad: string[] = [];
  for (const suite of all) {
    for (const { id, kind, name } of suite.tests) {
      const result = results.get(id);
      if (result === undefined) continue;
      const what =
        result === true
          ? kind === 'check'
            ? 'yes'
            : 'pass'
          : kind === 'check'
            ? 'no'
            : result[0] === 'Setup'
              ? 'unmet'
              : kind;
      counts.set(what, (counts.get(what) ?? 0) + 1);
      if (result === true) continue;
      const test = `${suite.id}/${id}`;
      const reason = reasonOf(test);
      process.stdout.write(
        `${what.padEnd(8)} ${test}: ${name.replaceAll('\n', ' ')} [${result[1]}] ${reason ?? '???'}\n`,
      );
      const isUnsafe =
        kind === 'required' && /comes from cache/.test(result[1]) && !unanswered.has(id) && reason !== INVALID_AGE;
      if (isUnsafe) bad.push(`${test} is an unsafe reuse`);
      if (reason === undefined) bad.push(`${test} is not explained`);
    }
  }
  process.stdout.write(`${[...counts].map(([what, count]) => `${what} ${count}`).join(', ')}\n`);
  for (const line of bad) process.stdout.write(`${line}\n`);
  return bad.length === 0 && results.size > 0 ? 0 : 1;
}

function portOf(address: string | AddressInfo | null): number {
  if (typeof address !== 'object' || address === null) throw new Error('not listening');
  return address.port;
}

try {
  process.exitCode = await run(process.argv[2]);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
