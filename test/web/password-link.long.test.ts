/** A link to set a password: made by the administrator, opened by somebody without a session, in a real Chromium. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { request } from '../support/cluster/platform.ts';
import { suiteCleanup } from '../support/suite.ts';
import { until } from '../support/until.ts';
import { type OpenedConsole, openConsole, withoutConsole } from '../support/web/opened-console.ts';
import { PASSWORD } from '../support/web/served-console.ts';

const NEW = 'another fine password';

describe('a link to set a password', {
  skip: withoutConsole,
  timeout: 900_000,
}, () => {
  const cleanup = suiteCleanup();
  let console: OpenedConsole;
  let page: OpenedConsole['page'];
  const links: string[] = [];

  before(async () => {
    console = await openConsole(cleanup);
    ({ page } = console);
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write'], { origin: console.origin });
  });

  const dialog = () => page.getByRole('dialog');
  const choose = async (menu: string, item: string) => {
    await console.button(menu).click();
    await page.getByRole('menuitem', { name: item, exact: true }).click();
  };
  /** What the dialog shows once. */
  const shownLink = async (username: string): Promise<string> => {
    await page.getByRole('heading', { name: `The password link of ${username}` }).waitFor();
    const link = (await dialog().locator('pre').textContent()) ?? '';
    links.push(link);
    return link;
  };
  const enterTwice = async (password: string, again = password) => {
    await page.getByLabel('New password', { exact: true }).fill(password);
    await page.getByLabel('New password again').fill(again);
    await console.button('Set password').click();
  };
  const logsIn = async (username: string, password: string) => {
    const { auth } = console.platform.ready.urls;
    return (await request('POST', `${auth}/api/login`, { body: { username, password } })).status;
  };

  test('the administrator makes it, and sees it once', async () => {
    await console.open('/platform/users', 'Log in to troupe.localhost');
    await console.logIn('admin');
    await choose('More for ann', 'Password link');
    await dialog().getByRole('heading', { name: 'A link for ann to set a password?' }).waitFor();
    await dialog().getByLabel('How long it may be used').selectOption('1 hour');
    await dialog().getByText('As a command').click();
    await dialog().getByText('troupe users password-link ann --expires 1h').waitFor();
    assert.deepEqual(await console.look('dialog-password-link'), []);
    await dialog().getByRole('button', { name: 'Make link' }).click();
    const link = await shownLink('ann');
    assert.ok(link.startsWith(`${console.origin}/password#`), link);
    assert.deepEqual(await console.look('dialog-link-once'), []);
    await dialog().getByRole('button', { name: 'Copy the link' }).click();
    await until(async () => (await page.evaluate('navigator.clipboard.readText()')) === link, {
      what: 'the link is in the clipboard',
    });
    await page.keyboard.press('Escape');
    await console.button('I have kept it').click();
    await dialog().waitFor({ state: 'detached' });
    assert.equal((await page.locator('body').textContent())?.includes(link), false);
  });

  test('whoever has it sets the password without a session, then logs in with it', async () => {
    await page.context().clearCookies();
    const [link = ''] = links;
    await page.goto(link);
    await console.heading('Set a password').waitFor();
    await page.getByText('For ann at troupe.localhost.').waitFor();
    await page.getByText('The link works once, until').waitFor();
    assert.deepEqual(await console.look('password-form'), []);
    await enterTwice(NEW, 'something else');
    await page.getByText('The two are not the same.').waitFor();
    assert.equal(await logsIn('ann', PASSWORD), 200, 'nothing was sent');
    await enterTwice('password');
    await page.getByText('Must not be one of those that everybody tries first.').waitFor();
    assert.deepEqual(await console.findings(), []);
    await enterTwice(NEW);
    await page.getByText('The password of ann is set.').waitFor();
    assert.equal(page.url(), `${console.origin}/password`, 'the token is gone from the address');
    assert.deepEqual(await console.look('password-set'), []);
    assert.equal(await logsIn('ann', PASSWORD), 401);
    assert.equal(await page.getByLabel('Username').inputValue(), 'ann');
    await page.locator('input[name=password]:focus').fill(NEW);
    await console.button('Log in').click();
    await console.heading('Containers').waitFor();
  });

  test('a link that was used, and half of one, say what to do', async () => {
    const [link = ''] = links;
    await page.goto(link);
    await page.getByText('This link is wrong, was used, or is too old.').waitFor();
    assert.deepEqual(await console.findings(), []);
    assert.equal(await console.button('Set password').count(), 0);
    await page.goto(`${console.origin}/password`);
    await page.getByText('This address is not whole.').waitFor();
  });

  test('a new user gets one in the place of a password, which works where somebody else is logged in', async () => {
    await page.context().clearCookies();
    await console.open('/platform/users', 'Log in to troupe.localhost');
    await console.logIn('admin');
    await console.button('Add user').click();
    await dialog().getByLabel('Username').fill('jonas');
    await dialog().getByLabel('Give them a link to set a password').check();
    assert.equal(await dialog().getByLabel('Password', { exact: true }).count(), 0);
    await dialog().getByText('As a command').click();
    await dialog().getByText('troupe users add jonas --link').waitFor();
    await dialog().getByRole('button', { name: 'Add user' }).click();
    const link = await shownLink('jonas');
    await console.button('I have kept it').click();
    await page.goto(link);
    await page.getByText('For jonas at').waitFor();
    await enterTwice(NEW);
    await page.getByText('The password of jonas is set.').waitFor();
    await page.getByLabel('Password').fill(NEW);
    await console.button('Log in').click();
    await console.heading('Containers').waitFor();
    await page.locator('.me').getByText('jonas').waitFor();
  });

  test('for a user who is disabled the menu says why there is none', async () => {
    await page.context().clearCookies();
    await console.open('/platform/users', 'Log in to troupe.localhost');
    await console.logIn('admin');
    await choose('More for jonas', 'Disable');
    await dialog().getByRole('button', { name: 'Disable' }).click();
    await dialog().waitFor({ state: 'detached' });
    await page.getByRole('row').filter({ hasText: 'jonas' }).getByText('Disabled').waitFor();
    await console.button('More for jonas').click();
    const item = page.getByRole('menuitem', { name: /^Password link/ });
    assert.equal(await item.getAttribute('aria-disabled'), 'true');
    assert.match((await item.textContent()) ?? '', /Enable this user first\./);
  });

  test('no log has a token, no policy was violated, and no script failed', () => {
    assert.equal(links.length, 2);
    for (const link of links) {
      const token = new URL(link).hash.slice(1);
      assert.match(token, /^[\w-]{43}$/);
      assert.equal(console.platform.log().includes(token), false);
    }
    assert.deepEqual(console.complaints, []);
  });
});
