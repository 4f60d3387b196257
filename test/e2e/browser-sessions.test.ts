/** Sessions of browsers on the real platform, through its gateway, in a real Chromium. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Server } from 'node:https';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { z } from 'zod';
import { issueCertificate, makeAuthority } from '../../transports/gateway/tls/local-ca.ts';
import { atTerminal } from '../support/client/terminal.ts';
import { type BrowserPage, openBrowser } from '../support/clients/browser.ts';
import { type RunningPlatform, request, startPlatform, troupe } from '../support/cluster/platform.ts';
import { testDatabase } from '../support/database/database.ts';
import { skipWithoutDocker, tinyImage } from '../support/engine/docker-client.ts';
import { skipWithout } from '../support/require.ts';
import { tempDir } from '../support/temp.ts';

const PASSWORD = 'the password of ann';

/** All that a page of a container can send: with the cookies of whoever looks at it. */
const ATTACK = `async ({ console, calls, sockets }) => {
  const read = [];
  for (const [method, path] of calls)
    for (const mode of ['no-cors', 'cors'])
      try {
        const body = method === 'GET' ? undefined : '{"display_name":"owned","user_code":"CDFGHJKM","decision":"approve"}';
        const reply = await fetch(console + path, { method, mode, body, credentials: 'include' });
        if (reply.type !== 'opaque') read.push(method + ' ' + path + ': ' + reply.status);
      } catch { /* Not sent, or not to be read. */ }
  const [told, ends] = [[], []];
  for (const path of sockets)
    ends.push(await new Promise((done) => {
      const socket = new WebSocket(console.replace('https', 'wss') + path);
      socket.onmessage = ({ data }) => told.push(path + ': ' + data);
      socket.onclose = ({ code }) => done(code);
    }));
  return { read, told, ends };
}`;
const LOGGED_IN = `async () => (await fetch('/api/session')).status`;
/** Opens a socket, and sees whether it tells something or is still open after a second: a refusal closes it at once. */
const SOCKET = `async (path) => new Promise((done) => {
  const socket = new WebSocket('wss://' + location.host + path);
  socket.onopen = () => setTimeout(() => done('open'), 1000);
  socket.onmessage = () => done('open');
  socket.onclose = ({ code }) => done(code);
})`;

const LOG_OUT = `async () => { await fetch('/api/logout', { method: 'POST' }); }`;
/** Adds the security key that is plugged in to whoever is logged in. */
const ADD_KEY = `async () => {
  const post = (path, body) => fetch('/api/settings/keys/add/' + path, { method: 'POST', body: JSON.stringify(body) });
  const { options, state } = await (await post('begin')).json();
  const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(options);
  const credential = (await navigator.credentials.create({ publicKey })).toJSON();
  const reply = await post('finish', { state, credential, name: 'this laptop' });
  if (!reply.ok) throw new Error(await reply.text());
}`;

const CALLS = [
  ['GET', '/api/session'],
  ['GET', '/api/settings/sessions'],
  ['GET', '/compute/containers'],
  ['GET', '/api/notifications'],
  ['GET', '/api/domain-mappings'],
  ['GET', '/pod-metrics'],
  ['POST', '/api/session/renew'],
  ['POST', '/api/device/approve'],
  ['POST', '/api/logout'],
  ['PUT', '/api/settings/profile'],
  ['DELETE', '/api/settings/sessions'],
] as const;
const SOCKETS = ['/ws/notifications', '/compute/ws', '/ws/pod-metrics'];

const lowerCase = (headers: object) =>
  z
    .record(z.string(), z.string())
    .parse(Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value])));

