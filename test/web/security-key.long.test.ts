/** A security key in the console: added, asked for at the login, and taken away again. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { suiteCleanup } from '../support/suite.ts';
import { type OpenedConsole, openConsole, withoutConsole } from '../support/web/opened-console.ts';

const KEY = { protocol: 'ctap2', transport: 'usb', hasUserVerification: true } as const;

const SESSION = `async () => (await fetch('/api/session', { headers: { 'x-troupe-session': 'cookie' } })).status`;
const SEE_STEP = `new MutationObserver(() => {
  if (document.body.textContent.includes('Touch your security key')) globalThis.sawStep = true;
}).observe(document.body, { childList: true, subtree: true })`;

describe('a security key in the console', {
  skip: withoutConsole,
  timeout: 900_000,
}, () => {
  const cleanup = suiteCleanup();
  let console: OpenedConsole;
  let page: Page;

  before(async () => {
    console = await openConsole(cleanup);
    ({ page } = console);
    await console.open('/settings', 'Log in to troupe.localhost');
    await console.logIn();
    await console.heading('Settings').waitFor();
    await console.browser.plugIn(KEY);
  });

  const logOut = async () => {
    await page.goto(`${console.origin}/settings`);
    await console.button('Log out').click();
    await console.heading('Log in to troupe.localhost').waitFor();
  };

  /** Gives a key of the browser to the account. */
  const add = async (name: string) => {
    await page.goto(`${console.origin}/settings`);
    await console.button('Add security key').click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Name of the key').fill(name);
    assert.deepEqual(await console.look('dialog-add-security-key'), []);
    await dialog.getByRole('button', { name: 'Add security key' }).click();
    await console.text('The security key is added').waitFor();
    await dialog.waitFor({ state: 'detached' });
  };

  test('is added with a name', async () => {
    await add('the blue one');
    await page.getByText('the blue one', { exact: true }).waitFor();
    await page.getByText('to plug in').waitFor();
    assert.deepEqual(await console.look('settings-key'), []);
  });

  test('is asked for after the password, and leads to the address that was asked for', async () => {
    await logOut();
    await page.goto(`${console.origin}/keys`);
    // It touches itself, and the step may be over before one looks.
    await page.evaluate(SEE_STEP);
    await console.logIn();
    await console.heading('SSH keys').waitFor();
    assert.equal(await page.evaluate('globalThis.sawStep'), true);
  });

  test('is deleted, and then asked for no more', async () => {
    await page.goto(`${console.origin}/settings`);
    await console.button('Delete the blue one').click();
    assert.deepEqual(await console.look('dialog-delete-security-key'), []);
    await page.getByRole('dialog').getByRole('button', { name: 'Delete', exact: true }).click();
    await console.text('The security key is deleted').waitFor();
    await logOut();
    await console.logIn();
    await console.heading('Settings').waitFor();
  });

  test('one that is not there is a sentence, and no login', async () => {
    await add('the red one');
    await logOut();
    // Another one, which the account does not know.
    await console.browser.plugIn(KEY);
    await console.logIn();
    await console.text('No security key answered in time, or this one is not of your account.').waitFor();
    await console.text('Touch your security key').waitFor();
    assert.deepEqual(await console.look('login-key'), []);
    assert.equal(await console.browser.run(SESSION), 401);
    await console.button('Begin again').click();
    await page.getByLabel('Password').waitFor();
  });

  test('the browser complained about nothing', () => {
    assert.deepEqual(console.complaints, []);
  });
});
