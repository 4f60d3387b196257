/** Requests that wait for another's response: how long, and what for. The exchange is played by the test. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { ResponseCache } from '../../transports/gateway/cache/response-cache.ts';
import type { CacheAnswer, CacheSink } from '../../transports/gateway/h1/exchange-sides.ts';
import { readResponseHead } from '../../transports/gateway/h1/response-head.ts';
import { readRequestHead } from '../../transports/wire/h1/request-head.ts';

function openCache(t: TestContext): ResponseCache {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const cache = new ResponseCache();
  t.after(() => cache.close());
  return cache;
}

function ask(cache: ResponseCache, lines = '', path = '/x', host = 'a.test') {
  const head = readRequestHead(`GET ${path} HTTP/1.1\r\nHost: ${host}\r\n${lines}\r\n`);
  if ('reason' in head) throw new Error(head.reason);
  return cache.ask({
    head,
    origin: { host: '127.0.0.1', port: 1 },
    target: head.target,
    isEncrypted: false,
    address: '127.0.0.1',
  });
}

function sinkOf(answer: CacheAnswer | Promise<CacheAnswer>): CacheSink {
  assert.ok(!(answer instanceof Promise) && answer.kind === 'forward' && answer.sink !== undefined);
  return answer.sink;
}

function respond(sink: CacheSink, lines = 'Content-Length: 2\r\n', body = 'ok'): void {
  const response = readResponseHead(`HTTP/1.1 200 OK\r\n${lines}\r\n`, 'GET');
  if (typeof response === 'string') throw new Error(response);
  sink.begin(response);
  sink.data(Buffer.from(body));
  sink.end();
}

test('nobody waits for more than five seconds, and the next not at all', async (t) => {
  const cache = openCache(t);
  const sink = sinkOf(ask(cache));
  const waiting = ask(cache);
  assert.ok(waiting instanceof Promise);
  t.mock.timers.tick(5000);
  assert.deepEqual(await waiting, { kind: 'forward' });
  assert.ok(!(ask(cache) instanceof Promise));
  // What comes late is kept all the same.
  respond(sink);
  const answer = ask(cache);
  assert.ok(!(answer instanceof Promise) && answer.kind === 'hit');
});

test('a first one that takes no more for a while gives its place to the next', async (t) => {
  const cache = openCache(t);
  const slow = sinkOf(ask(cache));
  slow.paused();
  const second = ask(cache);
  const third = ask(cache);
  assert.ok(second instanceof Promise && third instanceof Promise);
  t.mock.timers.tick(100);
  slow.resumed();
  slow.paused();
  t.mock.timers.tick(249);
  slow.resumed();
  t.mock.timers.tick(1000);
  slow.paused();
  t.mock.timers.tick(250);
  respond(sinkOf(await second));
  const last = await third;
  assert.equal(last.kind, 'hit');
  // The slow one goes on by itself, and is kept no more.
  respond(slow, 'Content-Length: 4\r\n', 'slow');
  const answer = ask(cache);
  assert.ok(!(answer instanceof Promise) && answer.kind === 'hit' && answer.answer.length === 2);
});

test('whoever has a cookie waits only with others who have one, and gets only what is for everybody', async (t) => {
  const cache = openCache(t);
  const without = sinkOf(ask(cache));
  const personal = sinkOf(ask(cache, 'Cookie: a=b\r\n'));
  const alsoPersonal = ask(cache, 'Cookie: a=c\r\n');
  respond(without);
  assert.equal(cache.numbers().entries, 1);
  respond(personal);
  assert.deepEqual(await alsoPersonal, { kind: 'forward' });
});

test('after a mutation nobody joins those who asked before it', async (t) => {
  const cache = openCache(t);
  const before = sinkOf(ask(cache));
  const waiting = ask(cache);
  const post = readRequestHead('POST /x HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n');
  if ('reason' in post) throw new Error(post.reason);
  void cache.ask({
    head: post,
    origin: { host: '127.0.0.1', port: 1 },
    target: '/x',
    isEncrypted: false,
    address: '127.0.0.1',
  });
  const after = sinkOf(ask(cache));
  const alsoAfter = ask(cache);
  respond(before);
  assert.equal((await waiting).kind, 'hit');
  assert.equal(cache.numbers().entries, 0);
  respond(after, 'Content-Length: 3\r\n', 'new');
  const answer = await alsoAfter;
  assert.ok(answer.kind === 'hit' && answer.answer.length === 3);
  assert.equal(cache.numbers().entries, 1);
});

test('what is being collected is bounded, for a host and in all; beyond that responses pass', (t) => {
  const cache = openCache(t);
  const head = readResponseHead('HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n', 'GET');
  if (typeof head === 'string') throw new Error(head);
  const sinks: CacheSink[] = [];
  for (let host = 0; host < 10; host++) {
    for (let n = 0; n < 20; n++) {
      const sink = sinkOf(ask(cache, '', `/${n}`, `h${host}.test`));
      sink.begin(head);
      sinks.push(sink);
    }
    if (host === 0) assert.equal(cache.numbers().bytes, 16_000_000);
  }
  assert.equal(cache.numbers().bytes, 64_000_000);
  for (const sink of sinks) sink.abort();
  assert.equal(cache.numbers().bytes, 0);
});
