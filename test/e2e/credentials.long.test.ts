/** Tokens of every kind at every endpoint of the running platform, and what their scopes open. */

import assert from 'node:assert/strict';
import { createSecretKey, generateKeyPairSync } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { SignJWT } from 'jose';
import { z } from 'zod';
import { runtimeEndpoints } from '../../proto/auth/actors.ts';
import { authEndpoints } from '../../proto/auth/endpoints.ts';
import { computeEndpoints } from '../../proto/compute/endpoints.ts';
import type { AnyEndpoint } from '../../proto/endpoint.ts';
import { newId } from '../../proto/ids.ts';
import { UpgradeRefused, websocket } from '../support/clients/websocket.ts';
import {
  deleteAll,
  logIn,
  type Reply,
  type RunningPlatform,
  request,
  startPlatform,
  troupe,
} from '../support/cluster/platform.ts';
import { testDatabase } from '../support/database/database.ts';
import { skipWithoutDocker, tinyImage } from '../support/engine/docker-client.ts';
import { publicKey } from '../support/ssh/public-key.ts';
import { tempDir } from '../support/temp.ts';

const JWT_SECRET = 'the shared secret of this test, over 32 bytes';
const NOBODYS_ID = 'aaaaaaaaaaaa';
const text = z.string();

describe('credentials', { skip: skipWithoutDocker(), timeout: 900_000 }, () => {
  const ends: (() => unknown)[] = [];
  const cleanup = { after: (end: () => unknown) => void ends.unshift(end) };
  let platform: RunningPlatform;
  let [admin, ann, uid, container]: string[] = ['', '', '', ''].map(String);

  before(async () => {
    const data = await tempDir(cleanup);
    const database = await testDatabase();
    cleanup.after(() => database.close());
    const env = {
      DATABASE_URL: database.url,
      DEFAULT_IMAGE: await tinyImage(),
      JWT_SECRET,
      ADMIN_PASSWORD: 'the admin here',
    };
    platform = await startPlatform({ data, env });
    cleanup.after(() => platform.stop());
    const added = await troupe(['users', 'add', 'ann', '--data', data], { env, input: 'the password of ann\n' });
    assert.equal(added.code, 0, added.stderr);
    admin = await logIn(auth(), 'admin', 'the admin here');
    ann = await logIn(auth(), 'ann', 'the password of ann');
    uid = text.parse((await get(`${auth()}/api/session`)).json.user_id);
    const key = await post(`${compute()}/compute/ssh-keys`, { name: 'laptop', public_key: publicKey() });
    const made = await post(`${compute()}/compute/containers`, { name: 'one', ssh_key_ids: [key.json.id] });
    container = text.parse(made.json.id);
  });
  after(async () => {
    if (ann) await deleteAll(compute(), admin ?? '', ann);
    for (const end of ends) await end();
  });

  const auth = () => platform.ready.urls.auth;
  const compute = () => platform.ready.urls.compute;
  const get = (url: string, token = ann ?? '') => request('GET', url, { token });
  const post = (url: string, body: unknown, token = ann ?? '') => request('POST', url, { token, body });

  async function apiToken(scopes: Record<string, string[]>): Promise<{ id: string; token: string }> {
    const { status, json } = await post(`${auth()}/api/tokens`, { name: 'of a test', scopes });
    assert.equal(status, 200, JSON.stringify(json));
    return { id: text.parse(json.id), token: text.parse(json.token) };
  }

  /** A request or an upgrade of an endpoint, with ids filled in. */
  async function call(endpoint: AnyEndpoint, token: string, id: string): Promise<Pick<Reply, 'status' | 'json'>> {
    const base = endpoint.service === 'auth' ? auth() : compute();
    const url = `${base}${endpoint.path.replaceAll(/\{.*?\}/g, id)}`;
    if (!endpoint.socket)
      return request(endpoint.method, url, { token, ...(endpoint.body === undefined ? {} : { body: {} }) });
    try {
      const socket = await websocket(cleanup, url.replace('http', 'ws'), {
        headers: { authorization: `Bearer ${token}` },
      });
      await socket.close();
      return { status: 101, json: {} };
    } catch (error) {
      if (!(error instanceof UpgradeRefused)) throw error;
      return { status: error.status, json: z.record(text, z.unknown()).parse(JSON.parse(error.body)) };
    }
  }

  const served: readonly AnyEndpoint[] = [...authEndpoints, ...runtimeEndpoints, ...computeEndpoints];

  test('forged tokens, challenges and registry tokens open no endpoint', async () => {
    const now = Math.floor(Date.now() / 1000);
    const sign = (claims: Record<string, unknown>, secret = JWT_SECRET, alg = 'HS256') =>
      new SignJWT({ iat: now, exp: now + 300, jti: 'j', ...claims })
        .setProtectedHeader({ alg, typ: 'JWT' })
        .sign(createSecretKey(Buffer.from(secret)));
    const user = { user_id: uid, username: 'ann', IsAdmin: true };
    const { privateKey } = generateKeyPairSync('ed25519');
    const { token: living } = await apiToken({ [`compute.${uid}`]: ['read'] });
    const bad = {
      registry: await sign({ type: 'registry', iss: 'troupe', aud: 'registry', access: [] }),
      'registry without a kind': await sign({ iss: 'troupe', aud: 'registry', access: [] }),
      'a WebAuthn state': await sign({ purpose: 'login', sub: uid, aud: 'troupe.localhost' }),
      'another secret': await sign({ type: 'session', ...user }, `${JWT_SECRET}!`),
      'another algorithm': await sign({ type: 'session', ...user }, `${JWT_SECRET}${JWT_SECRET}`, 'HS512'),
      EdDSA: await new SignJWT({ type: 'session', ...user, jti: 'j', exp: now + 300 })
        .setProtectedHeader({ alg: 'EdDSA' })
        .sign(privateKey),
      'a user who is not there': await sign({ type: 'session', ...user, user_id: newId() }),
      'an API token that was never made': `svc_${await sign({ type: 'api_token', user_id: uid, jti: newId() })}`,
      'an API token of another user': `svc_${await sign({ type: 'api_token', user_id: newId(), jti: newId() })}`,
      'an API token without its prefix': living.slice(4),
      'a session with the prefix of an API token': `svc_${ann}`,
    };
    const challenge = await sign({ type: 'challenge', user_id: uid, username: 'ann' });
    for (const endpoint of served.filter(({ access }) => access !== 'none')) {
      for (const [what, token] of Object.entries(bad)) {
        const { status, json } = await call(endpoint, token, container ?? '');
        assert.deepEqual([status, json.code], [401, 'unauthorized'], `${what} at ${endpoint.name}`);
      }
      const owed = endpoint.access === 'challenge';
      if (!owed) assert.equal((await call(endpoint, challenge, container ?? '')).status, 401, endpoint.name);
      // Neither a session nor an API token stands for a challenge.
      else for (const token of [ann ?? '', living]) assert.equal((await call(endpoint, token, '')).status, 401);
    }
  });

  test('an API token opens what its scopes name and nothing else; a session skips scopes', async (t) => {
    // Of a service account that may do nothing; a token of its own that grants nothing is not made.
    const account = await post(`${auth()}/api/service-accounts`, { name: 'idle', scopes: {} });
    const made = await post(`${auth()}/api/service-accounts/${account.json.id}/tokens`, { name: 'none' });
    const none = text.parse(made.json.token);
    assert.equal((await post(`${auth()}/api/tokens`, { name: 'none', scopes: {} })).status, 400);
    t.after(() => request('DELETE', `${auth()}/api/service-accounts/${account.json.id}`, { token: ann ?? '' }));
    const { token: narrow } = await apiToken({ [`storage.${uid}`]: ['push', 'pull'] });
    // What is open to any token says what that token may do: here, nothing.
    const openToAny = served.filter(({ access, scope }) => access === 'token' && scope === undefined);
    assert.deepEqual(
      openToAny.map(({ name }) => name),
      ['ownRegistryToken'],
    );
    for (const endpoint of served) {
      if (endpoint.access === 'none' || endpoint.access === 'challenge' || openToAny.includes(endpoint)) continue;
      for (const token of [none, narrow]) {
        const { status, json } = await call(endpoint, token, container ?? '');
        assert.equal(status, 403, endpoint.name);
        if (endpoint.access !== 'token') {
          assert.equal(json.code, 'forbidden', endpoint.name);
          continue;
        }
        const params = Object.fromEntries(
          [...endpoint.path.matchAll(/\{(.*?)\}/g)].map(([, name = '']) => [name, container ?? '']),
        );
        const key = endpoint.scope?.key(uid ?? '', params);
        assert.deepEqual(json, { error: `forbidden: missing ${key} scope`, code: 'missing_scope' }, endpoint.name);
      }
      // With its scope the request goes through, and finds nothing under that id, or no body.
      const scope = endpoint.scope;
      if (scope === undefined) continue;
      const { token } = await apiToken({ [scope.key(uid ?? '', { id: NOBODYS_ID })]: [scope.action] });
      const { status } = await call(endpoint, token, NOBODYS_ID);
      assert.ok(status !== 401 && status !== 403, `${endpoint.name}: ${status}`);
    }
  });

  test('a broader grant covers a narrower request, and no near miss does', async () => {
    const one = `${compute()}/compute/containers/${container}`;
    const missing = `forbidden: missing compute.${uid}.containers.${container} scope`;
    const last = (container ?? '').at(-1) === 'a' ? 'b' : 'a';
    const cases: [scopes: Record<string, string[]>, opens: boolean][] = [
      [{ [`compute.${uid}`]: ['read'] }, true],
      [{ [`compute.${uid}.containers`]: ['read'] }, true],
      [{ [`compute.${uid}.containers.${container}`]: ['read'] }, true],
      [{ [`compute.${uid}.containers.${container}`]: ['start', 'stop', 'update', 'delete', 'create'] }, false],
      [{ [`compute.${uid}.containers.${(container ?? '').slice(0, -1)}${last}`]: ['read'] }, false],
      [{ [`compute.${uid}.keys`]: ['read'] }, false],
      [{ [`storage.${uid}`]: ['read'] }, false],
      [{ [`networking.${uid}`]: ['read'] }, false],
    ];
    for (const [scopes, opens] of cases) {
      const { token } = await apiToken(scopes);
      const { status, json } = await get(one, token);
      assert.equal(status, opens ? 200 : 403, JSON.stringify(scopes));
      if (!opens) assert.equal(json.error, missing);
    }
    // By id only: the list is not opened by it, and neither is the socket of all containers.
    const { token } = await apiToken({ [`compute.${uid}.containers.${container}`]: ['read'] });
    assert.equal((await get(`${compute()}/compute/containers`, token)).status, 403);
    await assert.rejects(
      websocket(cleanup, `${compute().replace('http', 'ws')}/compute/ws?token=${token}`),
      (error) => {
        assert.ok(error instanceof UpgradeRefused);
        assert.deepEqual(
          [error.status, JSON.parse(error.body).error],
          [403, `forbidden: missing compute.${uid} scope`],
        );
        return true;
      },
    );
    // Another user's id is another user's: with every scope of one's own, it is not there.
    const { token: all } = await apiToken({
      [`compute.${uid}`]: ['create', 'read', 'update', 'delete', 'start', 'stop'],
    });
    const adminKey = await post(`${compute()}/compute/ssh-keys`, { name: 'a', public_key: publicKey() }, admin ?? '');
    const others = await post(
      `${compute()}/compute/containers`,
      { name: 'x', ssh_key_ids: [adminKey.json.id] },
      admin ?? '',
    );
    for (const endpoint of computeEndpoints.filter(({ path }) => path.startsWith('/compute/containers/{id}')))
      assert.ok([400, 404].includes((await call(endpoint, all, text.parse(others.json.id))).status), endpoint.name);
    assert.equal((await get(`${compute()}/compute/containers/${others.json.id}`, all)).status, 404);
  });

  test('scopes that no token may have are refused', async () => {
    const last = (uid ?? '').at(-1) === '1' ? '2' : '1';
    for (const scopes of [
      ...['compute', 'storage', 'networking', '*', '', '..', `COMPUTE.${uid}`, `compute.${uid} `, `compute.${uid}.*`],
      ...[`compute.${(uid ?? '').slice(0, -1)}`, `compute.${uid}0`, `compute.${(uid ?? '').slice(0, -1)}${last}`],
    ].map((key) => ({ [key]: ['read'] }))) {
      for (const path of ['/api/tokens', '/api/service-accounts']) {
        const { status, json } = await post(`${auth()}${path}`, { name: 'x', scopes });
        assert.deepEqual([status, json.code], [400, 'invalid_request'], JSON.stringify(scopes));
      }
    }
  });

  test('each reply has the keys that clients know', async () => {
    const keys = (value: unknown) => Object.keys(z.record(text, z.unknown()).parse(value)).sort();
    const list = (reply: Reply) => z.array(z.unknown()).parse(reply.json.list);
    const scopes = { [`compute.${uid}.containers`]: ['read'] };
    const shown = ['created_at', 'expires_at', 'id', 'last_used_at', 'name'];

    const session = await get(`${auth()}/api/session`);
    const { expires_at, ...person } = session.json;
    assert.deepEqual(person, { username: 'ann', display_name: 'ann', user_id: uid, is_admin: false });
    assert.ok(z.iso.datetime().safeParse(expires_at).success);
    assert.deepEqual((await post(`${auth()}/api/logout`, undefined)).json, { status: 'ok' });
    const profile = await request('PUT', `${auth()}/api/settings/profile`, {
      token: ann ?? '',
      body: { display_name: 'Ann' },
    });
    assert.deepEqual(profile.json, { username: 'ann', display_name: 'Ann', user_id: uid });
    const [record] = list(await get(`${auth()}/api/settings/sessions`));
    assert.deepEqual(keys(record), ['created_at', 'id', 'ip_address', 'is_current', 'last_seen_at', 'user_agent']);
    const passwords = { current_password: 'the password of ann', new_password: 'the next password' };
    const changed = await fetch(`${auth()}/api/settings/password`, {
      method: 'PUT',
      headers: { authorization: `Bearer ${ann}` },
      body: JSON.stringify(passwords),
    });
    assert.deepEqual([changed.status, await changed.text()], [200, '']);

    const made = await post(`${auth()}/api/tokens`, { name: 'x', scopes, expires_in: '30d' });
    assert.deepEqual(keys(made.json), [...shown, 'scopes', 'token'].sort());
    assert.equal(Number(made.json.expires_at) - Number(made.json.created_at), 30 * 86_400);
    for (const entry of list(await get(`${auth()}/api/tokens`)))
      assert.deepEqual(keys(entry), [...shown, 'scopes', 'service_account_id'].sort());
    const id = text.parse(made.json.id);
    assert.deepEqual((await request('GET', `${auth()}/api/tokens/${id}/check`)).json, { status: 'valid' });
    assert.deepEqual((await request('DELETE', `${auth()}/api/tokens/${id}`, { token: ann ?? '' })).json, {
      status: 'ok',
    });
    assert.equal((await request('GET', `${auth()}/api/tokens/${id}/check`)).status, 404);

    const account = await post(`${auth()}/api/service-accounts`, { name: 'robot', scopes });
    assert.deepEqual(keys(account.json), ['created_at', 'id', 'name', 'scopes', 'token_count']);
    assert.equal(account.json.token_count, 0);
    const url = `${auth()}/api/service-accounts/${account.json.id}`;
    assert.deepEqual((await get(url)).json, account.json);
    assert.deepEqual(list(await get(`${auth()}/api/service-accounts`)), [account.json]);
    const token = await post(`${url}/tokens`, { name: 'ci', expires_in: '365d' });
    assert.deepEqual(keys(token.json), [...shown, 'token'].sort());
    const [entry] = list(await get(`${url}/tokens`));
    assert.deepEqual(keys(entry), shown);
    assert.deepEqual((await request('GET', `${auth()}/api/tokens/${token.json.id}/check`)).json, {
      status: 'valid',
      scopes,
    });
    const put = await request('PUT', `${url}/scopes`, { token: ann ?? '', body: { scopes: {} } });
    assert.deepEqual(put.json, { status: 'ok' });
    assert.equal((await get(`${compute()}/compute/containers`, text.parse(token.json.token))).status, 403);
    assert.deepEqual((await request('DELETE', url, { token: ann ?? '' })).json, { status: 'ok' });
    assert.equal((await get(`${compute()}/compute/containers`, text.parse(token.json.token))).status, 401);
    assert.equal((await get(url)).status, 404);
  });

  test('a stream ends when its token is deleted, and when its service account may no more', async () => {
    const ws = `${compute().replace('http', 'ws')}/compute/ws`;
    const { id, token } = await apiToken({ [`compute.${uid}`]: ['read'] });
    const account = await post(`${auth()}/api/service-accounts`, {
      name: 'robot',
      scopes: { [`compute.${uid}`]: ['read'] },
    });
    const url = `${auth()}/api/service-accounts/${account.json.id}`;
    const robot = await post(`${url}/tokens`, { name: 'ci' });
    const [first, second, mine] = [
      await websocket(cleanup, `${ws}?token=${token}`),
      await websocket(cleanup, ws, { headers: { authorization: `Bearer ${robot.json.token}` } }),
      await websocket(cleanup, `${ws}?token=${ann}`),
    ];
    for (const socket of [first, second, mine]) await socket.json();
    assert.equal((await request('DELETE', `${auth()}/api/tokens/${id}`, { token: ann ?? '' })).status, 200);
    assert.deepEqual(await first.closed, { code: 1008, reason: 'token revoked' });
    await request('PUT', `${url}/scopes`, { token: ann ?? '', body: { scopes: { [`compute.${uid}`]: ['start'] } } });
    assert.deepEqual(await second.closed, { code: 1008, reason: 'scope withdrawn' });
    assert.equal((await get(`${compute()}/compute/containers`, token)).status, 401);
    assert.equal(mine.socket.readyState, 1);
    await mine.close();
  });

  test('no token and no password reaches the log', () => {
    const log = platform.log();
    for (const secret of [ann, 'the password of ann', 'the next password', 'svc_ey', JWT_SECRET])
      assert.ok(!log.includes(secret ?? ''), `the log holds ${secret?.slice(0, 8)}`);
  });
});
