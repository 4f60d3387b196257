/** An ordinary app behind a port that `troupe deploy` opened: it says nothing of caching, and is right at once in a browser. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { type TestContext, test } from 'node:test';
import { z } from 'zod';
import { CACHE_OF_OPENED } from '../../cmd/client/cache.ts';
import type { CacheMode } from '../../proto/gateway/cache-mode.ts';
import { insertRule } from '../../storage/compute/ingress.ts';
import { openBrowser } from '../support/clients/browser.ts';
import { testDatabase } from '../support/database/database.ts';
import { addContainer, runningState } from '../support/gateway/containers.ts';
import { startGateway } from '../support/gateway/gateway.ts';
import { httpOrigin } from '../support/gateway/proxy.ts';
import { failOnLeaks } from '../support/leaks.ts';
import { skipWithout } from '../support/require.ts';

failOnLeaks();

const CONTAINER = 'abcdefghijk1';
const PAGE = '<!doctype html><title>todos</title><h1>Todos</h1>';

/** Todos and a clock, which answers as `res.json` of Express: with an entity tag, and no Cache-Control. */
function todoApp() {
  const todos: { id: number; text: string; done: boolean }[] = [];
  let ticks = 0;
  const send = (
    incoming: IncomingMessage,
    response: ServerResponse,
    value: unknown,
    type = 'application/json',
  ): void => {
    const body = typeof value === 'string' ? value : JSON.stringify(value);
    const etag = `W/"${createHash('sha1').update(body).digest('base64')}"`;
    const isSame = incoming.method === 'GET' && incoming.headers['if-none-match'] === etag;
    const fields = { etag, 'x-powered-by': 'Express' };
    if (isSame) response.writeHead(304, fields).end();
    else
      response.writeHead(200, { ...fields, 'content-type': type, 'content-length': Buffer.byteLength(body) }).end(body);
  };
  return async (incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { method, url = '/' } = incoming;
    const [, id] = /^\/api\/todos\/(\d+)$/.exec(url) ?? [];
    if (method === 'GET' && url === '/') return send(incoming, response, PAGE, 'text/html; charset=utf-8');
    if (method === 'GET' && url === '/api/time') return send(incoming, response, { now: ticks++ });
    if (method === 'GET' && url === '/api/todos') return send(incoming, response, todos);
    if (method === 'GET') return void response.writeHead(404).end();
    const said = z.object({ text: z.string().optional(), done: z.boolean().optional() });
    const { text: words = '', done = false } = said.parse(JSON.parse(await text(incoming)));
    const known = todos[Number(id) - 1];
    if (method === 'POST') todos.push({ id: todos.length + 1, text: words, done: false });
    else if (known !== undefined) known.done = done;
    send(incoming, response, known ?? todos.at(-1));
  };
}

/** The app behind the gateway, with a cache of this mode. */
async function openApp(t: TestContext, cache: CacheMode) {
  const { db, close } = await testDatabase();
  t.after(close);
  const answer = todoApp();
  const origin = await httpOrigin(t, (incoming, response) => void answer(incoming, response));
  await addContainer(db, CONTAINER);
  await db.tx((tx) => insertRule(tx, CONTAINER, { port: 80, targetPort: origin, tls: 'container', cache }));
  const state = runningState(CONTAINER);
  const engine = { list: async () => [state], inspect: async () => state, dial: () => Promise.reject(new Error('no')) };
  const { ports } = await startGateway(t, { db, isCaching: true, engine });
  const url = `http://${CONTAINER}.compute.cloud.test:${ports.http}/`;
  return openBrowser(t, url, ['--host-resolver-rules=MAP *.cloud.test 127.0.0.1']);
}

/** What a page of the app does: adds a todo, ticks it off, and looks at the clock twice. */
const USES = `async () => {
  const ask = async (method, path, body) => {
    const headers = body === undefined ? {} : { 'content-type': 'application/json' };
    const answer = await fetch(path, { method, headers, body: body && JSON.stringify(body) });
    return { value: await answer.json(), age: answer.headers.get('age'), status: answer.headers.get('cache-status') };
  };
  const lists = [await ask('GET', '/api/todos')];
  await ask('POST', '/api/todos', { text: 'milk' });
  lists.push(await ask('GET', '/api/todos'));
  await ask('PUT', '/api/todos/1', { done: true });
  lists.push(await ask('GET', '/api/todos'));
  return { lists, times: [await ask('GET', '/api/time'), await ask('GET', '/api/time')] };
}`;
const answerOf = <T extends z.ZodType>(value: T) =>
  z.object({ value, age: z.string().nullable(), status: z.string().nullable() });
const todo = z.object({ text: z.string(), done: z.boolean() });
const usedSchema = z.object({
  lists: z.array(answerOf(z.array(todo))),
  times: z.array(answerOf(z.object({ now: z.number() }))),
});

const options = { skip: skipWithout('chromium'), timeout: 60_000 };

test('todos and a clock are right at once in Chromium', options, async (t) => {
  const { page, run } = await openApp(t, CACHE_OF_OPENED);
  assert.equal(await page.title(), 'todos');
  const { lists, times } = usedSchema.parse(await run(USES));
  assert.deepEqual(
    lists.map(({ value }) => value),
    [[], [{ text: 'milk', done: false }], [{ text: 'milk', done: true }]],
  );
  assert.notEqual(times[0]?.value.now, times[1]?.value.now);
  for (const { age, status } of [...lists, ...times]) {
    assert.equal(age, null);
    assert.match(String(status), /^troupe; fwd=/);
  }
});

test('with cache "default" they are not, and the answers say why', options, async (t) => {
  const { run } = await openApp(t, 'default');
  const { lists, times } = usedSchema.parse(await run(USES));
  assert.deepEqual(lists.at(-1)?.value, [{ text: 'milk', done: false }]);
  assert.equal(times[0]?.value.now, times[1]?.value.now);
  assert.match(times[1]?.status ?? '', /^troupe; hit; ttl=\d+$/);
});
