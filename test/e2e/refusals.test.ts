/** What the running platform refuses, over HTTP: every endpoint of the table, and the mistakes people make. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { Validator } from '@seriousme/openapi-schema-validator';
import { z } from 'zod';
import { actorSchema, listActors, runtimeEndpoints } from '../../proto/auth/actors.ts';
import { platformEndpoints } from '../../proto/auth/admin.ts';
import { authEndpoints } from '../../proto/auth/endpoints.ts';
import { platformFactsEndpoints } from '../../proto/auth/platform.ts';
import { computeEndpoints } from '../../proto/compute/endpoints.ts';
import type { AnyEndpoint } from '../../proto/endpoint.ts';
import { monitorEndpoints } from '../../proto/monitor/endpoints.ts';
import { notifyEndpoints } from '../../proto/notify/endpoints.ts';
import { UpgradeRefused, websocket } from '../support/clients/websocket.ts';
import { deleteAll, logIn, type RunningPlatform, request, startPlatform, troupe } from '../support/cluster/platform.ts';
import { testDatabase } from '../support/database/database.ts';
import { skipWithoutDocker, tinyImage } from '../support/engine/docker-client.ts';
import { tempDir } from '../support/temp.ts';

const ADMIN_PASSWORD = 'the admin of this test';
const NOBODYS_ID = 'aaaaaaaaaaaa';
const servedByAuth: readonly AnyEndpoint[] = [
  ...authEndpoints,
  ...runtimeEndpoints,
  ...platformEndpoints,
  ...platformFactsEndpoints,
];
const endpoints: readonly AnyEndpoint[] = [
  ...servedByAuth,
  ...computeEndpoints,
  ...monitorEndpoints,
  ...notifyEndpoints,
];

/** A valid body for each endpoint of a container that takes one. */
const RIGHT_BODIES: Record<string, object> = {
  updateContainer: { name: 'another' },
  setSsh: { ssh_enabled: true },
  addIngress: { port: 80 },
  changeIngress: { cache: 'off' },
  enterIngress: {},
  setMounts: { mount_paths: ['/data'] },
  setPullPolicy: { pull_policy: 'Always' },
};

/** What endpoints that need a query are asked with. */
const rightQueries: Record<string, string> = {
  execContainer: '?command=true',
  readFiles: '?path=/etc/passwd',
  writeFiles: '?path=/tmp/x',
  removeFiles: '?path=/tmp/x',
  metricsHistory: '?namespace=none',
};

