/** Sessions of browsers on the real platform, through its gateway, in a real Chromium. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Response } from 'playwright-core';
import { z } from 'zod';
import { type BrowserPage, openBrowser, visit } from '../support/clients/browser.ts';
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
  const opened = [];
  for (const path of sockets)
    await new Promise((done) => {
      const socket = new WebSocket(console.replace('https', 'wss') + path);
      socket.onopen = () => { opened.push(path); done(); };
      socket.onclose = socket.onerror = done;
    });
  return { read, opened };
}`;
const LOGGED_IN = `async () => (await fetch('/api/session')).status`;
const SOCKET = `async (path) => new Promise((done) => {
  const socket = new WebSocket('wss://' + location.host + path);
  socket.onopen = () => done('open');
  socket.onerror = () => done('refused');
})`;

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

describe('sessions in a browser', {
  skip: skipWithoutDocker() || skipWithout('chromium'),
  timeout: 240_000,
}, () => {
  const ends: (() => unknown)[] = [];
  const cleanup = { after: (end: () => unknown) => void ends.unshift(end) };
  let platform: RunningPlatform;
  let browser: BrowserPage;
  let origin = '';

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
    const added = await troupe(['users', 'add', 'ann', '--data', data], { env, input: `${PASSWORD}\n` });
    assert.equal(added.code, 0, added.stderr);
    origin = platform.ready.urls.https;
    browser = await openBrowser(cleanup, `${origin}/device`, ['--ignore-certificate-errors']);
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
  const said = () => browser.page.locator('#said');

  test('a person logs in on the page, sees who asks, and approves: the program gets its session', async () => {
    const { page } = browser;
    const violations: string[] = [];
    page.on('console', (message) => violations.push(message.text()));
    const { device_code, user_code } = await begin();
    await visit(page, 'about:blank');
    await visit(page, `${origin}/device#${user_code}`);
    await page.fill('[name=username]', 'ann');
    await page.fill('[name=password]', 'not this one');
    await page.click('text=Log in >> visible=true');
    await page.waitForFunction(`document.getElementById('said').textContent.includes('wrong')`);
    await page.fill('[name=password]', PASSWORD);
    await page.click('#login button');
    await page.waitForSelector('#code:not([hidden])');
    assert.equal(await page.inputValue('[name=code]'), user_code);
    await page.click('#code button');
    await page.waitForSelector('#ask:not([hidden])');
    assert.equal(await page.textContent('#name'), 'the terminal of ann');
    // All of this was a visit and a look.
    assert.equal((await ask(device_code)).status, 'pending');
    await page.click('#approve');
    await page.waitForFunction(`document.getElementById('said').textContent.startsWith('Approved')`);
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
    assert.equal(await said().textContent(), 'Approved. Go back to the program.');
  });

  test('the page of the console opens every service and socket with the cookie', async () => {
    await visit(browser.page, `${origin}/device`);
    for (const [method, path] of CALLS) {
      if (method !== 'GET') continue;
      const status = await browser.run(`async (path) => (await fetch(path)).status`, path);
      assert.equal(status, 200, path);
    }
    for (const path of SOCKETS) assert.equal(await browser.run(SOCKET, path), 'open', path);
  });

  test('a page of a container gets nothing at any call or socket, though the cookie comes along', async () => {
    const { page } = browser;
    const tenant = origin.replace('troupe.localhost', 'abcdefghijkl.compute.troupe.localhost');
    await page.route(`${tenant}/**`, (route) =>
      route.fulfill({ contentType: 'text/html', body: '<!doctype html><title>A page of a container</title>' }),
    );
    const answers: Response[] = [];
    const note = (response: Response) => void (response.url().startsWith(origin) && answers.push(response));
    page.on('response', note);
    await visit(page, `${tenant}/`);
    const got = await browser.run(ATTACK, { console: origin, calls: CALLS, sockets: SOCKETS });
    page.off('response', note);
    assert.deepEqual(got, { read: [], opened: [] });
    let withCookie = 0;
    for (const response of answers) {
      const headers = await response.request().allHeaders();
      if (headers.cookie?.includes('__Host-troupe=') === true) withCookie += 1;
      const { pathname } = new URL(response.url());
      // A logout that proves nobody is no failure; it ends nothing, and the cookie stays.
      if (pathname === '/api/logout') assert.equal((await response.allHeaders())['set-cookie'], undefined);
      else if (response.request().method() !== 'OPTIONS') assert.equal(response.status(), 401, pathname);
    }
    assert.ok(withCookie >= 8, `the browser sent the cookie along ${withCookie} times: else nothing is shown here`);
    await visit(page, `${origin}/device`);
    assert.equal(await browser.run(LOGGED_IN), 200, 'the session goes on');
    const { json } = await request('POST', `${platform.ready.urls.auth}/api/login`, {
      body: { username: 'ann', password: PASSWORD },
    });
    assert.equal(json.display_name, 'ann');
  });

  test('the logout ends the session in the browser', async () => {
    await visit(browser.page, `${origin}/device`);
    await browser.run(`async () => { await fetch('/api/logout', { method: 'POST' }); }`);
    assert.equal(await browser.run(LOGGED_IN), 401);
    assert.deepEqual(await browser.page.context().cookies(), []);
  });
});
