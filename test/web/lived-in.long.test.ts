/** Screens as they are after a while of use: all of it is there, names are long, and something was refused. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { z } from 'zod';
import { request } from '../support/cluster/platform.ts';
import { suiteCleanup } from '../support/suite.ts';
import { until } from '../support/until.ts';
import { type OpenedConsole, openConsole, withoutConsole } from '../support/web/opened-console.ts';
import { makeContainer, type OwnContainer } from '../support/web/own-container.ts';

/** Long, without a space to break it at. */
const LONG = 'nightly-import-of-the-catalogue-of-the-northern-warehouse';
const DAY = 86_400;
const listed = z.object({ domains: z.array(z.record(z.string(), z.unknown())) });

describe('screens that are lived in', {
  skip: withoutConsole,
  timeout: 900_000,
}, () => {
  const cleanup = suiteCleanup();
  let console: OpenedConsole;
  let page: Page;
  let shop: OwnContainer;

  before(async () => {
    console = await openConsole(cleanup);
    ({ page } = console);
    shop = await makeContainer(cleanup, console, 'shop');
  });

  /** Asks as the user, past the browser. */
  const ask = async (method: string, url: string, body?: unknown) => {
    const { status, json } = await request(method, url, { token: shop.token, body });
    assert.ok(status < 300, `${method} ${url}: ${JSON.stringify(json)}`);
    return json;
  };
  const at = (end: string) => console.open(`/containers/${shop.id}${end}`, 'shop');
  const runs = () =>
    until(async () => (await ask('GET', shop.url)).status === 'running', { what: 'it runs', timeoutMs: 120_000 });

  test('a login that came too often says how long to wait', async () => {
    await page.route('**/api/login', (route) =>
      route.fulfill({
        status: 429,
        headers: { 'retry-after': '25' },
        json: { error: 'Too many attempts.', code: 'rate_limited' },
      }),
    );
    await console.open('/containers', 'Log in to troupe.localhost');
    await console.logIn();
    await page.getByRole('button', { name: /^Try again in \d+ s$/ }).waitFor();
    assert.deepEqual(await console.look('login-too-often'), []);
    await page.unroute('**/api/login');
    await page.getByRole('button', { name: 'Log in', exact: true }).waitFor({ timeout: 60_000 });
    await console.logIn();
    await console.heading('Containers').waitFor();
  });

  test('a container with ports, who gets through them, a readable address, a hostname and a network', async () => {
    const { net } = console.platform.ready.urls;
    for (const rule of [
      { port: 80 },
      { port: 443, target_port: 8080, tls: 'platform', access: 'mine' },
      { port: 8001, target_port: 9000, tls: 'platform', access: 'password', password: 'open sesame' },
    ])
      await ask('POST', `${shop.url}/ingress`, rule);
    await ask('PATCH', shop.url, { address_name: 'shop', network: 'catalogue', alias: 'web' });
    const domain = `${LONG}.example.com`;
    await ask('POST', `${net}/api/domain-mappings`, { domain, container_id: shop.id, target_port: 443 });
    await at('/network');
    await console.text('for you alone').waitFor();
    await console.text('with a password').waitFor();
    await console.text(domain).waitFor();
    assert.deepEqual(await console.look('container-network-open'), []);
  });

  test('a hostname that the platform gave up', async () => {
    const all = '**/api/domain-mappings';
    const { domains } = listed.parse(await ask('GET', `${console.platform.ready.urls.net}/api/domain-mappings`));
    const detail = 'no TXT record was found in 7 days';
    const checks = { checked_at: new Date(Date.now() - 3 * 3_600_000).toISOString(), next_check_at: null };
    const givenUp = domains.map((one) => ({ ...one, ...checks, status: 'failed', detail }));
    await page.route(all, (route) => route.fulfill({ json: { domains: givenUp } }));
    await console.open('/hostnames', 'Hostnames');
    await console.text('No TXT record was found in 7 days.').waitFor();
    // Its token is another in each run.
    await page.evaluate(
      "for (const code of document.querySelectorAll('.records code:has(+ button)')) code.textContent = 'recorded'",
    );
    assert.deepEqual(await console.look('hostnames-gave-up'), []);
    await page.unroute(all);
  });

  test('a container that ran several revisions, and what happened to it', async () => {
    for (const env of [{ STAGE: 'one' }, { STAGE: 'two', COLOUR: 'green' }]) {
      await ask('PATCH', shop.url, { env });
      await runs();
    }
    await at('/history');
    await console.text('Revision 3').waitFor();
    assert.deepEqual(await console.look('container-history-some'), []);
  });

  test('a shell in a window of its own', async () => {
    await console.open(`/containers/${shop.id}/shell/${crypto.randomUUID()}?n=1`, 'shop, Shell 1');
    await page.locator('.terminal-pane .status.ok').waitFor();
    assert.deepEqual(await console.look('shell-window'), []);
  });

  test('a container with a long name and an address, beside one that is stopped', async () => {
    const other = await makeContainer(cleanup, console, LONG);
    await ask('POST', `${other.url}/ingress`, { port: 443, target_port: 8080, tls: 'platform' });
    await ask('POST', `${shop.url}/stop`);
    await until(async () => (await ask('GET', shop.url)).status === 'stopped', { what: 'it is stopped' });
    await console.open('/containers', 'Containers');
    await page.getByRole('article', { name: 'shop' }).getByText('Stopped').waitFor();
    const measured = page.getByRole('article', { name: LONG }).getByText(/\d of 512 MB/);
    await measured.waitFor({ timeout: 60_000 });
    assert.deepEqual(await console.look('containers-some'), []);
    await console.open(`/containers/${other.id}`, LONG);
    await page.locator('.terminal-pane .status.ok').first().waitFor();
    assert.deepEqual(await console.look('container-long-name'), []);
    await at('');
    await console.text('There is a terminal while the container runs.').waitFor();
    assert.deepEqual(await console.look('state-stopped'), []);
  });

  test('a container that is refused for its image, with all that may be chosen', async () => {
    await console.open('/containers/new', 'New container');
    await page.getByLabel('Name', { exact: true }).fill('third');
    await page.getByLabel('Image', { exact: true }).selectOption('Another image');
    await page.getByLabel('Name of the image').fill('Not An Image');
    await page.getByText('More', { exact: true }).first().click();
    await console.button('Create container').click();
    await page.locator('.field .wrong').first().waitFor();
    await page.locator('input[aria-invalid=true]:focus').waitFor();
    assert.deepEqual(await console.look('containers-new-refused'), []);
  });

  test('tokens that end soon, have ended, and never end', async () => {
    const now = Math.floor(Date.now() / 1000);
    const token = {
      scopes: { 'compute.ann.containers': ['read', 'start'] },
      service_account_id: null,
      created_at: now - DAY,
    };
    await page.route('**/api/tokens', (route) =>
      route.fulfill({
        json: [
          { ...token, id: 'one', name: LONG, expires_at: now + 3 * DAY, last_used_at: now - 60 },
          { ...token, id: 'two', name: 'before', expires_at: now - DAY, last_used_at: 0 },
          { ...token, id: 'three', name: 'ever', expires_at: 0, last_used_at: now - 40 * DAY },
        ],
      }),
    );
    await console.open('/tokens', 'API tokens');
    await console.text('never expires').waitFor();
    assert.deepEqual(await console.look('tokens-own'), []);
    await page.unroute('**/api/tokens');
  });

  test('a token that was revoked elsewhere is gone here, too', async () => {
    const { auth } = console.platform.ready.urls;
    const { user_id } = await ask('GET', `${auth}/api/session`);
    const scopes = { [`compute.${z.string().parse(user_id)}.containers`]: ['read'] };
    const { id } = await ask('POST', `${auth}/api/tokens`, { name: 'shared', expires_in: '30d', scopes });
    await console.open('/tokens', 'API tokens');
    await console.button('Revoke shared').click();
    await ask('DELETE', `${auth}/api/tokens/${z.string().parse(id)}`);
    await page.getByRole('dialog').getByRole('button', { name: 'Revoke', exact: true }).click();
    await console.text('shared is revoked').waitFor();
    await console.text('No token yet').waitFor();
  });

  test('a platform that says when to ask again', async () => {
    await page.route('**/api/service-accounts', (route) =>
      route.fulfill({
        status: 503,
        headers: { 'retry-after': '25', 'x-request-id': 'request-8' },
        json: { error: 'A part this needs is not available at the moment: try again soon.', code: 'unavailable' },
      }),
    );
    await console.open('/tokens', 'API tokens');
    await page.getByRole('button', { name: /^Try again in \d+ s$/ }).waitFor({ timeout: 60_000 });
    assert.deepEqual(await console.look('state-wait'), []);
    await page.unroute('**/api/service-accounts');
  });

  test('a program that asks to be logged in', async () => {
    const { auth } = console.platform.ready.urls;
    const asked = await request('POST', `${auth}/api/device`, { body: { name: 'troupe on the laptop' } });
    const code = z.string().parse(asked.json.user_code);
    await console.open(`/device#${code}`, 'Approve a login');
    await console.button('Continue').click();
    await console.text('troupe on the laptop').waitFor();
    assert.deepEqual(await console.look('device-asked'), []);
  });

  test('a page that is for its owner alone, and that is another', async () => {
    await console.open('/enter?host=shop.example.com&port=443&path=/', 'On the way');
    await console.text('Nothing of yours is at shop.example.com.').waitFor();
    assert.deepEqual(await console.look('enter-refused'), []);
  });

  test('the browser complained about nothing', () => {
    assert.deepEqual(console.complaints, []);
  });
});
