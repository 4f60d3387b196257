import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { z } from 'zod';
import { metricsAccess } from '../../cmd/observability/pages.ts';
import { type AnyEndpoint, type Call, type Caller, endpoint, type Service } from '../../proto/endpoint.ts';
import { Refusal } from '../../proto/errors.ts';
import { BodyError, type HttpReply, type HttpRequest } from '../../proto/ports/http.ts';
import { api, type Page } from '../../transports/api/api.ts';
import { OpenStreams } from '../../transports/api/open-streams.ts';
import { silentLog } from '../support/log.ts';

const actor = { kind: 'test', key: 'none' } as const;
const base = { service: 'compute', summary: 'A test', method: 'GET', actor } as const;
const endpoints: AnyEndpoint[] = [
  endpoint('open', 'GET /open', { ...base, access: 'none' }),
  endpoint('mine', 'GET /mine', { ...base, access: 'session' }),
  endpoint('admin', 'GET /admin', { ...base, access: 'admin' }),
  endpoint('scoped', 'GET /things/{id}', {
    ...base,
    access: 'token',
    params: z.object({ id: z.string().max(4) }),
    scope: { key: (uid, params) => `compute.${uid}.things.${params.id}`, action: 'read' },
  }),
  endpoint('make', 'POST /things', {
    ...base,
    access: 'none',
    status: 201,
    body: z.object({ name: z.string(), deep: z.object({ size: z.int() }).optional() }),
  }),
  endpoint('paint', 'POST /paintings', {
    ...base,
    access: 'none',
    body: z.strictObject({ name: z.string(), color: z.enum(['red', 'blue']).optional() }),
  }),
  endpoint('search', 'GET /search', {
    ...base,
    access: 'none',
    query: z.object({ limit: z.string().regex(/^\d+$/).transform(Number).default(20) }),
  }),
  endpoint('socket', 'GET /ws', { ...base, access: 'token', socket: true }),
];

const callers: Record<string, Caller> = {
  ann: { kind: 'session', userId: 'u1', username: 'ann', isAdmin: false, tokenId: 't', expiresAt: 0 },
  root: { kind: 'session', userId: 'u0', username: 'root', isAdmin: true, tokenId: 't', expiresAt: 0 },
  robot: {
    kind: 'api_token',
    userId: 'u1',
    username: 'ann',
    isAdmin: false,
    tokenId: 't',
    expiresAt: 0,
    scopes: { 'compute.u1.things.a': ['read'] },
  },
};

let answer: (endpoint: AnyEndpoint, call: Call) => unknown = () => undefined;
const service: Service = {
  name: 'compute',
  endpoints,
  call: async (endpoint, call) => answer(endpoint, call),
  connect: async () => ({ open() {}, message() {}, drain() {}, close() {} }),
  health: async () => ({ ok: true, problems: [] }),
};
const replies: [string, number][] = [];
const { onRequest, onUpgrade } = api({
  service,
  authenticate: (token) => callers[token],
  streams: new OpenStreams(
    { grant: async () => undefined, knowsUser: async () => true, onNews: () => ({ close: async () => {} }) },
    silentLog,
  ),
  pages: new Map<string, Page>([
    ['/healthz', { reply: () => ({ status: 200, headers: [], body: 'fine' }) }],
    ['/metrics', { refuse: metricsAccess(undefined), reply: () => ({ status: 200, headers: [], body: 'numbers' }) }],
    [
      '/broken',
      {
        reply: () => {
          throw new Error('broken page');
        },
      },
    ],
  ]),
  log: silentLog,
  onReply: (name, status) => replies.push([name, status]),
});

function request(
  method: string,
  url: string,
  options: { token?: string; body?: string | Uint8Array | BodyError } = {},
): HttpRequest {
  const [path = '', query = ''] = url.split('?');
  const { token, body = '' } = options;
  return {
    method,
    path,
    query,
    remoteAddress: '127.0.0.1',
    header: (name) => (name === 'authorization' && token !== undefined ? `Bearer ${token}` : undefined),
    stream: () => Readable.from([]),
    body: async () => {
      if (body instanceof BodyError) throw body;
      return typeof body === 'string' ? Buffer.from(body) : body;
    },
    signal: new AbortController().signal,
  };
}

async function ask(
  method: string,
  url: string,
  options: { token?: string; body?: string | Uint8Array | BodyError } = {},
) {
  const reply = await onRequest(request(method, url, options));
  return read(reply as HttpReply);
}

