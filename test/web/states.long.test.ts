/** The states of a page, each looked at by axe-core and beside its kept picture: not there yet, full, old, refused, broken. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { suiteCleanup } from '../support/suite.ts';
import { until } from '../support/until.ts';
import { type OpenedConsole, openConsole, withoutConsole } from '../support/web/opened-console.ts';
import { makeContainer } from '../support/web/own-container.ts';

/** What a page of tokens asks for. */
const ASKED = '**/api/service-accounts';

const FULL = 'Delete one to make another, or the operator raises the limit (troupe users limits).';

describe('the states of a page', {
  skip: withoutConsole,
  timeout: 900_000,
}, () => {
  const cleanup = suiteCleanup();
  let console: OpenedConsole;
  let page: Page;

  before(async () => {
    console = await openConsole(cleanup);
    ({ page } = console);
    await console.open('/tokens', 'Log in to troupe.localhost');
    await console.logIn();
    await console.heading('API tokens').waitFor();
  });

  const look = (state: string) => console.look(`state-${state}`);

  test('not there yet', async () => {
    const held: (() => Promise<void>)[] = [];
    await page.route(ASKED, (route) => void held.push(() => route.continue()));
    await console.open('/tokens', 'API tokens');
    await page.locator('.bones').first().waitFor();
    assert.deepEqual(await look('loading'), []);
    for (const goOn of held) await goOn();
    await page.unroute(ASKED);
    await until(async () => (await page.locator('.bones').count()) === 0, { what: 'it is there' });
  });

  test('broken, with the id of the request', async () => {
    const headers = { 'x-request-id': 'request-7' };
    const json = { error: 'internal error', code: 'internal' };
    await page.route(ASKED, (route) => route.fulfill({ status: 500, headers, json }));
    await console.open('/tokens', 'API tokens');
    await console.text('Request request-7').waitFor();
    assert.deepEqual(await look('broken'), []);
    await page.unroute(ASKED);
    await console.button('Try again').click();
    await console.text('Request request-7').waitFor({ state: 'detached' });
  });

  test('refused, with who may', async () => {
    await page.goto(`${console.origin}/platform/users`);
    await console.text('This page is for the administrator').waitFor();
    assert.deepEqual(await look('refused'), []);
  });

  test('full, with what to do', async () => {
    for (const name of ['first', 'second', 'third']) await makeContainer(cleanup, console, name);
    await console.open('/containers', 'Containers');
    await console.text(`3 of 3 in use. ${FULL}`).waitFor();
    // Pictures of them are alike once all are measured.
    const measured = page.locator('main article').filter({ hasText: /\d of 512 MB/ });
    await until(async () => (await measured.count()) === 3, { what: 'all of them are measured', timeoutMs: 60_000 });
    assert.equal(await console.button('New container').getAttribute('aria-disabled'), 'true');
    assert.deepEqual(await look('full'), []);
    await page.goto(`${console.origin}/containers/new`);
    await console.text(`You have 3 of 3. ${FULL}`).first().waitFor();
    assert.deepEqual(await look('full-new'), []);
    await console.open('/settings', 'Settings');
    await console.text('You may have 3 containers and 10 SSH keys.').waitFor();
  });

  test('offline, with what was known last', async () => {
    await console.open('/containers', 'Containers');
    await console.text('Live').waitFor();
    await page.context().setOffline(true);
    await console.text('You are offline. What you see is the last that was known.').waitFor();
    assert.deepEqual(await look('offline'), []);
    await page.context().setOffline(false);
    await console.text('Live').waitFor();
  });

  test('old, while the platform does not answer', async () => {
    console.line.cut();
    await page.locator('.banner').waitFor();
    await page.getByRole('article', { name: 'first' }).getByText('Running').waitFor();
    assert.deepEqual(await look('old'), []);
    console.line.mend(Number(new URL(console.platform.ready.urls.console ?? '').port));
    await page.locator('.banner').waitFor({ state: 'detached', timeout: 60_000 });
  });

  test('of which the browser makes an app when its user wants that', async () => {
    const devtools = await page.context().newCDPSession(page);
    const { url, errors } = await devtools.send('Page.getAppManifest');
    assert.deepEqual([new URL(url).pathname, errors], ['/manifest.webmanifest', []]);
    const { installabilityErrors } = await devtools.send('Page.getInstallabilityErrors');
    // Each test has a browser without a memory, which installs nothing.
    const wrong = installabilityErrors.map(({ errorId }) => errorId).filter((id) => id !== 'in-incognito');
    assert.deepEqual(wrong, []);
  });

  test('the browser complained about nothing', () => {
    assert.deepEqual(console.complaints, []);
  });
});
