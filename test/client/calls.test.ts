/** Calls over a real connection, to a server that answers as it is told. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { test } from 'node:test';
import { type LimitWait, TroupeClient, TroupeError, webTransport } from '../../client/index.ts';
import { nodeTransport } from '../../client/node/index.ts';
import type { Cleanup } from '../support/temp.ts';
import { until } from '../support/until.ts';

interface Seen {
  readonly method: string | undefined;
  readonly url: string | undefined;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

type Answer = (response: ServerResponse) => void;

const json =
  (status: number, value: unknown, headers: Record<string, string> = {}): Answer =>
  (response) => {
    response.writeHead(status, { 'content-type': 'application/json', 'x-request-id': 'r-1', ...headers });
    response.end(value === undefined ? '' : JSON.stringify(value));
  };
const cut: Answer = (response) => response.destroy();
const EMPTY = { containers: [] };

/** A server that gives these answers one after the other, and what it was sent. */
async function server(t: Cleanup, ...answers: readonly Answer[]) {
  const seen: Seen[] = [];
  const http = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk: Buffer) => (body += chunk));
    request.on('end', () => {
      const { method, url, headers } = request;
      seen.push({ method, url, headers, body });
      (answers[seen.length - 1] ?? cut)(response);
    });
  });
  http.listen(0, '127.0.0.1');
  await once(http, 'listening');
  t.after(() => {
    http.closeAllConnections();
    http.close();
  });
  const address = http.address();
  const url = `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`;
  return { seen, url, client: new TroupeClient({ url, token: 'secret', transport: nodeTransport() }) };
}

async function failure(work: Promise<unknown>): Promise<TroupeError> {
  const error = await work.then(
    () => undefined,
    (reason) => reason,
  );
  assert.ok(error instanceof TroupeError, String(error));
  return error;
}

test('a call sends parameters, query, body and token, and reads the reply', async (t) => {
  const { client, seen } = await server(t, json(200, { id: 'x' }), json(200, { port: 80 }), json(204, undefined));
  await client.call('startContainer', { params: { id: 'a/b' }, query: { discard: 'true' } });
  const rule = await client.call('addIngress', { params: { id: 'c' }, body: { port: 80, target_port: 8080 } });
  assert.equal(rule.port, 80);
  assert.equal(await client.call('deleteMapping', { params: { id: 'c' } }), undefined);
  assert.deepEqual(
    seen.map(({ method, url, body }) => [method, url, body]),
    [
      ['POST', '/compute/containers/a%2Fb/start?discard=true', ''],
      ['POST', '/compute/containers/c/ingress', '{"port":80,"target_port":8080}'],
      ['DELETE', '/api/domain-mappings/c', ''],
    ],
  );
  assert.equal(seen[0]?.headers.authorization, 'Bearer secret');
  assert.equal(seen[1]?.headers['content-type'], 'application/json');
});

test('a refusal is an error with code, status, fields, request id and sentence', async (t) => {
  const fields = [{ path: 'body.name', message: 'must not be empty' }];
  const body = { error: 'The request is not valid.', code: 'invalid_request', fields };
  const { client } = await server(t, json(400, body), (response) =>
    response.writeHead(409, { 'content-type': 'text/plain; charset=utf-8' }).end('domain already in use'),
  );
  const made = client.call('createContainer', { body: { name: '', ssh_key_ids: [1] } });
  const { code, status, message, requestId, fields: found } = await failure(made);
  assert.deepEqual([code, status, message, requestId], ['invalid_request', 400, body.error, 'r-1']);
  assert.deepEqual(found, fields);
  const mapping = { container_id: 'c', domain: 'a.example.com', target_port: 80 };
  const taken = await failure(client.call('createMapping', { body: mapping }));
  assert.deepEqual([taken.code, taken.message], ['conflict', 'domain already in use']);
});

test('what may make something twice is not tried again; a GET is, after as long as the server asks', async (t) => {
  const busy = json(503, { error: 'busy', code: 'overloaded' }, { 'retry-after': '1' });
  const { client, seen } = await server(t, busy, cut, json(200, EMPTY), busy);
  const began = performance.now();
  assert.deepEqual(await client.call('listContainers'), EMPTY);
  assert.ok(performance.now() - began >= 1000);
  assert.equal(seen.length, 3);
  const refused = await failure(client.call('updateContainer', { params: { id: 'x' }, body: { name: 'y' } }));
  assert.deepEqual([refused.code, refused.retryAfter, seen.length], ['overloaded', 1, 4]);
});

