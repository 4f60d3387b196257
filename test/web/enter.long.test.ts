/** A page of a container for its owner alone, opened in a real Chromium: by way of the console, and by nobody else. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { request } from '../support/cluster/platform.ts';
import { suiteCleanup } from '../support/suite.ts';
import { until } from '../support/until.ts';
import { type OpenedConsole, openConsole, withoutConsole } from '../support/web/opened-console.ts';
import { makeContainer, type OwnContainer } from '../support/web/own-container.ts';
import { PASSWORD } from '../support/web/served-console.ts';

describe('a page for its owner alone', {
  skip: withoutConsole,
  timeout: 900_000,
}, () => {
  const cleanup = suiteCleanup();
  let console: OpenedConsole;
  let page: Page;
  let box: OwnContainer;
  /** `https://<id>.compute...:<port>`. */
  let site = '';

  before(async () => {
    console = await openConsole(cleanup, {}, 'https');
    ({ page } = console);
    box = await makeContainer(cleanup, console, 'web');
    await box.sh('mkdir /tmp/w; echo served > /tmp/w/index.html; httpd -p 8080 -h /tmp/w');
    const gateway = new URL(console.platform.ready.urls.https);
    site = `https://${box.id}.compute.${gateway.hostname}:${gateway.port}`;
  });

  const logInAt = async (at: Page, name: string, password: string) => {
    await at.getByLabel('Username').fill(name);
    await at.getByLabel('Password').fill(password);
    await at.getByRole('button', { name: 'Log in', exact: true }).click();
  };

  test('its owner says so in the console', async () => {
    await console.open(`/containers/${box.id}/network`, `Log in to ${new URL(console.origin).hostname}`);
    await console.logIn();
    await page.getByLabel('From outside').fill('443');
    await page.getByLabel('In the container').fill('8080');
    await page.getByLabel('Who gets through').selectOption('whoever has the password');
    await page.getByLabel('Password').fill('short');
    assert.deepEqual(await console.findings(), []);
    await console.button('Open port').click();
    await page.getByText('Must have 8 characters at least.').waitFor();
    await page.getByLabel('Who gets through').selectOption('you alone');
    await console.button('Open port').click();
    await page.getByText('for you alone').waitFor();
    assert.deepEqual(await console.findings(), []);
  });

  test('whoever is not logged in logs in first, and is led to the page that was asked for', async () => {
    const browser = page.context().browser();
    assert.ok(browser);
    const context = await browser.newContext();
    const other = await context.newPage();
    // The rule counts within 5 s.
    await until(async () => (await other.goto(`${site}/index.html?a=b`).catch(() => undefined))?.status() === 200, {
      what: 'the console',
      timeoutMs: 30_000,
    });
    assert.equal(new URL(other.url()).pathname, '/enter');
    await logInAt(other, 'ann', PASSWORD);
    await other.waitForURL(`${site}/index.html?a=b`);
    assert.equal((await other.textContent('body'))?.trim(), 'served');
    // The cookie lets it in from then on, and no script of the page reads it.
    await other.goto(`${site}/`);
    assert.equal(new URL(other.url()).origin, site);
    assert.equal(await other.evaluate('document.cookie'), '');
    await context.close();
  });

  test('whoever is logged in is led there at once', async () => {
    await page.goto(`${site}/`);
    await page.waitForURL(`${site}/`);
    assert.equal((await page.textContent('body'))?.trim(), 'served');
  });

  test('a readable address is entered by way of the console, too', async () => {
    const body = { address_name: 'my-web' };
    assert.equal((await request('PATCH', box.url, { token: box.token, body })).status, 200);
    const named = site.replace(box.id, 'my-web');
    await until(async () => (await page.goto(`${named}/`).catch(() => undefined))?.status() === 200, {
      what: 'it leads there',
    });
    await page.waitForURL(`${named}/`);
    assert.equal((await page.textContent('body'))?.trim(), 'served');
  });

  test('another user is told that it is not theirs', async () => {
    const browser = page.context().browser();
    assert.ok(browser);
    const context = await browser.newContext();
    const other = await context.newPage();
    await other.goto(`${site}/`);
    await logInAt(other, 'admin', 'the admin of this test');
    await other.getByText(`Nothing of yours is at ${new URL(site).hostname}.`).waitFor();
    assert.equal((await context.cookies(site)).length, 0);
    await context.close();
  });

  test('the browser complained about nothing', () => {
    assert.deepEqual(console.complaints, []);
  });
});
