/** Tokens for the platform's registry end with what they were given for: a user, a session, a password, an API token. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { z } from 'zod';
import { logIn, type RunningPlatform, request, startPlatform, troupe } from '../support/cluster/platform.ts';
import { testDatabase } from '../support/database/database.ts';
import { skipWithoutDocker, tinyImage } from '../support/engine/docker-client.ts';
import { plainImage, RegistryClient } from '../support/registry/registry-client.ts';
import { skipWithout } from '../support/require.ts';
import { tempDir } from '../support/temp.ts';

const HOST = 'registry.cloud.test';
const ANN = ['ann', 'the password of ann'] as const;
const BOB = ['bob', 'the password of bob'] as const;
const given = z.object({ token: z.string() });
const SENTENCE = /DENIED.*no longer valid: it was revoked, or no longer has this right\. Log in again/;

describe('a token for the registry', {
  skip: skipWithoutDocker() || skipWithout('docker-registry'),
  timeout: 900_000,
}, () => {
  const ends: (() => unknown)[] = [];
  const cleanup = { after: (end: () => unknown) => void ends.unshift(end) };
  let platform: RunningPlatform;
  let cli: (args: readonly string[], input?: string) => Promise<void>;
  let ca: string;

  before(async () => {
    const database = await testDatabase();
    cleanup.after(() => database.close());
    const data = await tempDir(cleanup);
    const env = {
      ...{ DATABASE_URL: database.url, DEFAULT_IMAGE: await tinyImage(), REGISTRY: 'auto' },
      // What ends is refused whether there is a limit or not.
      ...{ ADMIN_PASSWORD: 'the admin of this test', REGISTRY_USER_MB: '0' },
    };
    platform = await startPlatform({ data, env, args: ['--domain', 'cloud.test'] });
    cleanup.after(() => platform.stop());
    cli = async (args, input) => {
      const { code, stderr } = await troupe([...args, '--data', data], {
        env,
        ...(input === undefined ? {} : { input }),
      });
      assert.equal(code, 0, stderr);
    };
    for (const [name, password] of [ANN, BOB]) await cli(['users', 'add', name], password);
    ca = await readFile(join(data, 'ca.pem'), 'utf8');
  });
  after(async () => {
    for (const end of ends) await end();
  });

  const api = async (method: string, path: string, token: string, body?: object) => {
    const { auth } = platform.ready.urls;
    const { status, json } = await request(method, `${auth}${path}`, {
      token,
      ...(body === undefined ? {} : { body }),
    });
    assert.ok(status < 300, `${method} ${path}: ${status} ${JSON.stringify(json)}`);
    return json;
  };
  /** Writes with a token that was given once, and is kept. */
  const holder = (token: string) => {
    const port = Number(new URL(platform.ready.urls.https).port);
    const client = new RegistryClient({ port, host: HOST, ca, token: async () => token });
    cleanup.after(() => client.close());
    return client;
  };
  /** As Docker gets one. */
  const byLogin = async ([name, password]: readonly [string, string], repository: string) => {
    const query = new URLSearchParams({ service: HOST, scope: `repository:${repository}:pull,push,delete` });
    const authorization = `Basic ${Buffer.from(`${name}:${password}`).toString('base64')}`;
    const response = await fetch(`${platform.ready.urls.auth}/v2/token?${query}`, { headers: { authorization } });
    return holder(given.parse(await response.json()).token);
  };
  const bySession = async (session: string, repository: string) => {
    const scope = encodeURIComponent(`repository:${repository}:pull,push,delete`);
    return holder(given.parse(await api('GET', `/api/registry/token?scope=${scope}`, session)).token);
  };
  const begins = (client: RegistryClient, name: string) => client.ask('POST', `/v2/${name}/blobs/uploads/`);
  const ended = async (client: RegistryClient, name: string, location: string) => {
    for (const [method, path] of [
      ['POST', `/v2/${name}/blobs/uploads/`],
      ['PATCH', location],
      ['PUT', `/v2/${name}/manifests/1`],
      ['DELETE', `/v2/${name}/manifests/sha256:${'0'.repeat(64)}`],
    ] as const) {
      const { status, body } = await client.ask(method, path, 'x');
      assert.equal(status, 403, `${method} ${status} ${body.toString()}`);
      assert.match(body.toString(), SENTENCE);
    }
  };

  test('ends for pushes with the API token of a service account, and with what its scopes let do', async () => {
    const session = await logIn(platform.ready.urls.auth, ...ANN);
    const { user_id: user } = await api('GET', '/api/session', session);
    const scopes = (actions: string[]) => ({ [`storage.${user}.registry.built`]: actions });
    const account = await api('POST', '/api/service-accounts', session, {
      name: 'ci',
      scopes: scopes(['push', 'pull', 'delete']),
    });
    const tokens = `/api/service-accounts/${account.id}/tokens`;
    const one = await api('POST', tokens, session, { name: 'one' });
    const two = await api('POST', tokens, session, { name: 'two' });
    const [first, second] = [
      await byLogin(['ci', String(one.token)], 'ann/built'),
      await byLogin(['ci', String(two.token)], 'ann/built'),
    ];
    await first.push('ann/built', plainImage([Buffer.from('layer')], 'oci'), '1');
    const begun = await begins(first, 'ann/built');
    assert.equal(begun.status, 202);
    await api('DELETE', `/api/tokens/${one.id}`, session);
    await ended(first, 'ann/built', new URL(begun.location, 'https://x').pathname);
    const other = await begins(second, 'ann/built');
    assert.equal(other.status, 202, 'another token of the account goes on');
    const set = (actions: string[]) =>
      api('PUT', `/api/service-accounts/${account.id}/scopes`, session, { scopes: scopes(actions) });
    await set(['pull']);
    await ended(second, 'ann/built', new URL(other.location, 'https://x').pathname);
    await set(['push']);
    assert.equal((await begins(second, 'ann/built')).status, 202);
    await api('DELETE', `/api/service-accounts/${account.id}`, session);
    await ended(second, 'ann/built', new URL(other.location, 'https://x').pathname);
  });

  test('ends for pushes with a session, with a password, and with its user', async () => {
    const { auth } = platform.ready.urls;
    const session = await logIn(auth, ...ANN);
    const kept = await logIn(auth, ...ANN);
    const [bySessionOne, bySessionTwo, byPassword] = [
      await bySession(session, 'ann/app'),
      await bySession(kept, 'ann/app'),
      await byLogin(ANN, 'ann/app'),
    ];
    const begun = await begins(bySessionOne, 'ann/app');
    assert.equal(begun.status, 202);
    const at = new URL(begun.location, 'https://x').pathname;
    for (const client of [bySessionTwo, byPassword]) assert.equal((await begins(client, 'ann/app')).status, 202);
    // All but the one that asks; a password that was shown before counts as one of them.
    await api('DELETE', '/api/settings/sessions', kept);
    for (const client of [bySessionOne, byPassword]) await ended(client, 'ann/app', at);
    assert.equal((await begins(bySessionTwo, 'ann/app')).status, 202);
    assert.equal((await begins(await byLogin(ANN, 'ann/app'), 'ann/app')).status, 202);
    await cli(['users', 'passwd', 'ann'], 'another password of ann');
    await ended(bySessionTwo, 'ann/app', at);
    const bob = await byLogin(BOB, 'bob/app');
    assert.equal((await begins(bob, 'bob/app')).status, 202);
    await cli(['users', 'disable', 'bob']);
    await ended(bob, 'bob/app', at);
  });

  test('of a stranger is refused by the registry itself, with nothing told', async () => {
    const bob = await byLogin(['ann', 'another password of ann'], 'bob/app');
    const { status, body } = await begins(bob, 'bob/app');
    assert.equal(status, 401, `${status} ${body.toString()}`);
    assert.doesNotMatch(body.toString(), SENTENCE);
  });
});