test('what takes an Idempotency-Key is tried again with the same key, which another call does not have', async (t) => {
  const busy = json(503, { error: 'busy', code: 'unavailable' }, { 'retry-after': '0' });
  const inUse = json(409, { error: 'runs', code: 'idempotency_key_in_use' }, { 'retry-after': '0' });
  const made = json(200, { id: 'made' }, { 'idempotency-replayed': 'true' });
  const { client, seen } = await server(t, cut, inUse, inUse, inUse, busy, made, made, busy, busy, busy);
  const body = { name: 'x', ssh_key_ids: [1] };
  // Waiting for the first attempt is no attempt.
  assert.equal((await client.call('createContainer', { body })).id, 'made');
  assert.equal(seen.length, 6);
  const keys = seen.map(({ headers }) => headers['idempotency-key']);
  assert.match(String(keys[0]), /^[0-9a-f]{32}$/);
  assert.equal(new Set(keys).size, 1);
  assert.equal(new Set(seen.map((one) => one.body)).size, 1);
  await client.call('createContainer', { body }, { idempotencyKey: 'of my own' });
  assert.equal(seen[6]?.headers['idempotency-key'], 'of my own');
  const refused = await failure(client.call('createContainer', { body }));
  assert.deepEqual([refused.code, seen.length], ['unavailable', 10]);
  assert.notEqual(seen[7]?.headers['idempotency-key'], keys[0]);
});

const limited = json(429, { error: 'too fast', code: 'too_many_changes' }, { 'retry-after': '1' });

test('past the limit on changes whatever call waits as long as asked, and is sent again as it was', async (t) => {
  const { url, seen } = await server(t, limited, limited, json(200, { name: 'y' }), limited, json(204, undefined));
  const waits: LimitWait[] = [];
  const onLimitWait = (wait: LimitWait) => void waits.push(wait);
  const client = new TroupeClient({ url, token: 'secret', transport: nodeTransport(), onLimitWait });
  const began = performance.now();
  await client.call('updateContainer', { params: { id: 'x' }, body: { name: 'y' } });
  assert.ok(performance.now() - began >= 2000);
  assert.deepEqual(
    seen.map(({ method, body }) => [method, body]),
    Array.from({ length: 3 }, () => ['PATCH', '{"name":"y"}']),
  );
  const [first, second] = waits;
  assert.deepEqual([first?.waitedMs, second?.waitedMs, second?.error.message], [0, first?.waitMs, 'too fast']);
  await client.transfer('PUT', '/x', { body: Buffer.from('bytes') });
  assert.deepEqual([seen[3]?.body, seen[4]?.body], ['bytes', 'bytes']);
});

test('the wait for the limit on changes is bounded, and ends by the signal of the call', async (t) => {
  const long = json(429, { error: 'too fast', code: 'too_many_changes' }, { 'retry-after': '50' });
  const attempts = json(429, { error: 'wrong', code: 'too_many_attempts' }, { 'retry-after': '1' });
  const { url, seen, client } = await server(t, limited, limited, limited, long, attempts, long);
  const brief = new TroupeClient({ url, transport: nodeTransport(), limitWaitMs: 2600 });
  assert.equal((await failure(brief.call('logout'))).code, 'too_many_changes');
  assert.equal(seen.length, 3);
  assert.equal((await failure(brief.call('logout'))).retryAfter, 50);
  assert.equal((await failure(client.call('logout'))).code, 'too_many_attempts');
  const controller = new AbortController();
  const began = performance.now();
  const call = failure(client.call('logout', {}, { signal: controller.signal }));
  await until(() => seen.length === 6, { what: 'it is refused' });
  controller.abort();
  assert.equal((await call).code, 'cancelled');
  assert.ok(performance.now() - began < 40_000);
});

test('a request of a program is sent once, with the headers that it names', async (t) => {
  const busy = json(503, { error: 'busy', code: 'unavailable' });
  const { client, seen } = await server(t, busy, json(200, {}));
  const options = { idempotencyKey: 'k', headers: { accept: 'text/plain', 'x-a': 'b' } };
  await failure(client.request('POST', '/compute/ssh-keys', {}, options));
  assert.equal(seen.length, 1);
  const { 'idempotency-key': key, accept, 'x-a': more, authorization } = seen[0]?.headers ?? {};
  assert.deepEqual([key, accept, more, authorization], ['k', 'text/plain', 'b', 'Bearer secret']);
  await client.request('GET', '/api/session');
  assert.equal(seen[1]?.headers.accept, 'application/json');
});

test('a GET is not tried again for what no pause mends, nor when the server asks for minutes', async (t) => {
  const { client, seen } = await server(
    t,
    json(404, { error: 'no', code: 'not_found' }),
    json(503, { error: 'later', code: 'unavailable' }, { 'retry-after': '120' }),
  );
  assert.equal((await failure(client.call('listContainers'))).code, 'not_found');
  assert.equal((await failure(client.call('listContainers'))).retryAfter, 120);
  assert.equal(seen.length, 2);
});

