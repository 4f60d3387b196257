/** What the workbench has beside its shells, and pages without a network, broken ones, and with large text. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { publicKey } from '../support/ssh/public-key.ts';
import { suiteCleanup } from '../support/suite.ts';
import { until } from '../support/until.ts';
import { keyboardOf } from '../support/web/keyboard.ts';
import { type OpenedConsole, openConsole, withoutConsole } from '../support/web/opened-console.ts';

/** As a touch does that opens it: another choice of what has the focus. */
const CHOSEN = `(() => {
  const { activeElement: choice } = document;
  choice.value = 'Always';
  choice.dispatchEvent(new Event('change', { bubbles: true }));
})()`;

describe('the tools of the workbench, and pages in bad weather', {
  skip: withoutConsole,
  timeout: 900_000,
}, () => {
  const cleanup = suiteCleanup();
  let console: OpenedConsole;
  let page: OpenedConsole['page'];

  before(async () => {
    console = await openConsole(cleanup);
    ({ page } = console);
    await console.open('/containers/new', 'Log in to troupe.localhost');
    await console.logIn();
    await console.heading('New container').waitFor();
    await page.getByLabel('Name', { exact: true }).fill('first');
    await page.getByLabel('Public key').fill(publicKey());
    await console.button('Create container').click();
    await page.locator('.head .status.ok').waitFor({ timeout: 900_000 });
  });

  const field = () => page.getByRole('textbox', { name: 'Find in the terminal' });
  const rows = () => page.locator('.xterm-rows');

  test('words are found in the terminal by the keyboard alone', async () => {
    await rows().getByText('#').first().waitFor();
    await page.keyboard.type('echo needle; echo another needle\n');
    await rows()
      .getByText(/^another needle/)
      .first()
      .waitFor();
    await page.keyboard.press('Control+Shift+F');
    await field().fill('needle');
    await console.text(/^\d of 4$/).waitFor();
    await page.keyboard.press('Enter');
    assert.deepEqual(await console.findings(), []);
    await field().fill('nothing like this');
    await page.getByRole('search').getByText('none').waitFor();
    await page.keyboard.press('Escape');
    await field().waitFor({ state: 'detached' });
    await page.keyboard.type('echo typed again\n');
    await rows()
      .getByText(/^typed again/)
      .first()
      .waitFor();
  });

  test('a shell goes into a window of its own, and comes back when that closes', async () => {
    await page.keyboard.type('mine=kept\n');
    const opened = page.context().waitForEvent('page');
    await console.button('Open in a window of its own').click();
    const own = await opened;
    await own.locator('.xterm-rows').waitFor();
    await console.text('This shell was taken to another window.').waitFor();
    assert.equal(await own.title(), 'first, Shell 1 · Troupe');
    assert.equal(await own.getByRole('navigation').count(), 0, 'it has no frame');
    await own.locator('.xterm-helper-textarea').focus();
    await own.keyboard.type('echo "<$mine>"\n');
    await own
      .locator('.xterm-rows')
      .getByText(/^<kept>/)
      .first()
      .waitFor();
    await own.close();
    await console.text('This shell was taken to another window.').waitFor({ state: 'detached' });
    await page.locator('.xterm-helper-textarea').focus();
    await page.keyboard.type('echo "[$mine]"\n');
    await rows()
      .getByText(/^\[kept\]/)
      .first()
      .waitFor();
  });

  test('a storm of sizes ends with a shell that has the size of what is seen', async () => {
    const { width, height } = page.viewportSize() ?? { width: 1280, height: 860 };
    for (let n = 0; n < 40; n++)
      await page.setViewportSize({ width: width - (n % 8) * 40, height: height - (n % 5) * 30 });
    for (const look of [
      { width: 1100, height: 760 },
      { width, height },
    ]) {
      await page.setViewportSize(look);
      await page.locator('.xterm-helper-textarea').focus();
      const lines = () => page.locator('.xterm-rows > div');
      const isRight = async () => {
        await page.keyboard.type('clear; stty size; printf "%0160d" 0\n');
        const [size = '', ...shown] = (await lines().allTextContents()).map((one) => one.trimEnd());
        const columns = shown.find((one) => /^0+$/.test(one))?.length;
        return size === `${await lines().count()} ${columns}`;
      };
      await until(isRight, { what: 'the shell knows its size', everyMs: 300 });
    }
    await page.keyboard.type('clear\n');
  });

  test('a terminal is text for screen readers once that is switched on, and no more once it is off', async () => {
    const live = page.locator('.xterm [aria-live="assertive"]');
    assert.equal(await live.count(), 0);
    const readOut = page.getByLabel('Read terminals out');
    await page
      .getByRole('navigation', { name: 'Main', exact: true })
      .getByRole('link', { name: /Settings$/ })
      .click();
    await readOut.check();
    await page.reload();
    await console.heading('Settings').waitFor();
    assert.ok(await readOut.isChecked(), 'the browser remembers it');
    await page.getByRole('link', { name: 'Containers', exact: true }).first().click();
    await page.getByRole('link', { name: 'first', exact: true }).click();
    await page.locator('.terminal-pane .status.ok').first().waitFor();
    await page.locator('.xterm-helper-textarea').focus();
    await page.keyboard.type('echo $((40+2))-is-read\n');
    await live.getByText(/42-is-read/).waitFor();
    await page
      .locator('.xterm [role="list"] [role="listitem"]')
      .getByText(/^42-is-read/)
      .waitFor();
    assert.deepEqual(await console.findings(), []);
    await page.keyboard.press('Control+Shift+X');
    await page.keyboard.press('Control+k');
    await page.getByRole('dialog').waitFor();
    await page.keyboard.type('stop reading');
    await page.keyboard.press('Enter');
    await live.waitFor({ state: 'detached' });
    await console.text('Terminals are not read out').waitFor();
  });

  test('on a touch screen there are the keys that its keyboard lacks', async () => {
    const bar = page.getByRole('toolbar', { name: 'Keys' });
    assert.equal(await bar.isVisible(), false);
    const devtools = await page.context().newCDPSession(page);
    await devtools.send('Emulation.setTouchEmulationEnabled', { enabled: true });
    await bar.waitFor();
    const key = (name: string) => bar.getByRole('button', { name, exact: true });
    /** A program that says a word, and shows the next five bytes that it reads. */
    const read = (before: string, word: string) =>
      `stty raw -echo; printf '${before}${word}'; dd bs=1 count=5 2>/dev/null | od -An -c; stty sane\n`;
    const reads = (codes: RegExp) => rows().getByText(codes).first().waitFor();
    await page.locator('.xterm-helper-textarea').focus();
    // Each has a word of its own: the one before stays on the screen for a while.
    for (const [mode, word, code] of [
      ['\\033[?1l', 'one', /033\s+\[\s+A\s+\|\s+\\t/],
      ['\\033[?1h', 'two', /033\s+O\s+A\s+\|\s+\\t/],
    ] as const) {
      await page.keyboard.type(`clear; ${read(mode, word)}`);
      await rows()
        .getByText(new RegExp(`^${word}`))
        .first()
        .waitFor();
      for (const name of ['Up', '|', 'Tab']) await key(name).click();
      await reads(code);
    }
    await page.keyboard.type("printf '\\033[?1l'; clear; sleep 600\n");
    await key('Ctrl').click();
    assert.equal(await key('Ctrl').getAttribute('aria-pressed'), 'true');
    await key('C').click();
    assert.equal(await key('Ctrl').getAttribute('aria-pressed'), 'false', 'it holds for one key');
    await page.keyboard.type('echo $((40+2))-is-back\n');
    await rows()
      .getByText(/^42-is-back/)
      .first()
      .waitFor();
    assert.deepEqual(await console.findings(), []);
    await devtools.send('Emulation.setTouchEmulationEnabled', { enabled: false });
    await bar.waitFor({ state: 'hidden' });
  });

  test('the plots are a table, too', async () => {
    await page.getByText('Show as a table').press('Enter');
    const table = page.getByRole('region', { name: 'What it used, by the minute' });
    await table
      .getByRole('row', { name: /^\d\d:\d\d \d+ % .* of 512 MB/ })
      .first()
      .waitFor();
    assert.deepEqual(await console.findings(), []);
  });

  test('without a network what is known stays, and what asks the platform says why it cannot', async () => {
    await page.context().setOffline(true);
    await console.text('You are offline. What you see is the last that was known.').waitFor();
    assert.equal(await console.button('Stop').getAttribute('aria-disabled'), 'true');
    const tip = page.getByRole('tooltip');
    assert.equal(await tip.count(), 0, 'nothing has the focus');
    const keys = await keyboardOf(page);
    await keys.reach(/^Stop$/);
    assert.equal((await keys.focused()).description, 'You are offline.');
    await tip.getByText('You are offline.').waitFor();
    assert.deepEqual(await console.findings(), []);
    await keys.press('Escape');
    await tip.waitFor({ state: 'detached' });
    await keys.press('Enter');
    await tip.waitFor();
    await keys.press('Tab');
    await tip.waitFor({ state: 'detached' });
    await console.heading('first').waitFor();
    await page.context().setOffline(false);
    await until(async () => (await console.button('Stop').getAttribute('aria-disabled')) === null, { what: 'online' });
  });

  test('without a network a switch and a choice that are saved at once stay as they are, and say why', async () => {
    const keys = await keyboardOf(page);
    const sent: string[] = [];
    page.on('request', (request) => void (request.method() === 'GET' || sent.push(request.url())));
    const { pathname } = new URL(page.url());
    await console.open(`${pathname}/ssh`, 'first');
    const box = page.getByRole('checkbox', { name: /^Reach it by SSH/ });
    await box.waitFor();
    await page.context().setOffline(true);
    await keys.reach(/^Reach it by SSH.*You are offline\.$/);
    await keys.press('Space');
    await box.click({ force: true });
    assert.equal(await box.isChecked(), true);
    assert.deepEqual(await console.findings(), []);
    await page.context().setOffline(false);
    await console.open(`${pathname}/settings`, 'first');
    const choice = page.getByRole('combobox', { name: 'Pull the image' });
    await choice.waitFor();
    await page.context().setOffline(true);
    await keys.reach('Pull the image');
    assert.match((await keys.focused()).description, /You are offline\.$/);
    await keys.press('ArrowDown');
    assert.equal(await choice.inputValue(), 'IfNotPresent');
    await page.evaluate(CHOSEN);
    assert.equal(await choice.inputValue(), 'IfNotPresent');
    assert.deepEqual(await console.findings(), []);
    assert.deepEqual(sent, []);
    await page.context().setOffline(false);
    await until(async () => (await choice.getAttribute('aria-disabled')) === null, { what: 'online' });
    await choice.selectOption('Always');
    await console.text('Saved').waitFor();
    assert.equal(sent.length, 1);
  });

  test('Enter in a form that cannot be sent says why, until somebody types on', async () => {
    const { pathname } = new URL(page.url());
    await console.open(pathname, 'first');
    const tip = page.getByRole('tooltip');
    const name = page.getByRole('textbox', { name: 'Name', exact: true }).first();
    await name.focus();
    await page.keyboard.press('Enter');
    await tip.waitFor();
    assert.equal(await page.locator('input:focus').count(), 1, 'the field keeps the focus');
    await page.keyboard.type('!');
    await tip.waitFor({ state: 'detached' });
  });

  test('without a network the lines of menus and of the palette that ask the platform say why they cannot', async () => {
    const stop = page.getByRole('menuitem', { name: /^Stop/ });
    await console.open('/containers', 'Containers');
    await page.keyboard.press('Control+k');
    await page.getByRole('dialog').waitFor();
    await page.context().setOffline(true);
    await page.keyboard.type('stop first');
    const option = page.getByRole('option', { selected: true });
    await option.getByText('You are offline.').waitFor();
    assert.equal(await option.getAttribute('aria-disabled'), 'true');
    await page.keyboard.press('Enter');
    await page.keyboard.press('Escape');
    await console.button('More for first').click();
    await stop.getByText('You are offline.').waitFor();
    assert.equal(await stop.getAttribute('aria-disabled'), 'true');
    assert.equal(
      await page.getByRole('menuitem', { name: 'Delete' }).getAttribute('aria-disabled'),
      null,
      'it asks first',
    );
    assert.deepEqual(await console.findings(), []);
    await page.context().setOffline(false);
    await until(async () => (await stop.getAttribute('aria-disabled')) === null, { what: 'online' });
    await page.keyboard.press('Escape');
  });

  test('a page that could not be loaded says so, names the request, and is asked for again', async () => {
    const headers = { 'x-request-id': 'request-7' };
    const broken = { status: 500, headers, json: { error: 'internal error', code: 'internal' } };
    for (const [path, heading, asked] of [
      ['/activity', 'Activity', '**/api/notifications?*'],
      ['/tokens', 'API tokens', '**/api/service-accounts'],
      ['/settings', 'Settings', '**/api/settings/sessions'],
      ['/activity/delivery', 'Delivery', '**/api/notifications/webhooks'],
    ] as const) {
      await page.route(asked, (route) => route.fulfill(broken));
      await console.open(path, heading);
      await console.text('Something went wrong on the platform.').waitFor();
      await page.unroute(asked);
      await console.button('Try again').click();
      await console.text('Something went wrong on the platform.').waitFor({ state: 'detached' });
    }
  });

  test('text of twice the size fits', async () => {
    const tooWide: string[] = [];
    await page.setViewportSize({ width: 640, height: 860 });
    for (const path of ['/containers', '/keys', '/tokens', '/settings', '/activity', '/activity/delivery']) {
      await page.goto(`${console.origin}${path}`);
      await page.getByRole('heading', { level: 1 }).waitFor();
      await until(() => console.browser.run('() => document.querySelector(".bones") === null'), { what: path });
      await console.browser.run('() => { document.documentElement.style.fontSize = "200%"; }');
      if (await console.browser.run('() => document.documentElement.scrollWidth > innerWidth')) tooWide.push(path);
    }
    assert.deepEqual(tooWide, []);
  });

  test('the browser complained about nothing', () => {
    assert.deepEqual(console.complaints, []);
  });
});
