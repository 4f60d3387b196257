/** Security keys as a person uses them: the real platform, a real Chromium, and a key that its DevTools emulate. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { z } from 'zod';
import { type BrowserPage, openBrowser } from '../support/clients/browser.ts';
import { type RunningPlatform, request, startPlatform, troupe } from '../support/cluster/platform.ts';
import { testDatabase } from '../support/database/database.ts';
import { skipWithoutDocker, tinyImage } from '../support/engine/docker-client.ts';
import { skipWithout } from '../support/require.ts';
import { suiteCleanup } from '../support/suite.ts';
import { tempDir } from '../support/temp.ts';

const PASSWORD = 'the password of ann';

/** Posts JSON from the page; the reply's status and body. */
const POST = `async ({ path, body, token }) => {
  const headers = token ? { authorization: 'Bearer ' + token } : {};
  const reply = await fetch(path, { method: 'POST', headers, body: body && JSON.stringify(body) });
  const text = await reply.text();
  return { status: reply.status, json: text ? JSON.parse(text) : null };
}`;
const CREATE = `async (options) => {
  const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(options);
  return (await navigator.credentials.create({ publicKey })).toJSON();
}`;
const GET = `async (options) => {
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(options);
  return (await navigator.credentials.get({ publicKey })).toJSON();
}`;

const replySchema = z.object({ status: z.number(), json: z.record(z.string(), z.unknown()).nullable() });
const begunSchema = z.object({ options: z.looseObject({ challenge: z.string() }), state: z.string() });
const provenSchema = z.object({ token: z.string().optional(), challenge_token: z.string().optional() });
const credentialSchema = z.looseObject({ id: z.string() });