/** A page behind TLS on a port of its own, as that of a container is. */
async function servePage({ cert, key }: { readonly cert: string; readonly key: string }): Promise<Server> {
  const server = createServer({ cert, key }, (_, reply) => {
    reply.setHeader('content-type', 'text/html');
    reply.end('<!doctype html><link rel="icon" href="data:,"><title>A page of a container</title>');
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return server;
}

describe('sessions in a browser', {
  skip: skipWithoutDocker() || skipWithout('chromium'),
  timeout: 900_000,
}, () => {
  const ends: (() => unknown)[] = [];
  const cleanup = { after: (end: () => unknown) => void ends.unshift(end) };
  let platform: RunningPlatform;
  let browser: BrowserPage;
  let origin = '';
  let data = '';
  /** The origin of what a container serves. */
  const tenant = 'https://abcdefghijkl.compute.troupe.localhost';

  before(async () => {
    data = await tempDir(cleanup);
    const database = await testDatabase();
    cleanup.after(() => database.close());
    const env = {
      DATABASE_URL: database.url,
      DEFAULT_IMAGE: await tinyImage(),
      ADMIN_PASSWORD: 'the admin of this test',
    };
    platform = await startPlatform({ data, env });
    cleanup.after(() => platform.stop());
    const added = await troupe(['users', 'add', 'ann', '--data', data], { env, input: `${PASSWORD}\n` });
    assert.equal(added.code, 0, added.stderr);
    origin = platform.ready.urls.https;
    const served = await servePage(
      await issueCertificate(await makeAuthority('A container', Date.now()), [new URL(tenant).hostname], Date.now()),
    );
    cleanup.after(() => served.close());
    const address = served.address();
    assert.ok(typeof address === 'object' && address !== null);
    browser = await openBrowser(cleanup, `${origin}/device`, [
      '--ignore-certificate-errors',
      `--host-resolver-rules=MAP abcdefghijkl.compute.troupe.localhost 127.0.0.1:${address.port}`,
    ]);
  });
  after(async () => {
    for (const end of ends) await end();
  });

  const begin = async () => {
    const { status, json } = await request('POST', `${platform.ready.urls.auth}/api/device`, {
      body: { name: 'the terminal of ann' },
    });
    assert.equal(status, 200);
    return z.object({ device_code: z.string(), user_code: z.string() }).parse(json);
  };
  const ask = async (device_code: string) =>
    (await request('POST', `${platform.ready.urls.auth}/api/device/token`, { body: { device_code } })).json;
  /** Enters name and password on the page. */
  const logIn = async () => {
    const { page } = browser;
    await page.fill('[name=username]', 'ann');
    await page.fill('[name=password]', PASSWORD);
    await press('Log in');
    await page.waitForSelector('[name=code]');
  };
  const said = (text: string) => browser.page.locator('.note', { hasText: text });
  const press = (name: string) => browser.page.getByRole('button', { name, exact: true }).click();

  test('a person logs in on the page, sees who asks, and approves: the program gets its session', async () => {
    const { page } = browser;
    const violations: string[] = [];
    page.on('console', (message) => violations.push(message.text()));
    const { device_code, user_code } = await begin();
    await page.goto('about:blank');
    await page.goto(`${origin}/device#${user_code}`);
    await page.fill('[name=username]', 'ann');
    await page.fill('[name=password]', 'not this one');
    await press('Log in');
    await said('wrong').waitFor();
    await page.fill('[name=password]', PASSWORD);
    await press('Log in');
    await page.waitForSelector('[name=code]');
    assert.equal(await page.inputValue('[name=code]'), user_code);
    await press('Continue');
    assert.equal(await page.textContent('.machine'), 'the terminal of ann');
    // All of this was a visit and a look.
    assert.equal((await ask(device_code)).status, 'pending');
    await press('Approve');
    await said('Approved').waitFor();
    const got = await ask(device_code);
    assert.equal(got.status, 'approved');
    const session = await request('GET', `${platform.ready.urls.auth}/api/session`, { token: String(got.token) });
    assert.equal(session.json.username, 'ann');

    const [cookie] = await page.context().cookies();
    assert.deepEqual(
      [cookie?.name, cookie?.httpOnly, cookie?.secure, cookie?.sameSite, cookie?.domain, cookie?.path],
      ['__Host-troupe', true, true, 'Strict', 'troupe.localhost', '/'],
    );
    assert.equal(await browser.run('() => document.cookie'), '');
    assert.deepEqual(
      violations.filter((text) => /Content Security|Trusted/i.test(text)),
      [],
    );
  });

  test('the page of the console opens every service and socket with the cookie', async () => {
    await browser.page.goto(`${origin}/device`);
    for (const [method, path] of CALLS) {
      if (method !== 'GET') continue;
      const status = await browser.run(`async (path) => (await fetch(path)).status`, path);
      assert.equal(status, 200, path);
    }
    for (const path of SOCKETS) assert.equal(await browser.run(SOCKET, path), 'open', path);
  });

  test('a page of a container gets nothing at any call or socket, though the cookie comes along', async () => {
    const { page } = browser;
    // What went over the wire, whatever the browser lets the page see of it.
    const wire = await page.context().newCDPSession(page);
    const sent: Record<string, string>[] = [];
    const got: { readonly status: number; readonly cookie: string | undefined }[] = [];
    wire.on('Network.requestWillBeSentExtraInfo', ({ headers }) => void sent.push(lowerCase(headers)));
    wire.on(
      'Network.responseReceivedExtraInfo',
      ({ statusCode, headers }) => void got.push({ status: statusCode, cookie: lowerCase(headers)['set-cookie'] }),
    );
    await page.goto(`${tenant}/`);
    await wire.send('Network.enable');
    assert.deepEqual(await browser.run(ATTACK, { console: origin, calls: CALLS, sockets: SOCKETS }), {
      read: [],
      told: [],
      ends: SOCKETS.map(() => 4401),
    });
    const lured = sent.filter(
      ({ cookie = '', 'sec-fetch-site': site }) =>
        cookie.includes('__Host-troupe=') && (site ?? 'same-site') === 'same-site',
    );
    assert.ok(lured.length >= CALLS.length, `${lured.length} of ${sent.length} had the cookie: else nothing is shown`);
    assert.ok(got.length >= lured.length);
    for (const { status, cookie } of got) {
      assert.equal(cookie, undefined);
      assert.ok([101, 200, 204, 401, 405].includes(status), String(status));
    }
    // The two logouts, and preflights, neither of which proves anybody; and the sockets, which were closed.
    const answered = got.filter(({ status }) => status !== 401 && status !== 101).length;
    assert.ok(answered <= 2 + sent.filter((one) => one['access-control-request-method'] !== undefined).length);
    await wire.detach();
    await page.goto(`${origin}/device`);
    assert.equal(await browser.run(LOGGED_IN), 200, 'the session goes on');
    const { json } = await request('POST', `${platform.ready.urls.auth}/api/login`, {
      body: { username: 'ann', password: PASSWORD },
    });
    assert.equal(json.display_name, 'ann');
  });

  test('the logout ends the session in the browser', async () => {
    await browser.page.goto(`${origin}/device`);
    await browser.page.goto(`${origin}/settings`);
    await press('Log out');
    await browser.page.waitForSelector('[name=username]');
    assert.equal(await browser.run(LOGGED_IN), 401);
    await browser.page.goto('about:blank');
    await browser.page.goto(`${origin}/device`);
    assert.deepEqual(await browser.page.context().cookies(), []);
  });

  test('a user with a security key logs in at a terminal', { skip: skipWithout('script') }, async (t) => {
    const { page } = browser;
    await browser.plugIn({ protocol: 'ctap2', transport: 'internal', hasUserVerification: true });
    await logIn();
    await browser.run(ADD_KEY);
    await browser.run(LOG_OUT);
    const env = { XDG_CONFIG_HOME: join(data, 'config'), TROUPE_URL: '', TROUPE_TOKEN: '' };
    const login = await atTerminal(['login', '--data', data], { folder: data, env });
    t.after(login.stop);
    const opened = await login.opened();
    await page.goto('about:blank');
    await page.goto(opened);
    // The password alone opens nothing: the page asks for the key, which touches itself.
    await logIn();
    await press('Continue');
    await press('Approve');
    await said('Approved').waitFor();
    assert.equal(await login.ended, 0, login.screen());
    assert.match((await troupe(['whoami'], { env })).stdout, /^user\tann$/m);
  });
});