test('a call ends by its signal, and by its time', async (t) => {
  const { client } = await server(
    t,
    () => {},
    () => {},
  );
  const controller = new AbortController();
  const call = failure(client.call('logout', {}, { signal: controller.signal }));
  controller.abort();
  assert.equal((await call).code, 'cancelled');
  const late = await failure(client.call('logout', {}, { timeoutMs: 50 }));
  assert.deepEqual([late.code, late.status], ['timeout', 0]);
});

test('what is not there, and what is no Troupe, has a code and a sentence', async (t) => {
  const { client, url } = await server(t, (response) => response.end('<html>'));
  assert.equal((await failure(client.call('listContainers'))).code, 'unreadable');
  const nowhere = new TroupeClient({ url: 'http://127.0.0.1:1', transport: nodeTransport() });
  const { code, message } = await failure(nowhere.call('logout'));
  assert.deepEqual([code, message], ['unreachable', '127.0.0.1:1 cannot be reached: nothing listens there.']);
  assert.ok(url);
});

test('the transport of browsers does the same', async (t) => {
  const { url, seen } = await server(t, json(200, EMPTY), json(403, { error: 'no', code: 'forbidden' }), cut);
  const transport = webTransport(fetch, class {} as never);
  const client = new TroupeClient({ url, token: () => 'asked', transport });
  assert.deepEqual(await client.call('listContainers'), EMPTY);
  assert.equal(seen[0]?.headers.authorization, 'Bearer asked');
  assert.equal((await failure(client.call('listContainers'))).code, 'forbidden');
  assert.equal((await failure(client.call('logout'))).code, 'unreachable');
});

test('a log is read as lines, also of a container that does not run', async (t) => {
  const stamp = (n: number) => `2026-01-31T12:00:00.00000000${n}Z`;
  const log =
    (text: string): Answer =>
    (response) =>
      response.end(text);
  const { client, seen } = await server(t, log(`${stamp(1)} one\n${stamp(2)}  two \n`), log(''));
  const until = stamp(3);
  assert.deepEqual(await client.readLog({ id: 'x', tail: 2, until, stream: 'stderr' }), [
    { stamp: stamp(1), text: 'one' },
    { stamp: stamp(2), text: ' two ' },
  ]);
  assert.deepEqual(await client.readLog({ id: 'x' }), []);
  assert.deepEqual(
    seen.map(({ method, url }) => `${method} ${url}`),
    [
      `GET /compute/containers/x/logs?tail=2&until=${encodeURIComponent(until)}&stream=stderr`,
      'GET /compute/containers/x/logs',
    ],
  );
});

test('the token goes to the origin of the client alone, whatever a path or an answer says', async (t) => {
  const other = await server(t, json(200, {}), json(200, {}));
  const { host } = new URL(other.url);
  const { client, seen, url } = await server(
    t,
    json(307, {}, { location: `${other.url}/led` }),
    json(302, {}, { location: `//${host}/led` }),
    json(200, {}),
  );
  const own = new URL(url).host;
  const paths = [`//${host}/x`, `/\\${host}/x`, `\\\\${host}/x`, `/\t/${host}/x`, `${other.url}/x`, `https://${own}/x`];
  for (const path of [...paths, `//me:word@${own}/x`, `ws://${own}/x`, 'data:,x', 'http://']) {
    assert.equal((await failure(client.request('GET', path))).code, 'elsewhere', path);
    assert.equal((await failure(client.request('POST', path, { a: 1 }))).code, 'elsewhere', path);
    assert.equal((await failure(client.transfer('PUT', path, { body: new Uint8Array(1) }))).code, 'elsewhere', path);
  }
  assert.equal(seen.length, 0);
  assert.equal((await failure(client.request('POST', '/led', {}))).status, 307);
  assert.equal((await failure(client.request('GET', '/led'))).status, 302);
  assert.equal((await client.request('GET', `${url}/whole`)).status, 200);
  assert.deepEqual([seen.length, other.seen.length], [3, 0]);
});

test('a stream whose path leads to another origin is not opened', async (t) => {
  const other = await server(t, json(200, {}));
  const asked: string[] = [];
  const transport = { ...nodeTransport(), connect: () => assert.fail('it was opened') };
  const client = new TroupeClient({ url: 'http://127.0.0.1:1', token: 'secret', transport });
  const stream = client.stream({
    path: () => `//${new URL(other.url).host}/x`,
    onState: ({ state }) => asked.push(state),
  });
  const { how, error } = await stream.done;
  assert.deepEqual([how, error?.code, asked], ['defect', 'elsewhere', ['connecting', 'closed']]);
});
