/** The whole visit with the keyboard alone, on the real platform in a real Chromium. No test here uses the mouse. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { publicKey } from '../support/ssh/public-key.ts';
import { suiteCleanup } from '../support/suite.ts';
import { until } from '../support/until.ts';
import { type Keyboard, keyboardOf } from '../support/web/keyboard.ts';
import { type OpenedConsole, openConsole, withoutConsole } from '../support/web/opened-console.ts';
import { PASSWORD } from '../support/web/served-console.ts';

const SCREENS = [
  '/containers',
  '/containers/new',
  '/hostnames',
  '/activity',
  '/activity/delivery',
  '/keys',
  '/tokens',
  '/settings',
  '/device',
  '/nowhere',
];
const PLATFORM = ['containers', 'users', 'machines', 'audit', 'routes', 'map'].map((name) => `/platform/${name}`);
const PARTS = ['', '/network', '/storage', '/ssh', '/history', '/settings'];

describe('the keyboard alone', {
  skip: withoutConsole,
  timeout: 900_000,
}, () => {
  const cleanup = suiteCleanup();
  let console: OpenedConsole;
  let page: OpenedConsole['page'];
  let keys: Keyboard;

  before(async () => {
    console = await openConsole(cleanup);
    ({ page } = console);
    // Without it, styles are on their way when they are looked at.
    await page.emulateMedia({ reducedMotion: 'reduce' });
    keys = await keyboardOf(page);
  });

  const isAt = async (name: string | RegExp, what: string) => {
    const now = (await keys.focused()).name;
    assert.ok(typeof name === 'string' ? now === name : name.test(now), `${what}, but the focus is at “${now}”`);
  };
  const comesTo = (name: RegExp, what: string) =>
    until(async () => name.test((await keys.focused()).name), { what, timeoutMs: 60_000 });
  const rows = async () => (await page.locator('.xterm-rows').textContent()) ?? '';
  const dialog = () => page.getByRole('dialog');
  const there = async (path: string) => {
    await page.goto(`${console.origin}${path}`);
    await page.getByRole('heading', { level: 1 }).waitFor();
    await until(() => page.evaluate('document.querySelector(".bones") === null'), { what: `${path} is there` });
  };
  const isLive = () => page.locator('.terminal-pane .status.ok').first().waitFor({ timeout: 60_000 });

  test('logs in', async () => {
    await page.goto(`${console.origin}/containers/new`);
    await page.getByLabel('Username').waitFor();
    assert.deepEqual(await keys.faults(), []);
    await keys.fill('Username', 'ann');
    await keys.fill('Password', PASSWORD);
    await keys.press('Enter');
    await console.heading('New container').waitFor();
    await comesTo(/^New container$/, 'a new page begins at its heading');
  });

  test('makes a container, and is in its terminal', async () => {
    await keys.fill('Name', 'first');
    await keys.fill('Public key', publicKey());
    await keys.choose('Create container');
    await page.locator('.head .status.ok').waitFor({ timeout: 900_000 });
    await isLive();
    await comesTo(/^Terminal input$/, 'the terminal has the focus');
    await keys.type('echo $((40+2))-is-typed; echo a needle in the log > /proc/1/fd/1\n');
    await until(async () => /42-is-typed/.test(await rows()), { what: 'the shell answers' });
  });

  test('Tab is the shell’s in a terminal, a sentence says how to leave it, and then Tab goes past it both ways', async () => {
    await keys.type('echo tab');
    await keys.press('Tab');
    await isAt('Terminal input', 'the shell has this key');
    await keys.press('Control+c');
    const sentence = page.getByText('Ctrl Shift X leaves the terminal');
    assert.ok(await sentence.isVisible());
    const described = await page.locator('.xterm-helper-textarea').getAttribute('aria-describedby');
    assert.equal(described, await sentence.getAttribute('id'));
    await keys.press('Control+Shift+X');
    await isAt('Type in shell 1', 'what leads in is next to the terminal');
    await keys.press('Tab');
    await isAt('Find in the log', 'Tab goes on');
    await keys.press('Shift+Tab');
    await isAt('Type in shell 1', 'and back');
    await keys.press('Shift+Tab');
    await isAt('Fill the window', 'and past it');
    await keys.choose('Type in shell 1');
    await isAt('Terminal input', 'Enter leads in');
    await keys.type('echo $((50+5))-again\n');
    await until(async () => /55-again/.test(await rows()), { what: 'the shell answers again' });
    await keys.press('Control+Shift+X');
  });

  test('a terminal is searched, a second shell is opened and ended, and the focus is never lost', async () => {
    await keys.choose('Find in the terminal', 'Shift+Tab');
    await until(async () => (await keys.focused()).role === 'textbox', { what: 'its field has the focus' });
    await isAt('Find in the terminal', 'it has a name');
    await keys.type('55-again');
    await page
      .getByRole('search')
      .getByText(/^\d of \d$/)
      .waitFor();
    await keys.press('Escape');
    await comesTo(/^Terminal input$/, 'the terminal has the focus again');
    await keys.press('Control+Shift+X');
    await keys.choose('New shell', 'Shift+Tab');
    await comesTo(/^Terminal input$/, 'a new shell has the focus');
    await keys.press('Control+Shift+X');
    await keys.choose('End shell 2', 'Shift+Tab');
    await page.getByText('Shell 2', { exact: true }).waitFor({ state: 'detached' });
    await comesTo(/^Terminal input$/, 'the other shell has the focus');
    await keys.press('Control+Shift+X');
    await keys.choose('End shell 1', 'Shift+Tab');
    await page.getByText('Shell 1', { exact: true }).waitFor({ state: 'detached' });
    await comesTo(/^New shell$/, 'what opens another one has the focus');
    await keys.press('Enter');
    await isLive();
    await comesTo(/^Terminal input$/, 'the new shell has the focus');
    await keys.press('Control+Shift+X');
  });

  test('finds a line of the log', async () => {
    await keys.fill('Find in the log', 'NEEDLE');
    await console.text('1 of 1').waitFor();
    await keys.press('Escape');
    await console.text('1 of 1').waitFor({ state: 'detached' });
  });

  test('opens a port', async () => {
    await keys.choose(/^Network$/, 'Shift+Tab');
    await page.getByLabel('From outside').waitFor();
    await keys.fill('From outside', '8000');
    await keys.fill('In the container', '80');
    await keys.press('Enter');
    await console.text('8000 leads to 80').waitFor();
  });

  test('a menu has the focus, its arrows go round, and it gives the focus back', async () => {
    await keys.choose('More for first', 'Shift+Tab');
    await comesTo(/^Delete$/, 'the first line has the focus');
    assert.equal((await keys.focused()).role, 'menuitem');
    await keys.press('Escape');
    await comesTo(/^More for first$/, 'Escape gives it back');
    await there('/containers');
    await keys.choose('More for first');
    await comesTo(/^Stop$/, 'the first line has the focus');
    for (const name of [/^Settings$/, /^Delete$/, /^Stop$/]) {
      await keys.press('ArrowDown');
      await comesTo(name, 'the next one has the focus');
    }
    await keys.press('ArrowUp');
    await isAt('Delete', 'the last one is before the first');
    await keys.press('Tab');
    await page.getByRole('menu').waitFor({ state: 'hidden' });
    await keys.press('Shift+Tab');
    await isAt('More for first', 'Tab closes it and goes on from its button');
  });

  test('a dialog takes the focus, keeps it, and gives it back to what opened it', async () => {
    await keys.press('Enter');
    await comesTo(/^Stop$/, 'the menu is open');
    await keys.press('End');
    await keys.press('Enter');
    await dialog().waitFor();
    await comesTo(/^Cancel$/, 'what does no harm has the focus');
    assert.deepEqual(await keys.faults(), []);
    await keys.press('Escape');
    await dialog().waitFor({ state: 'detached' });
    await comesTo(/^More for first$/, 'the focus is back');
    await there('/keys');
    await keys.choose('Add key');
    await dialog().waitFor();
    assert.deepEqual(await keys.faults(), []);
    await keys.press('Escape');
    await dialog().waitFor({ state: 'detached' });
    await comesTo(/^Add key$/, 'the focus is back');
  });

  test('the palette opens over a page, finds, and gives the focus back', async () => {
    await keys.press('Control+k');
    await dialog().waitFor();
    await comesTo(/^Go to or do something$/, 'its field has the focus');
    await page.getByText('leave a terminal').waitFor();
    assert.deepEqual(await keys.faults(), []);
    await keys.press('Escape');
    await dialog().waitFor({ state: 'detached' });
    await comesTo(/^Add key$/, 'the focus is back');
    await keys.press('Control+k');
    await dialog().waitFor();
    await keys.type('settings');
    await keys.press('Enter');
    await console.heading('Settings').waitFor();
    await comesTo(/^Settings$/, 'the page begins at its heading');
  });

  test('Tab reaches all there is on each screen, and each stop has a name and is seen', async () => {
    const { pathname } = await firstContainer();
    const parts = PARTS.map((part) => `${pathname}${part}`);
    const alone = `${pathname}/shell/${crypto.randomUUID()}`;
    const isOfShell = (path: string) => path === pathname || path === alone;
    const all = [...SCREENS, ...parts, alone];
    const wide = await faultsOf(all, isOfShell);
    await page.setViewportSize({ width: 390, height: 860 });
    const narrow = await faultsOf([...all, '/more'], isOfShell);
    await page.setViewportSize({ width: 1280, height: 860 });
    assert.deepEqual({ wide, narrow }, { wide: [], narrow: [] });
  });

  test('logs out', async () => {
    await keys.press('Control+k');
    await dialog().waitFor();
    await keys.type('log out');
    await keys.press('Enter');
    await console.heading('Log in to troupe.localhost').waitFor();
  });

  test('the administrator reaches all there is on the other screens, too', async () => {
    await there('/platform/containers');
    await keys.fill('Username', 'admin');
    await keys.fill('Password', 'the admin of this test');
    await keys.press('Enter');
    await console.heading('All containers').waitFor();
    assert.deepEqual(await faultsOf(PLATFORM), []);
    assert.deepEqual(console.complaints, []);
  });

  test('a walk finds what has no name, what is not seen, what is out of sight, and what Tab does not reach', async () => {
    const other = await page.context().newPage();
    await other.setContent(`
      <button>good</button> <button></button> <button style="outline: 0">unseen</button>
      <button style="position: fixed; top: -99px">away</button>
      <button onkeydown="if (event.key === 'Tab') { event.preventDefault(); this.previousElementSibling.focus(); }">
        keeps
      </button>
      <a href="#beyond">beyond</a>`);
    const faults = await (await keyboardOf(other)).faults();
    const kinds = ['has no name: <button></button>', 'looks the same', 'is not in sight', 'is not reached: <a href'];
    assert.deepEqual(
      kinds.map((kind) => faults.some((fault) => fault.startsWith(kind))),
      kinds.map(() => true),
      faults.join('\n'),
    );
    assert.equal(faults.filter((fault) => fault.includes('>good<')).length, 0);
  });

  /** What is wrong on these screens. Those of a shell are left by its key first. */
  const faultsOf = async (paths: readonly string[], isOfShell: (path: string) => boolean = () => false) => {
    const all: string[] = [];
    for (const path of paths) {
      await there(path);
      if (isOfShell(path)) {
        await page.locator('.xterm-rows').waitFor();
        await comesTo(/^Terminal input$/, 'the terminal has the focus');
        await keys.press('Control+Shift+X');
      }
      all.push(...(await keys.faults()).map((fault) => `${path} ${fault}`));
    }
    return all;
  };
  /** The address of the page of the container. */
  const firstContainer = async () => {
    await there('/containers');
    await keys.choose(/^first$/);
    await console.heading('first').waitFor();
    return new URL(page.url());
  };
});
