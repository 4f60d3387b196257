/** Every screen of the console, looked at by axe-core: wide and narrow, light and dark, with a container and without. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { publicKey } from '../support/ssh/public-key.ts';
import { suiteCleanup } from '../support/suite.ts';
import { tempDir } from '../support/temp.ts';
import { until } from '../support/until.ts';
import { type OpenedConsole, openConsole, withoutConsole } from '../support/web/opened-console.ts';
import { isAccepting, type Pictures, picturesOf } from '../support/web/pictures.ts';

const PARTS = ['', '/network', '/storage', '/ssh', '/history', '/settings'];
const PATHS = ['/containers', '/containers/new', '/hostnames', '/activity', '/keys', '/tokens', '/settings', '/device'];
const OTHERS = ['/password', '/activity/delivery', '/more', '/nowhere', '/containers/abcdefghijkl'];

describe('the screens of the console', {
  skip: withoutConsole,
  timeout: 900_000,
}, () => {
  const cleanup = suiteCleanup();
  let opened: OpenedConsole;
  let pictures: Pictures;

  before(async () => {
    opened = await openConsole(cleanup);
    await opened.browser.page.emulateMedia({ reducedMotion: 'reduce' });
    pictures = picturesOf(opened.page);
  });

  /** What is found on the present page, and how its picture is another than the one kept by its name. */
  const look = async (at: string, name: string) => {
    const found = await opened.findings((how) => pictures.check(name, how));
    return found.map((one) => `${at}, ${one}`);
  };
  /** `/containers/new` as `containers-new`. */
  const nameOf = (path: string) => path.slice(1).replaceAll('/', '-');
  const there = async (path: string) => {
    const { browser, origin } = opened;
    await browser.page.goto(`${origin}${path}`);
    await browser.page.getByRole('heading', { level: 1 }).waitFor();
    await until(() => browser.run('() => document.querySelector(".bones") === null'), { what: `${path} is there` });
  };

  test('the login, and a refused one', async () => {
    await there('/');
    const found = await look('login', 'login');
    await opened.browser.page.getByLabel('Username').fill('ann');
    await opened.browser.page.getByLabel('Password').fill('not this one');
    await opened.button('Log in').click();
    await opened.text('The username or the password is wrong.').waitFor();
    assert.deepEqual([...found, ...(await look('refused login', 'login-refused'))], []);
    await opened.logIn();
    await opened.heading('Containers').waitFor();
  });

  test('all of them without anything', async () => {
    const found: string[] = [];
    for (const path of [...PATHS, ...OTHERS]) {
      await there(path);
      found.push(...(await look(path, nameOf(path))));
    }
    assert.deepEqual(found, []);
  });

  test('those that show a container, and the dialogs', async () => {
    const { page } = opened.browser;
    await there('/containers/new');
    await page.getByLabel('Name', { exact: true }).fill('first');
    await page.getByLabel('Public key').fill(publicKey());
    await opened.button('Create container').click();
    await page.locator('.head .status.ok').waitFor({ timeout: 900_000 });
    const { pathname } = new URL(page.url());
    const found: string[] = [];
    for (const path of [...PARTS.map((part) => `${pathname}${part}`), '/containers', '/activity', '/keys']) {
      await there(path);
      const name = path.startsWith(pathname) ? `container${path.slice(pathname.length)}` : `${path.slice(1)}-one`;
      found.push(...(await look(path, name.replaceAll('/', '-'))));
    }
    for (const [path, name] of [
      ['/keys', 'Add key'],
      ['/tokens', 'New token'],
      ['/hostnames', 'Map a hostname'],
      [`${pathname}/settings`, 'Delete for ever'],
    ] as const) {
      await there(path);
      await opened.button(name).click();
      await page.getByRole('dialog').waitFor();
      found.push(
        ...(await look(`the dialog ${name}`, `dialog-${nameOf(`/${name.toLowerCase()}`).replaceAll(' ', '-')}`)),
      );
    }
    assert.deepEqual(found, []);
  });

  test('the pictures that were accepted are kept', () => pictures.end());

  test('a screen that lost a panel is another, and so is one without a picture', {
    skip: isAccepting ? 'all are accepted' : false,
  }, async () => {
    const tried = picturesOf(opened.page, await tempDir(cleanup));
    await there('/settings');
    assert.deepEqual(await tried.check('settings', 'light 1280'), []);
    await opened.page.evaluate("document.querySelector('main .panel').style.display = 'none'");
    assert.match((await tried.check('settings', 'light 1280')).join(), /% is not as it was kept: look at .*png/);
    assert.match((await tried.check('unknown', 'light 1280')).join(), /no picture is kept/);
  });

  test('the browser complained about nothing', () => {
    assert.deepEqual(opened.complaints, []);
  });
});