function read(reply: HttpReply) {
  const json: Record<string, unknown> =
    typeof reply.body === 'string' && reply.body.startsWith('{') ? JSON.parse(reply.body) : {};
  return { status: reply.status, headers: new Map(reply.headers), body: reply.body, json };
}

test('a reply carries what the service answered and an id', async () => {
  answer = () => ({ hello: 'world' });
  const reply = await ask('GET', '/open');
  assert.equal(reply.status, 200);
  assert.deepEqual(reply.json, { hello: 'world' });
  assert.equal(reply.headers.get('cache-control'), 'no-store');
  assert.match(reply.headers.get('x-request-id') ?? '', /^[0-9a-f]{8}-/);
  assert.deepEqual(replies.at(-1), ['open', 200]);
});

test('without a reply schema the body is empty', async () => {
  answer = () => undefined;
  assert.equal((await ask('GET', '/open')).body, undefined);
});

test('who may call follows from the access of the endpoint', async () => {
  answer = (_endpoint, call) => ({ user: call.caller?.userId ?? null });
  const cases: [url: string, token: string | undefined, status: number, code?: string][] = [
    ['/open', undefined, 200],
    ['/mine', undefined, 401, 'unauthorized'],
    ['/mine', 'nobody', 401, 'unauthorized'],
    ['/mine', 'ann', 200],
    ['/mine', 'robot', 403, 'forbidden'],
    ['/admin', 'ann', 403, 'forbidden'],
    ['/admin', 'robot', 403, 'forbidden'],
    ['/admin', 'root', 200],
    ['/things/a', 'ann', 200],
    ['/things/a', 'robot', 200],
    ['/things/b', 'robot', 403, 'missing_scope'],
  ];
  for (const [url, token, status, code] of cases) {
    const reply = await ask('GET', url, token === undefined ? {} : { token });
    assert.equal(reply.status, status, `${url} as ${token}`);
    if (code !== undefined) assert.equal(reply.json.code, code);
  }
});

test('a missing scope is named exactly, and a 401 says how to log in', async () => {
  assert.equal(
    (await ask('GET', '/things/b', { token: 'robot' })).json.error,
    'forbidden: missing compute.u1.things.b scope',
  );
  assert.equal((await ask('GET', '/mine')).headers.get('www-authenticate'), 'Bearer');
});

test('bodies are parsed and checked before the service is asked', async () => {
  let asked = 0;
  answer = (_endpoint, call) => {
    asked++;
    return { got: call.body };
  };
  const made = await ask('POST', '/things', { body: '{"name":"x","more":1}' });
  assert.equal(made.status, 201);
  assert.deepEqual(made.json, { got: { name: 'x' } });
  const escaped = await ask('POST', '/things', { body: '{"name":"\\ud83d\\uDE00 \\\\ud800 \\u0041"}' });
  assert.deepEqual(escaped.json, { got: { name: '\u{1f600} \\ud800 A' } });
  const bad: [body: string | Uint8Array | BodyError, status: number, code: string][] = [
    ['', 400, 'invalid_json'],
    ['{', 400, 'invalid_json'],
    [new Uint8Array([0x22, 0xff, 0x22]), 400, 'invalid_json'],
    ['{"name":"\\ud800"}', 400, 'invalid_json'],
    ['{"name":"a\\uDC00b"}', 400, 'invalid_json'],
    ['{"name":"a","deep":{"\\udfff":1}}', 400, 'invalid_json'],
    ['{"name":"\\\\\\ud83d"}', 400, 'invalid_json'],
    ['{"name":"\\ud83d\\ud83d\\ude00"}', 400, 'invalid_json'],
    [`{"deep":${'['.repeat(100_000)}"\\ud800"${']'.repeat(100_000)}}`, 400, 'invalid_json'],
    ['null', 400, 'invalid_request'],
    ['{"name":1}', 400, 'invalid_request'],
    [`${'['.repeat(100_000)}`, 400, 'invalid_json'],
    [new BodyError('too_large'), 413, 'body_too_large'],
  ];
  for (const [body, status, code] of bad) {
    const reply = await ask('POST', '/things', { body });
    assert.deepEqual([reply.status, reply.json.code], [status, code]);
  }
  assert.equal(asked, 2);
});

test('every wrong field is named', async () => {
  const { json } = await ask('POST', '/things', { body: '{"deep":{"size":"big"}}' });
  assert.ok(Array.isArray(json.fields));
  assert.deepEqual(
    json.fields.map((field: { path: string }) => field.path),
    ['name', 'deep.size'],
  );
  assert.match(String(json.error), /^The request body is not valid: "name" /);
});