describe('security keys in a browser', {
  skip: skipWithoutDocker() || skipWithout('chromium'),
  timeout: 900_000,
}, () => {
  const cleanup = suiteCleanup();
  let platform: RunningPlatform;
  let browser: BrowserPage;

  before(async () => {
    const data = await tempDir(cleanup);
    const database = await testDatabase();
    cleanup.after(() => database.close());
    const env = {
      DATABASE_URL: database.url,
      DEFAULT_IMAGE: await tinyImage(),
      ADMIN_PASSWORD: 'the admin of this test',
    };
    platform = await startPlatform({ data, env });
    cleanup.after(() => platform.stop());
    for (const name of ['ann', 'bob']) {
      const added = await troupe(['users', 'add', name, '--data', data], { env, input: `${PASSWORD}\n` });
      assert.equal(added.code, 0, added.stderr);
    }
    browser = await openBrowser(cleanup, pageOf('troupe.localhost'));
  });

  /** Any page of the service will do: what counts is where it is. */
  const pageOf = (host: string) => `http://${host}:${new URL(platform.ready.urls.auth).port}/healthz`;

  async function post(path: string, options: { token?: string; body?: unknown } = {}) {
    return replySchema.parse(await browser.run(POST, { path, ...options }));
  }

  async function begin(path: string, token: string) {
    const { status, json } = await post(path, { token });
    assert.equal(status, 200, JSON.stringify(json));
    return begunSchema.parse(json);
  }

  const create = async (options: object) => credentialSchema.parse(await browser.run(CREATE, options));
  const get = async (options: object) => credentialSchema.parse(await browser.run(GET, options));

  /** Logs in with the password; the session's token, or the challenge token. */
  async function password(username: string): Promise<z.output<typeof provenSchema>> {
    const { status, json } = await post('/api/login', { body: { username, password: PASSWORD } });
    assert.equal(status, 200, JSON.stringify(json));
    return provenSchema.parse(json);
  }

  /** Password and begin: what the key is to sign. */
  async function beginLogin(username: string) {
    const { token, challenge_token = '' } = await password(username);
    assert.equal(token, undefined, 'the password alone opens nothing');
    return begin('/api/webauthn/login/begin', challenge_token);
  }

  async function finishLogin(state: string, credential: object) {
    return post('/api/webauthn/login/finish', { body: { state, credential } });
  }

  test('one that knows its user is added, and asked for at the next login', async () => {
    await browser.plugIn({ protocol: 'ctap2', transport: 'internal', hasUserVerification: true });
    const { token = '' } = await password('ann');
    const adding = await begin('/api/settings/keys/add/begin', token);
    const made = await create(adding.options);
    const added = await post('/api/settings/keys/add/finish', {
      token,
      body: { state: adding.state, credential: made, name: 'this laptop' },
    });
    assert.deepEqual(added, { status: 200, json: null });
    const listed = await request('GET', `${platform.ready.urls.auth}/api/settings/keys`, { token });
    const [key] = z.array(z.record(z.string(), z.unknown())).parse(listed.json.keys);
    assert.deepEqual(
      { ...key, created_at: 0 },
      {
        ...{ id: made.id, name: 'this laptop', authenticator_type: 'platform', created_at: 0 },
      },
    );
    assert.equal((await post('/api/logout')).status, 200);

    const { options, state } = await beginLogin('ann');
    assert.equal(options.rpId, 'troupe.localhost');
    const finished = await finishLogin(state, await get(options));
    assert.equal(finished.status, 200, JSON.stringify(finished.json));
    assert.deepEqual(Object.keys(finished.json ?? {}).sort(), [
      'display_name',
      'is_admin',
      'token',
      'user_id',
      'username',
    ]);
    const session = await request('GET', `${platform.ready.urls.auth}/api/session`, {
      token: String(finished.json?.token),
    });
    assert.equal(session.json.username, 'ann');
  });

  test('an answer counts once', async () => {
    const { options, state } = await beginLogin('ann');
    const signed = await get(options);
    assert.equal((await finishLogin(state, signed)).status, 200);
    const again = await finishLogin(state, signed);
    assert.deepEqual([again.status, again.json?.code], [401, 'invalid_credential']);
    const later = await beginLogin('ann');
    assert.equal((await finishLogin(later.state, signed)).status, 401);
  });

  test('without the check of the user that it was made with, it does not open', async () => {
    const { options, state } = await beginLogin('ann');
    await browser.setUserVerified(false);
    // The browser itself gives up, since the key can check and says no.
    await assert.rejects(get(options), /NotAllowedError/);
    // A page that does not ask for the check gets an answer, which the platform does not take.
    const unchecked = await get({ ...options, userVerification: 'discouraged' });
    const refused = await finishLogin(state, unchecked);
    assert.deepEqual([refused.status, refused.json?.code], [401, 'invalid_credential']);
    assert.match(platform.log(), /User verification required/);
    await browser.setUserVerified(true);
    const next = await beginLogin('ann');
    assert.equal((await finishLogin(next.state, await get(next.options))).status, 200);
  });

  test('pages of subdomains may use it, others are kept away by the browser', async () => {
    await browser.page.goto(pageOf('console.troupe.localhost'));
    const { options, state } = await beginLogin('ann');
    assert.equal((await finishLogin(state, await get(options))).status, 200);
    // What a container serves is no page of ours, though browsers take it for one.
    await browser.page.goto(pageOf('abcdefghijkl.compute.troupe.localhost'));
    const lured = await beginLogin('ann');
    assert.equal((await finishLogin(lured.state, await get(lured.options))).status, 401);
    for (const host of ['evil-troupe.localhost', '127.0.0.1']) {
      await browser.page.goto(pageOf(host));
      await assert.rejects(get(options), /SecurityError/, host);
    }
    await browser.page.goto(pageOf('troupe.localhost'));
  });

  test('an old one that only knows a touch does too, by its counter', async () => {
    await browser.plugIn({ protocol: 'u2f', transport: 'usb', hasUserVerification: false });
    const { token = '' } = await password('bob');
    const adding = await begin('/api/settings/keys/add/begin', token);
    const body = { state: adding.state, credential: await create(adding.options), name: 'old one' };
    assert.equal((await post('/api/settings/keys/add/finish', { token, body })).status, 200);
    for (let i = 0; i < 2; i++) {
      const { options, state } = await beginLogin('bob');
      assert.equal((await finishLogin(state, await get(options))).status, 200);
    }
    // Bob's key is not Ann's.
    const anns = await beginLogin('ann');
    const bobs = await beginLogin('bob');
    assert.equal((await finishLogin(anns.state, await get(bobs.options))).status, 401);
    const { json } = await request('GET', `${platform.ready.urls.auth}/api/settings/keys`, { token });
    const [key] = z.array(z.object({ id: z.string(), authenticator_type: z.string() })).parse(json.keys);
    assert.equal(key?.authenticator_type, 'cross-platform');
    assert.deepEqual(await post('/api/settings/keys/delete', { token, body: { id: key?.id } }), {
      status: 200,
      json: null,
    });
    assert.equal(typeof (await password('bob')).token, 'string');
  });
});
