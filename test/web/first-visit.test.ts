/** The console as a person uses it: the real platform with real containers, in a real Chromium, from the first login on. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { publicKey } from '../support/ssh/public-key.ts';
import { until } from '../support/until.ts';
import { type OpenedConsole, openConsole, withoutConsole } from '../support/web/opened-console.ts';
import { PASSWORD } from '../support/web/served-console.ts';

describe('the console in a browser', {
  skip: withoutConsole,
  timeout: 900_000,
}, () => {
  const ends: (() => unknown)[] = [];
  const cleanup = { after: (end: () => unknown) => void ends.unshift(end) };
  let opened: OpenedConsole;
  let browser: OpenedConsole['browser'];
  let origin = '';

  before(async () => {
    opened = await openConsole(cleanup);
    ({ browser, origin } = opened);
  });
  after(async () => {
    for (const end of ends) await end();
  });

  const text = (words: string | RegExp) => opened.text(words);
  const button = (name: string) => opened.button(name);
  const heading = (name: string) => opened.heading(name);
  const logIn = () => opened.logIn();
  /** All that the terminal shows, without the ends of its lines. */
  const screen = async () => (await browser.page.locator('.xterm-rows').textContent()) ?? '';

  test('a wrong password is refused in a sentence, the right one leads to the address that was asked for', async () => {
    const { page } = browser;
    await page.goto(`${origin}/containers/new`);
    await page.getByLabel('Username').fill('ann');
    await page.getByLabel('Password').fill('not this one');
    await button('Log in').click();
    await text('The username or the password is wrong.').waitFor();
    await logIn();
    await heading('New container').waitFor();
    assert.equal(await browser.run('() => document.cookie'), '', 'no script reads the session');
  });

  test('a container is made on one page, with a key that is pasted there', async () => {
    const { page } = browser;
    await text('Choose or paste an SSH key first.').waitFor();
    await page.getByLabel('Name', { exact: true }).fill('first');
    await page.getByLabel('Public key').fill(publicKey());
    await text('As a command').click();
    assert.match(
      (await page.locator('.command pre').first().textContent()) ?? '',
      /^troupe run first --size nano --memory 512/,
    );
    await button('Create container').click();
    await heading('first').waitFor();
    await page.locator('.head .status.ok').waitFor({ timeout: 900_000 });
  });

  test('a shell is at hand, what is typed runs, and the log shows what is written to it', async () => {
    const { page } = browser;
    await page.locator('.terminal-pane .status.ok').waitFor();
    await page.locator('.xterm-helper-textarea').focus();
    await page.keyboard.type('kept=yes; echo $((40+2))-is-the-answer\n');
    await until(async () => /42-is-the-answer/.test(await screen()), { what: 'the shell answers' });
    await page.keyboard.type('echo a line of the log > /proc/1/fd/1\n');
    await page.locator('.log .line', { hasText: 'a line of the log' }).waitFor();
    await page.getByLabel('Find in the log').fill('A LINE OF');
    await text('1 of 1').waitFor();
    assert.equal(await page.locator('.log mark').textContent(), 'a line of');
    await page.getByLabel('Find in the log').fill('');
  });

  test('the shell is the same after a reload, and while other screens are shown', async () => {
    const { page } = browser;
    await page.reload();
    await page.locator('.terminal-pane .status.ok').waitFor();
    await page.locator('.xterm-helper-textarea').focus();
    await page.keyboard.type('echo kept:$kept\n');
    await until(async () => /kept:yes/.test(await screen()), { what: 'the variable is still there' });
    await page.getByRole('link', { name: 'Network', exact: true }).click();
    await heading('first').waitFor();
    await page.getByRole('link', { name: 'Workbench', exact: true }).click();
    await until(async () => /kept:yes/.test(await screen()), { what: 'the screen is as it was' });
  });

  test('a port is opened, and the list shows it at once', async () => {
    const { page } = browser;
    await page.getByRole('link', { name: 'Network', exact: true }).click();
    await page.getByLabel('From outside').fill('9999');
    await button('Open port').click();
    await text('Must be 80, 443, or 8000 to 8999.').waitFor();
    await page.getByLabel('From outside').fill('8000');
    await page.getByLabel('In the container').fill('80');
    await button('Open port').click();
    await text('8000 leads to 80').waitFor();
    await page.getByRole('link', { name: 'Containers', exact: true }).first().click();
    const unit = page.getByRole('article', { name: 'first' });
    await unit.getByText('8000').waitFor();
    await unit.getByText('Running').waitFor();
    await text('Container started').waitFor();
  });

  test('a container is stopped and started where its state is shown', async () => {
    const { page } = browser;
    await page.getByRole('link', { name: 'first' }).click();
    await button('Stop').click();
    await page.locator('.head .status.idle').waitFor({ timeout: 60_000 });
    await text('There is a terminal while the container runs.').or(text('The shell has ended.')).waitFor();
    await page.locator('.log .line', { hasText: 'a line of the log' }).waitFor();
    await page.locator('.head').getByRole('button', { name: 'Start' }).click();
    await page.locator('.head .status.ok').waitFor({ timeout: 60_000 });
  });

  test('six tabs share one connection, and all of them show what happens', async () => {
    const { page } = browser;
    let sockets = 0;
    const tabs = [page];
    for (let n = 1; n < 6; n++) tabs.push(await page.context().newPage());
    for (const tab of tabs) {
      await tab.goto('about:blank'); // What the page before opens belongs to that.
      tab.on('websocket', () => sockets++);
      await tab.goto(`${origin}/containers`);
      await tab.getByText('Live', { exact: true }).waitFor();
    }
    await page.getByRole('button', { name: 'More for first' }).click();
    await page.getByRole('menuitem', { name: 'Stop' }).click();
    for (const tab of tabs) await tab.getByRole('article', { name: 'first' }).getByText('Stopped').waitFor();
    assert.equal(sockets, 0, 'no tab has a socket of its own for what all of them show');
    for (const tab of tabs.slice(1)) await tab.close();
  });

  test('the container is deleted by its name, and the page says that it is gone', async () => {
    const { page } = browser;
    await page.goto(`${origin}/containers`);
    await page.getByRole('link', { name: 'first' }).click();
    await page.getByRole('link', { name: 'Settings', exact: true }).click();
    await button('Delete for ever').click();
    const dialog = page.getByRole('dialog');
    const last = dialog.getByRole('button', { name: 'Delete for ever' });
    assert.equal(await last.getAttribute('aria-disabled'), 'true', 'not before its name is typed');
    await dialog.getByLabel('Type its name: first').fill('first');
    await last.click();
    await text('An empty stage').waitFor();
  });

  test('the logout ends the session in all tabs', async () => {
    const { page } = browser;
    const other = await page.context().newPage();
    await other.goto(`${origin}/keys`);
    await other.getByRole('heading', { level: 1, name: 'SSH keys' }).waitFor();
    await page.goto(`${origin}/settings`);
    await button('Log out').click();
    await heading('Log in to troupe.localhost').waitFor();
    await other.getByRole('heading', { level: 1, name: 'Log in to troupe.localhost' }).waitFor();
    await other.close();
    assert.deepEqual(await page.context().cookies(), []);
  });

  test('a session that is ended elsewhere asks for the password over the page as it is', async () => {
    const { page } = browser;
    await page.goto(`${origin}/containers/new`);
    await logIn();
    await page.getByLabel('Name', { exact: true }).fill('half typed');
    await page.context().clearCookies();
    await page.getByLabel('Public key').or(page.getByLabel('ann@laptop')).first().waitFor();
    await button('Create container').click();
    await page.getByRole('dialog', { name: 'Your session has ended' }).waitFor();
    await page.getByRole('dialog').getByLabel('Password').fill(PASSWORD);
    await page.getByRole('dialog').getByRole('button', { name: 'Log in', exact: true }).click();
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    assert.equal(await page.getByLabel('Name', { exact: true }).inputValue(), 'half typed');
  });

  test('the browser complained about nothing', () => {
    assert.deepEqual(opened.complaints, []);
  });
});