test('what is wrong with a field is said in words', async () => {
  for (const [body, error] of [
    [{ name: 'a', color: 'green' }, '"color" must be one of red, blue'],
    [{ name: 'a', size: 1 }, 'it has a field that is not known: size'],
    [{ name: 'a', size: 1, age: 2 }, 'it has fields that are not known: size, age'],
    [{ name: 7 }, '"name" must be a string'],
    [{}, '"name" is missing: it is a string'],
  ] as const) {
    const { json } = await ask('POST', '/paintings', { body: JSON.stringify(body) });
    assert.equal(json.error, `The request body is not valid: ${error}.`);
  }
});

test('a query goes through its schema, with defaults', async () => {
  answer = (_endpoint, call) => ({ query: call.query });
  assert.deepEqual((await ask('GET', '/search')).json, { query: { limit: 20 } });
  assert.deepEqual((await ask('GET', '/search?limit=5&__proto__=x')).json, { query: { limit: 5 } });
  assert.equal((await ask('GET', '/search?limit=-1')).json.code, 'invalid_request');
});

test('a path parameter that cannot be one is a 404, like an unknown one', async () => {
  assert.equal((await ask('GET', '/things/toolong', { token: 'ann' })).status, 404);
});

test('unknown paths, other methods and plain requests to a socket are refused', async () => {
  assert.equal((await ask('GET', '/nothing')).json.code, 'not_found');
  const wrong = await ask('DELETE', '/open');
  assert.deepEqual([wrong.status, wrong.headers.get('allow')], [405, 'GET']);
  assert.equal((await ask('GET', '/ws', { token: 'ann' })).status, 426);
});

test('a refusal keeps its sentence and its wait', async () => {
  answer = () => {
    throw new Refusal('too_many_attempts', { retryAfter: 7.2 });
  };
  const limited = await ask('GET', '/open');
  assert.deepEqual([limited.status, limited.headers.get('retry-after')], [429, '8']);
  answer = () => {
    throw new Refusal('unavailable', { message: 'Away.' });
  };
  const away = await ask('GET', '/open');
  assert.deepEqual([away.status, away.headers.get('retry-after'), away.json.error], [503, '5', 'Away.']);
});

test('a fault of ours tells nothing of its cause', async () => {
  answer = () => {
    throw new Error('password=hunter2 at line 3');
  };
  const reply = await ask('GET', '/open');
  assert.deepEqual([reply.status, reply.json.code], [500, 'internal']);
  assert.doesNotMatch(String(reply.body), /hunter2/);
});

test('pages are served beside the endpoints, and a broken one is a 500', async () => {
  assert.equal((await ask('GET', '/healthz')).body, 'fine');
  assert.equal((await ask('GET', '/broken')).status, 500);
});

test('an internal page is not there for who asks through a proxy', async () => {
  assert.equal((await ask('GET', '/metrics')).body, 'numbers');
  const passedOn = {
    ...request('GET', '/metrics'),
    header: (name: string) => (name === 'x-forwarded-for' ? '192.0.2.1' : undefined),
  };
  assert.equal(read((await onRequest(passedOn)) as HttpReply).status, 404);
});

test('an upgrade is decided before it happens', async () => {
  const refused = await onUpgrade(request('GET', '/ws'));
  assert.ok('refuse' in refused && refused.refuse.status === 401);
  const missing = await onUpgrade(request('GET', '/open'));
  assert.ok('refuse' in missing && missing.refuse.status === 404);
  for (const accepted of [
    await onUpgrade(request('GET', '/ws', { token: 'ann' })),
    await onUpgrade(request('GET', '/ws?token=ann')),
  ]) {
    assert.ok('accept' in accepted);
  }
});

test('a refused upgrade of a page is accepted and closed with the status, and a sentence that fits', async () => {
  for (const [url, status] of [
    ['/ws', 4401],
    ['/open', 4404],
  ] as const) {
    const page = {
      ...request('GET', url),
      header: (name: string) => (name === 'origin' ? 'https://a.test' : undefined),
    };
    const answer = await onUpgrade(page);
    assert.ok('accept' in answer);
    const closes: [number, string][] = [];
    const socket = { send: () => true, batch: () => true, buffered: () => 0, pause() {}, resume() {} };
    answer.accept.open({ ...socket, close: (code, reason) => closes.push([code, reason]) });
    assert.deepEqual(
      closes.map(([code]) => code),
      [status],
    );
    assert.ok(closes.every(([, reason]) => reason !== '' && Buffer.byteLength(reason) <= 123));
  }
});

test('the query token opens sockets only', async () => {
  assert.equal((await ask('GET', '/mine?token=ann')).status, 401);
});
