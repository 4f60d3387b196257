/** The gateway of the running platform: core services over HTTPS by host and by path, routes from the command line, containers by their ports. */

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { request as httpRequest } from 'node:http';
import { Agent, request as httpsRequest } from 'node:https';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { z } from 'zod';
import { websocket } from '../support/clients/websocket.ts';
import { deleteAll, logIn, type RunningPlatform, request, startPlatform, troupe } from '../support/cluster/platform.ts';
import { testDatabase } from '../support/database/database.ts';
import { skipWithoutDocker, tinyImage } from '../support/engine/docker-client.ts';
import { httpOrigin } from '../support/gateway/proxy.ts';
import { publicKey } from '../support/ssh/public-key.ts';
import { tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';

const PASSWORD = 'the admin of this test';

interface Answer {
  readonly status: number;
  readonly location: string | undefined;
  readonly text: string;
}

describe('the gateway', { skip: skipWithoutDocker(), timeout: 900_000 }, () => {
  const ends: (() => unknown)[] = [];
  const cleanup = { after: (end: () => unknown) => void ends.unshift(end) };
  let platform: RunningPlatform;
  let env: Record<string, string>;
  let data: string;
  let token = '';
  let ca = '';

  before(async () => {
    data = await tempDir(cleanup);
    const database = await testDatabase();
    cleanup.after(() => database.close());
    env = { DATABASE_URL: database.url, DEFAULT_IMAGE: await tinyImage(), ADMIN_PASSWORD: PASSWORD };
    platform = await startPlatform({ data, env, args: ['--access-log'] });
    cleanup.after(() => platform.stop());
    token = await logIn(platform.ready.urls.auth, 'admin', PASSWORD);
    ca = await readFile(join(data, 'ca.pem'), 'utf8');
  });
  after(async () => {
    if (token !== '') await deleteAll(platform.ready.urls.compute, token);
    for (const end of ends) await end();
  });

  const portOf = (url: string) => Number(new URL(url).port);
  const ports = () => ({ http: portOf(platform.ready.urls.http), https: portOf(platform.ready.urls.https) });

  /** A request to the gateway for a host; over TLS the certificate must be good for it. */
  function ask(
    protocol: 'http' | 'https',
    host: string,
    path: string,
    options: { method?: string; body?: string; port?: number; headers?: Record<string, string> } = {},
  ): Promise<Answer> {
    const { method = 'GET', body, port = ports()[protocol], headers = {} } = options;
    const common = { host: '127.0.0.1', port, path, method, headers: { host, ...headers }, timeout: 10_000 };
    return new Promise((resolve, reject) => {
      const outgoing =
        protocol === 'http'
          ? httpRequest({ ...common, agent: false })
          : httpsRequest({ ...common, agent: new Agent({ ca, servername: host.replace(/:\d+$/, '') }) });
      outgoing.on('error', reject).on('response', (response) => {
        let text = '';
        response.on('data', (chunk: Buffer) => (text += chunk));
        response.on('end', () =>
          resolve({ status: response.statusCode ?? 0, location: response.headers.location, text }),
        );
      });
      outgoing.end(body);
    });
  }

  test('says that it is well and ready, to whoever asks by its address', async () => {
    for (const path of ['/healthz', '/readyz'])
      assert.equal((await ask('http', `127.0.0.1:${ports().http}`, path)).status, 200, path);
    assert.equal((await ask('http', 'other.test', '/healthz')).status, 404);
  });

  test('shows its numbers to this machine alone', async () => {
    const own = `127.0.0.1:${ports().http}`;
    const { status, text } = await ask('http', own, '/metrics');
    assert.equal(status, 200);
    for (const name of ['troupe_gateway_requests_total{', 'troupe_gateway_cache_hits_total ', 'troupe_actors_alive{'])
      assert.ok(text.includes(name), name);
    assert.equal((await ask('http', own, '/metrics', { headers: { 'x-forwarded-for': '192.0.2.1' } })).status, 404);
    assert.equal((await ask('http', 'other.test', '/metrics')).status, 404);
    // So do the services: through the gateway there are none of theirs.
    assert.equal((await ask('https', 'auth.troupe.localhost', '/metrics')).status, 404);
    assert.equal((await ask('https', 'auth.troupe.localhost', '/healthz')).status, 200);
    assert.doesNotMatch(await (await fetch(`${platform.ready.urls.auth}/metrics`)).text(), /troupe_gateway/);
  });

  test('serves every service by its host and by its paths, with a certificate of the local authority', async () => {
    const body = JSON.stringify({ username: 'admin', password: PASSWORD });
    for (const host of ['auth.troupe.localhost', 'troupe.localhost']) {
      const login = await ask('https', host, '/api/login', { method: 'POST', body });
      assert.equal(login.status, 200, login.text);
      assert.equal(JSON.parse(login.text).username, 'admin');
    }
    const authorization = `Bearer ${token}`;
    for (const host of ['compute.troupe.localhost', 'troupe.localhost']) {
      const list = await ask('https', host, '/compute/containers', { headers: { authorization } });
      assert.equal(list.status, 200, list.text);
    }
    for (const host of ['auth.troupe.localhost', 'troupe.localhost']) {
      const tree = await ask('https', host, '/api/runtime/actors', { headers: { authorization } });
      assert.equal(tree.status, 200, tree.text);
      assert.equal((await ask('https', host, '/api/runtime/actors')).status, 401);
    }
    assert.equal((await ask('https', 'troupe.localhost', '/nothing')).status, 404);
    assert.equal((await ask('https', 'auth.troupe.localhost', '/compute/containers')).status, 404);
    await assert.rejects(ask('https', 'nobody.test', '/'), /unrecognized name|UNRECOGNIZED_NAME/i);
  });

  test('sends plain HTTP for them to HTTPS, on the port that fits', async () => {
    const own = await ask('http', `auth.troupe.localhost:${ports().http}`, '/api/session?x');
    assert.deepEqual([own.status, own.location], [308, `https://auth.troupe.localhost:${ports().https}/api/session?x`]);
    const usual = await ask('http', 'auth.troupe.localhost', '/');
    assert.equal(usual.location, 'https://auth.troupe.localhost/');
  });

  test('passes WebSockets on', async () => {
    const socket = await websocket(cleanup, `wss://127.0.0.1:${ports().https}/compute/ws?token=${token}`, {
      headers: { host: 'compute.troupe.localhost' },
      ...{ servername: 'compute.troupe.localhost', ca },
    });
    assert.equal(z.object({ type: z.string() }).parse(await socket.json()).type, 'containers');
    // It keeps its connection.
    await (await fetch(`http://127.0.0.1:${ports().http}/healthz`)).text();
    const { actors } = z
      .object({ actors: z.array(z.object({ kind: z.string() })) })
      .parse((await request('GET', `${platform.ready.urls.auth}/api/runtime/actors`, { token })).json);
    assert.ok(actors.some(({ kind }) => kind === 'gateway/upgrade'));
    assert.ok(actors.some(({ kind }) => kind === 'gateway/client'));
    await socket.close();
    // The token of the query is not for the log.
    await until(() => platform.log().includes('/compute/ws?token=...'), { what: 'the access log' });
    assert.ok(!platform.log().includes(token));
  });

  test('has a route of the command line at once, and loses it at once', async () => {
    const port = await httpOrigin(cleanup, (incoming, response) => {
      response.end(
        `${incoming.url} for ${incoming.headers['x-forwarded-proto']} ${incoming.headers['x-forwarded-host']}`,
      );
    });
    const run = async (...args: string[]) => {
      const { code, stdout, stderr } = await troupe(['routes', ...args, '--data', data], { env });
      return { code, stdout, stderr };
    };
    const added = await run(
      'add',
      'app.troupe.localhost',
      '/app',
      `127.0.0.1:${port}`,
      '--strip-prefix',
      '--priority',
      '5',
      '--json',
    );
    assert.equal(added.code, 0, added.stderr);
    const { id } = z.object({ id: z.number() }).parse(JSON.parse(added.stdout));
    await until(
      async () => (await ask('https', 'app.troupe.localhost', '/app/x?y').catch(() => undefined))?.status === 200,
      { what: 'the route is there' },
    );
    assert.equal((await ask('https', 'app.troupe.localhost', '/app/x?y')).text, '/x?y for https app.troupe.localhost');
    assert.match(
      (await run('list')).stdout,
      /^ID +PRIORITY +HOST +PATH +TARGET\n.*5 +app\.troupe\.localhost +\/app +127\.0\.0\.1:\d+ +strips the prefix\n/,
    );
    assert.equal((await run('add', 'app.troupe.localhost', '/app', 'x:1', '--priority', '5')).code, 1);
    assert.match((await run('add', 'app troupe', '/', 'x:1')).stderr, /host must be a host name/);
    assert.equal((await run('remove', String(id))).code, 0);
    await until(
      async () => (await ask('https', 'app.troupe.localhost', '/app/').catch(() => undefined)) === undefined,
      { what: 'the route is gone' },
    );
    assert.match((await run('remove', String(id))).stderr, /There is no route/);
  });

  test('reaches a container by the ports that its rules open', async () => {
    const { compute } = platform.ready.urls;
    const key = await request('POST', `${compute}/compute/ssh-keys`, {
      token,
      body: { name: 'k', public_key: publicKey() },
    });
    const made = await request('POST', `${compute}/compute/containers`, {
      token,
      body: { name: 'web', ssh_key_ids: [key.json.id] },
    });
    const id = z.string().parse(made.json.id);
    const host = `${id}.compute.troupe.localhost`;
    const url = `${compute}/compute/containers/${id}`;
    await until(async () => (await request('GET', url, { token })).json.status === 'running', {
      what: 'it runs',
      timeoutMs: 60_000,
    });
    const terminal = await websocket(cleanup, `${url.replace('http', 'ws')}/terminal?token=${token}`);
    terminal.send(Buffer.from('mkdir /tmp/w; echo served > /tmp/w/index.html; httpd -p 8080 -h /tmp/w; echo done\n'));
    assert.equal((await ask('http', host, '/')).status, 404);
    const rule = await request('POST', `${url}/ingress`, { token, body: { port: 80, target_port: 8080 } });
    assert.equal(rule.status, 200, JSON.stringify(rule.json));
    await until(async () => (await ask('http', host, '/')).text === 'served\n', {
      what: 'the page',
      timeoutMs: 15_000,
    });
    // A port of its own, with whatever speaks first bytes that are known.
    const port = 8000 + (process.pid % 900);
    await request('POST', `${url}/ingress`, { token, body: { port, target_port: 8080 } });
    await until(async () => (await ask('http', host, '/', { port }).catch(() => undefined))?.text === 'served\n', {
      what: 'the page on a port of its own',
      timeoutMs: 15_000,
    });
    assert.equal((await ask('http', 'other.test', '/', { port })).status, 404);
    // TLS by the platform's certificate, in the place of the container's own.
    await assert.rejects(ask('https', host, '/'), /unrecognized name|UNRECOGNIZED_NAME/i);
    const refused = await request('POST', `${url}/ingress`, { token, body: { port: 80, tls: 'platform' } });
    assert.equal(refused.status, 400);
    assert.match(JSON.stringify(refused.json), /tls.*port 80, which is for HTTP/);
    const ended = { port: 443, target_port: 8080, tls: 'platform' };
    const opened = await request('POST', `${url}/ingress`, { token, body: ended });
    assert.deepEqual([opened.status, opened.json.tls], [200, 'platform'], JSON.stringify(opened.json));
    await until(async () => (await ask('https', host, '/').catch(() => undefined))?.text === 'served\n', {
      what: 'the page over HTTPS',
      timeoutMs: 15_000,
    });
    const seen = await request('GET', url, { token });
    assert.deepEqual(
      [seen.json.https_enabled, seen.json.ports],
      [true, [{ port: 80, target_port: 8080 }, ended, { port, target_port: 8080 }]],
    );
    // Without a rule of its own, plain HTTP leads there.
    await request('DELETE', `${url}/ingress/80`, { token });
    await until(async () => (await ask('http', host, '/x')).location === `https://${host}/x`, {
      what: 'plain HTTP leads to HTTPS',
      timeoutMs: 15_000,
    });
    await request('POST', `${url}/ingress`, { token, body: { port: 80, target_port: 8080 } });
    assert.equal((await request('POST', `${url}/stop`, { token })).status, 200);
    for (const protocol of ['http', 'https'] as const)
      await until(async () => (await ask(protocol, host, '/')).status === 503, {
        what: 'it is said to be stopped',
        timeoutMs: 15_000,
      });
    // Whoever is told that it runs finds the way there, though nothing listens inside of it now.
    assert.equal((await request('POST', `${url}/start`, { token })).status, 200);
    await until(async () => (await request('GET', url, { token })).json.status === 'running', {
      what: 'it runs again',
      timeoutMs: 60_000,
    });
    // At first it is waited for, as a program that starts again is.
    await until(async () => (await ask('http', host, '/not-kept')).status === 502, {
      what: 'nothing listens there',
      timeoutMs: 90_000,
    });
    await request('DELETE', `${url}/ingress/${port}`, { token });
    await until(async () => (await ask('http', host, '/', { port }).catch(() => undefined)) === undefined, {
      what: 'the port is closed',
      timeoutMs: 15_000,
    });
  });
});
