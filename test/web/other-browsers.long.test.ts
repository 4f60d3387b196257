/** The first visit in Firefox and in WebKit: the real platform with a real container, and what a person does first. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { skipWithout } from '../support/require.ts';
import { publicKey } from '../support/ssh/public-key.ts';
import { inReverse, suiteCleanup } from '../support/suite.ts';
import type { Cleanup } from '../support/temp.ts';
import { type DrivenTab, drivenTab, KEYS } from '../support/web/driven-tab.ts';
import {
  PASSWORD,
  type Scheme,
  type ServedConsole,
  serveConsole,
  withoutServedConsole,
} from '../support/web/served-console.ts';
import { type DrivenBrowser, startFirefox, startWebKit } from '../support/web/webdriver.ts';

const BROWSERS: readonly {
  readonly name: string;
  readonly programs: readonly string[];
  readonly start: (t: Cleanup) => Promise<DrivenBrowser>;
  /** WebKit keeps no session over plain HTTP. */
  readonly scheme: Scheme;
  /** The narrowest page that it shows. */
  readonly narrowest: number;
}[] = [
  { name: 'Firefox', programs: ['firefox-esr'], start: startFirefox, scheme: 'http', narrowest: 320 },
  { name: 'WebKit', programs: ['WebKitWebDriver', 'Xvfb'], start: startWebKit, scheme: 'https', narrowest: 447 },
];
const NARROW_PATHS = ['', '/network', '/storage', '/ssh', '/history', '/settings'];
const SIDEWAYS = '() => document.documentElement.scrollWidth > innerWidth';
/** How many the palette shows without being scrolled. */
const OPTIONS_IN_SIGHT = `() => {
  const { bottom } = document.querySelector('.palette').getBoundingClientRect();
  return [...document.querySelectorAll('.palette .option')].filter((one) => one.getBoundingClientRect().bottom < bottom).length;
}`;
/** Of the parts of a container, which scroll. */
const SHOWS_WHERE_ONE_IS = `() => {
  const { left, right } = document.querySelector('.tabs [aria-current]').getBoundingClientRect();
  return left >= 0 && right <= innerWidth;
}`;

for (const { name, programs, start, scheme, narrowest } of BROWSERS) {
  describe(`the console in ${name}`, {
    skip: withoutServedConsole || skipWithout(...programs),
    timeout: 900_000,
  }, () => {
    const cleanup = suiteCleanup();
    let console: ServedConsole;
    let browser: DrivenBrowser;
    let tab: DrivenTab;
    let path = '';

    const logIn = async () => {
      await tab.fill('Username', 'ann');
      await tab.fill('Password', PASSWORD);
      await tab.press('button', 'Log in');
    };

    test('a login leads to the address that was asked for', async (t) => {
      console = await serveConsole(cleanup, {}, scheme);
      browser = await start(cleanup);
      t.diagnostic(browser.name);
      tab = drivenTab(browser);
      await browser.resize(1280, 860);
      await tab.goTo(`${console.origin}/containers/new`);
      await tab.fill('Username', 'ann');
      await tab.fill('Password', 'not this one');
      await tab.press('button', 'Log in');
      await tab.read('main', /The username or the password is wrong\./);
      await logIn();
      await tab.see('heading', 'New container');
    });

    test('a container is made, its shell answers, and its log is shown and searched', async () => {
      await tab.fill('Name', 'first');
      await tab.fill('Public key', publicKey());
      await tab.press('button', 'Create container');
      await tab.see('heading', 'first');
      path = new URL(String(await tab.run('() => location.href'))).pathname;
      await tab.read('.terminal-pane .status.ok', /^/);
      await tab.pressAt('.xterm-screen');
      await tab.type(`echo $((40+2))-is-the-answer${KEYS.enter}`);
      await tab.read('.xterm-rows', /42-is-the-answer/);
      await tab.type(`echo a line of the log > /proc/1/fd/1${KEYS.enter}`);
      await tab.read('.log .line', /a line of the log/);
      await tab.fill('Find in the log', 'A LINE OF');
      await tab.read('.log', /1 of 1/);
    });

    test('a port is opened, the list shows it at once, and a menu stops the container', async () => {
      await tab.press('link', 'Network');
      await tab.fill('From outside', '8000');
      await tab.fill('In the container', '80');
      await tab.press('button', 'Open port');
      await tab.read('main', /8000 leads to 80/);
      await tab.press('link', 'Containers');
      await tab.read('article', /8000/);
      await tab.read('.rail', /Live/);
      await tab.press('button', 'More for first');
      await tab.press('button', 'Stop');
      await tab.read('article', /Stopped/);
    });

    test('the palette shows what it finds, and leads there', async () => {
      await tab.goTo(`${console.origin}/activity`);
      await tab.read('main', /Container stopped/);
      await tab.type('k', KEYS.control);
      await tab.read('.palette', /^/);
      await tab.type('sett');
      await tab.read('.palette .option', /Settings/);
      assert.ok(Number(await tab.run(OPTIONS_IN_SIGHT)) >= 3);
      await tab.type(KEYS.enter);
      await tab.see('heading', 'Settings');
    });

    test('dialogs open over the page and close with Escape, and no page scrolls sideways on a phone', async () => {
      await tab.goTo(`${console.origin}/hostnames`);
      await tab.press('button', 'Map a hostname');
      await tab.see('dialog', 'Map a hostname');
      await tab.type(KEYS.escape);
      await browser.resize(narrowest, 860);
      for (const end of NARROW_PATHS) {
        await tab.goTo(`${console.origin}${path}${end}`);
        await tab.see('heading', 'first');
        assert.equal(await tab.run('() => innerWidth'), narrowest);
        assert.equal(await tab.run(SIDEWAYS), false, end);
        assert.equal(await tab.run(SHOWS_WHERE_ONE_IS), true, end);
      }
      await browser.resize(1280, 860);
    });

    test('the logout ends the session, and the browser complained about nothing', async () => {
      await tab.goTo(`${console.origin}/settings`);
      await tab.press('button', 'Log out');
      await tab.see('heading', 'Log in to troupe.localhost');
      const complaints = await browser.complaints();
      assert.deepEqual(
        complaints.filter((one) => one.includes(console.origin)),
        [],
      );
    });
  });
}

test('WebKit says that it keeps no session over plain HTTP', {
  skip: withoutServedConsole || skipWithout('WebKitWebDriver', 'Xvfb'),
  timeout: 900_000,
}, async (t) => {
  const ends = inReverse(t);
  const { origin } = await serveConsole(ends);
  const tab = drivenTab(await startWebKit(ends));
  await tab.goTo(`${origin}/`);
  await tab.fill('Username', 'ann');
  await tab.fill('Password', PASSWORD);
  await tab.press('button', 'Log in');
  await tab.read('main', /This browser keeps no session over plain HTTP\. Use the HTTPS address/);
});