describe('refusals', { skip: skipWithoutDocker(), timeout: 900_000 }, () => {
  const ends: (() => unknown)[] = [];
  let platform: RunningPlatform;
  let env: Record<string, string>;
  let data: string;
  let admin: string;
  let ann: string;

  before(async () => {
    const cleanup = { after: (end: () => unknown) => void ends.unshift(end) };
    data = await tempDir(cleanup);
    const database = await testDatabase();
    cleanup.after(() => database.close());
    env = { DATABASE_URL: database.url, DEFAULT_IMAGE: await tinyImage(), ADMIN_PASSWORD };
    platform = await startPlatform({ data, env });
    cleanup.after(() => platform.stop());
    const added = await troupe(['users', 'add', 'ann', '--data', data], { env, input: 'the password of ann\n' });
    assert.equal(added.code, 0, added.stderr);
    admin = await logIn(platform.ready.urls.auth, 'admin', ADMIN_PASSWORD);
    ann = await logIn(platform.ready.urls.auth, 'ann', 'the password of ann');
  });
  after(async () => {
    if (ann !== undefined) await deleteAll(compute(), admin, ann);
    for (const end of ends) await end();
  });

  const auth = () => platform.ready.urls.auth;
  const compute = () => platform.ready.urls.compute;
  const base = ({ service }: AnyEndpoint) =>
    service === 'auth'
      ? auth()
      : service === 'compute'
        ? compute()
        : platform.ready.urls[service === 'monitor' ? 'monitor' : 'notify'];
  const urlOf = (endpoint: AnyEndpoint, value: string) =>
    `${base(endpoint)}${endpoint.path.replaceAll(/\{.*?\}/g, value)}${rightQueries[endpoint.name] ?? ''}`;

  /** A request or an upgrade, whichever the endpoint takes. */
  async function call(
    endpoint: AnyEndpoint,
    value: string,
    options: { token?: string; body?: unknown; raw?: string } = {},
  ) {
    if (!endpoint.socket) return request(endpoint.method, urlOf(endpoint, value), options);
    const headers = options.token === undefined ? {} : { authorization: `Bearer ${options.token}` };
    try {
      const socket = await websocket(
        { after: (end) => void ends.unshift(end) },
        urlOf(endpoint, value).replace('http', 'ws'),
        { headers },
      );
      await socket.close();
      return { status: 101, json: {} };
    } catch (error) {
      if (!(error instanceof UpgradeRefused)) throw error;
      const json: Record<string, unknown> = JSON.parse(error.body);
      return { status: error.status, json };
    }
  }

  async function key(token: string, name: string): Promise<number> {
    const file = join(data, `key-${name}`);
    await promisify(execFile)('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', file]);
    const { json, status } = await request('POST', `${compute()}/compute/ssh-keys`, {
      token,
      body: { name, public_key: await readFile(`${file}.pub`, 'utf8') },
    });
    assert.equal(status, 200, JSON.stringify(json));
    return z.number().parse(json.id);
  }

  for (const endpoint of endpoints) {
    test(`${endpoint.method} ${endpoint.path} refuses who may not`, async () => {
      if (endpoint.access === 'none') {
        const open = await call(endpoint, NOBODYS_ID, {
          token: 'no.such.token',
          ...(endpoint.body === undefined ? {} : { raw: '{' }),
        });
        // Nobody is turned away for the token; what the request asks for may still not be there.
        const asksNothing = endpoint.body === undefined && endpoint.query === undefined;
        const expected = endpoint.path.includes('{') ? 404 : asksNothing ? 200 : 400;
        assert.equal(open.status, expected);
        return;
      }
      for (const token of [undefined, 'no.such.token', `${ann}x`]) {
        const refused = await call(endpoint, NOBODYS_ID, token === undefined ? {} : { token });
        assert.equal(refused.status, 401, `with ${token}`);
        assert.equal(refused.json.code, 'unauthorized');
        assert.equal(typeof refused.json.error, 'string');
      }
    });
    // With a body, what the body says comes first.
    if (endpoint.path.includes('{') && endpoint.body === undefined) {
      test(`${endpoint.method} ${endpoint.path} knows no unknown id`, async () => {
        for (const id of [NOBODYS_ID, '999999', 'not-an-id', '%2e%2e%2f', 'A'.repeat(300)]) {
          const refused = await call(endpoint, id, { token: endpoint.access === 'admin' ? admin : ann });
          assert.equal(refused.status, 404, id);
          assert.equal(refused.json.code, 'not_found');
        }
      });
    }
    if (endpoint.body !== undefined) {
      test(`${endpoint.method} ${endpoint.path} refuses what is no such body`, async () => {
        const token = endpoint.access === 'admin' ? admin : ann;
        const broken = await call(endpoint, NOBODYS_ID, { token, raw: '{"a":' });
        assert.deepEqual([broken.status, broken.json.code], [400, 'invalid_json']);
        if (endpoint.body?.safeParse({}).success === false) {
          const empty = await call(endpoint, NOBODYS_ID, { token, body: {} });
          assert.deepEqual([empty.status, empty.json.code], [400, 'invalid_request']);
          assert.ok(
            z
              .array(z.object({ path: z.string(), message: z.string() }))
              .min(1)
              .parse(empty.json.fields),
          );
        }
        const large = await call(endpoint, NOBODYS_ID, { token, raw: JSON.stringify('x'.repeat(1_100_000)) });
        assert.deepEqual([large.status, large.json.code], [413, 'body_too_large']);
      });
    }
  }

  test('a wrong password and an unknown user are answered alike', async () => {
    const answers = await Promise.all(
      [
        ['ann', 'wrong password'],
        ['nobody', 'wrong password'],
        ['ANN', 'the password of ann'],
        ['../../etc', 'x'],
      ].map(([username, password]) => request('POST', `${auth()}/api/login`, { body: { username, password } })),
    );
    for (const { status, json } of answers) {
      assert.equal(status, 401);
      assert.deepEqual(json, { error: 'The username or the password is wrong.', code: 'invalid_credentials' });
    }
  });

  test('after five failures a guesser must wait', async () => {
    const guess = () => request('POST', `${auth()}/api/login`, { body: { username: 'victim', password: 'a guess' } });
    for (let failure = 0; failure < 5; failure++) assert.equal((await guess()).status, 401);
    const limited = await guess();
    assert.deepEqual([limited.status, limited.json.code], [429, 'too_many_attempts']);
    assert.match(limited.headers.get('retry-after') ?? '', /^[1-9][0-9]*$/);
  });

  test("another user's key and container are as if they were not there", async () => {
    const mine = await key(admin, 'admin');
    const created = await request('POST', `${compute()}/compute/containers`, {
      token: admin,
      body: { name: 'of the admin', ssh_key_ids: [mine] },
    });
    const id = z.string().parse(created.json.id);
    for (const endpoint of computeEndpoints.filter(({ path }) => path.startsWith('/compute/containers/{id}'))) {
      // Whose it is comes after what is asked, so what is asked must be right.
      const body = RIGHT_BODIES[endpoint.name];
      assert.ok(body !== undefined || endpoint.body === undefined, `RIGHT_BODIES has no body for ${endpoint.name}`);
      const refused = await call(endpoint, id, { token: ann, ...(body === undefined ? {} : { body }) });
      assert.deepEqual([refused.status, refused.json.code], [404, 'not_found'], endpoint.name);
    }
    assert.equal((await request('DELETE', `${compute()}/compute/ssh-keys/${mine}`, { token: ann })).status, 404);
    const stolen = await request('POST', `${compute()}/compute/containers`, {
      token: ann,
      body: { name: 'x', ssh_key_ids: [mine] },
    });
    assert.deepEqual([stolen.status, stolen.json.code], [400, 'invalid_request']);
    assert.deepEqual((await request('GET', `${compute()}/compute/containers`, { token: ann })).json, {
      containers: [],
    });
  });

  test('a fourth container is refused, and a stopped one has no terminal and no log', async () => {
    const mine = await key(ann, 'ann');
    const ids: string[] = [];
    for (const name of ['one', 'two', 'three']) {
      const created = await request('POST', `${compute()}/compute/containers`, {
        token: ann,
        body: { name, ssh_key_ids: [mine] },
      });
      assert.equal(created.status, 200, JSON.stringify(created.json));
      ids.push(z.string().parse(created.json.id));
    }
    const fourth = await request('POST', `${compute()}/compute/containers`, {
      token: ann,
      body: { name: 'four', ssh_key_ids: [mine] },
    });
    assert.deepEqual([fourth.status, fourth.json.code], [403, 'limit_reached']);

    const [id = ''] = ids;
    const url = `${compute()}/compute/containers/${id}`;
    assert.equal((await request('POST', `${url}/start`, { token: ann })).json.code, 'conflict');
    assert.equal((await request('POST', `${url}/stop`, { token: ann })).json.status, 'stopped');
    const again = await request('POST', `${url}/stop`, { token: ann });
    assert.deepEqual([again.status, again.json.code], [409, 'conflict']);
    for (const name of ['terminal', 'logs']) {
      await assert.rejects(
        websocket({ after: (end) => void ends.unshift(end) }, `${url.replace('http', 'ws')}/${name}?token=${ann}`),
        (error) => {
          assert.ok(error instanceof UpgradeRefused);
          assert.equal(error.status, 409);
          assert.equal(JSON.parse(error.body).code, 'not_running');
          return true;
        },
      );
    }
  });

  test('fields that would open the machine are refused', async () => {
    const mine = await key(admin, 'fields');
    const good = { name: 'x', ssh_key_ids: [mine] };
    const bad: [field: string, body: Record<string, unknown>][] = [
      ['', { ...good, privileged: true }],
      ['name', { ...good, name: '-x' }],
      ['name', { ...good, name: 'x'.repeat(64) }],
      ['instance_type', { ...good, instance_type: 'huge' }],
      ['memory_mb', { ...good, memory_mb: 0 }],
      ['memory_mb', { ...good, memory_mb: 1e308 }],
      ['storage_gb', { ...good, storage_gb: 1.5 }],
      ['ssh_key_ids', { ...good, ssh_key_ids: [] }],
      ['mount_paths', { ...good, mount_paths: [] }],
      ['mount_paths.0', { ...good, mount_paths: ['/proc/1'] }],
      ['mount_paths.0', { ...good, mount_paths: ['/root/../etc'] }],
      ['mount_paths.0', { ...good, mount_paths: ['relative'] }],
      ['mount_paths.0', { ...good, mount_paths: ['/var/run/docker.sock'] }],
      ['mount_paths.0', { ...good, mount_paths: ['/data:ro'] }],
      ['image', { ...good, image: 'debian:12' }],
      ['pull_policy', { ...good, pull_policy: 'Never' }],
    ];
    for (const [field, body] of bad) {
      const { status, json } = await request('POST', `${compute()}/compute/containers`, { token: admin, body });
      assert.deepEqual([status, json.code], [400, 'invalid_request'], JSON.stringify(body));
      assert.equal(z.array(z.object({ path: z.string() })).parse(json.fields)[0]?.path, field);
    }
  });

  test('/openapi.json lists exactly what is served and is a valid OpenAPI 3.1 document', async () => {
    for (const [url, served] of [
      [auth(), servedByAuth],
      [platform.ready.urls.notify, notifyEndpoints],
      [platform.ready.urls.monitor, monitorEndpoints],
      [compute(), computeEndpoints],
    ] as const) {
      const { json } = await request('GET', `${url}/openapi.json`);
      assert.equal(json.openapi, '3.1.0');
      const validator = new Validator();
      const { valid, errors } = await validator.validate(json);
      assert.ok(valid, JSON.stringify(errors));
      const paths = z.record(z.string(), z.record(z.string(), z.object({ operationId: z.string() }))).parse(json.paths);
      const listed = Object.entries(paths).flatMap(([path, methods]) =>
        Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
      );
      const pages = ['GET /', 'GET /healthz', 'GET /metrics', 'GET /openapi.json'];
      // A path with a WebSocket and a plain form is one operation.
      const paired = new Set(served.map(({ method, path }) => `${method} ${path}`));
      assert.deepEqual(listed.sort(), [...paired, ...pages].sort());
      for (const page of pages) {
        const answer = await fetch(url + page.slice(4));
        assert.equal(answer.status, 200, page);
        await answer.arrayBuffer(); // One that nobody reads keeps its connection.
      }
    }
  });

  test('the tree of actors is for the administrator, and `troupe tree` draws it', async () => {
    const forbidden = await request('GET', `${auth()}${listActors.path}`, { token: ann });
    assert.deepEqual([forbidden.status, forbidden.json.code], [403, 'forbidden']);
    const { status, json } = await request('GET', `${auth()}${listActors.path}`, { token: admin });
    assert.equal(status, 200);
    const { actors } = z.object({ actors: z.array(actorSchema) }).parse(json);
    assert.ok(actors.some(({ kind }) => kind === 'compute/watcher'));
    const drawn = await troupe(['tree', '--data', data], { env });
    assert.equal(drawn.code, 0, drawn.stderr);
    assert.match(drawn.stdout, /^troupe {2}\[.*\n[\s\S]*^ {6}watcher {2}\[compute\/watcher\]/m);
    const listed = await troupe(['tree', '--json', '--data', data], { env });
    assert.ok(z.array(actorSchema).parse(JSON.parse(listed.stdout)).length > 5);
    const nowhere = await troupe(['tree', '--data', join(data, 'nothing')], { env });
    assert.deepEqual([nowhere.code, nowhere.stdout], [1, '']);
    assert.match(nowhere.stderr, /No Troupe runs on .*nothing\. Start it with `.*troupe up --data .*`/);
  });

  test('numbers for Prometheus name actors and replies', async () => {
    const text = await (await fetch(`${auth()}/metrics`)).text();
    assert.match(text, /^troupe_http_replies_total\{service="auth",endpoint="login",status="200"\} [1-9]/m);
    assert.match(text, /^troupe_actors_alive\{kind="compute\/watcher"\} 1$/m);
  });
});
