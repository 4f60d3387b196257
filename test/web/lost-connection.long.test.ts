/**
 * What happens to open pages of the console when the network fails, and when somebody changes elsewhere what they show:
 * real connections that are cut, and a real platform that is replaced.
 */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { z } from 'zod';
import { faultsIn } from '../support/client/followers.ts';
import { request } from '../support/cluster/platform.ts';
import { perlImage } from '../support/engine/docker-client.ts';
import { pause } from '../support/pause.ts';
import { suiteCleanup } from '../support/suite.ts';
import { until } from '../support/until.ts';
import { nextVersion } from '../support/web/console-build.ts';
import { type OpenedConsole, openConsole, withoutConsole } from '../support/web/opened-console.ts';
import { makeContainer, type OwnContainer } from '../support/web/own-container.ts';
import { PASSWORD } from '../support/web/served-console.ts';

const SOCKETS = ['/compute/ws', '/ws/notifications', '/ws/pod-metrics'];
/** Lines after which a stream goes on. */
const SOME = 20;
/** How long the network stays away once all pages have noticed. */
const CUT_MS = 20_000;

const rows = (selector: string) =>
  `[...document.querySelectorAll('${selector}')].map(({ textContent }) => textContent)`;
const LOGGED = rows('.log .line > span');
/** The rows of the terminal that are in sight. */
const SHOWN = rows('.xterm-rows > div');

describe('a console whose connection is lost', {
  skip: withoutConsole,
  timeout: 900_000,
}, () => {
  const cleanup = suiteCleanup();
  let console: OpenedConsole;
  let container: OwnContainer;
  let page: Page;
  const tabs: Page[] = [];

  before(async () => {
    console = await openConsole(cleanup, { DEFAULT_IMAGE: await perlImage() });
    ({ page } = console);
    container = await makeContainer(cleanup, console, 'worker');
    await console.open(`/containers/${container.id}`, 'Log in to troupe.localhost');
    await console.logIn();
    await page.locator('.terminal-pane .status.ok').first().waitFor();
  });

  const gatewayPort = () => Number(new URL(console.platform.ready.urls.console ?? '').port);
  const numbers = async (source: string, word: string): Promise<number[]> => {
    const found = z.array(z.string()).parse(await page.evaluate(source));
    return found.flatMap((text) => new RegExp(`^${word} (\\d+)\\s*$`).exec(text)?.[1] ?? []).map(Number);
  };
  const logged = () => numbers(LOGGED, 'logged');
  const shown = () => numbers(SHOWN, 'shown');
  const goesOn = async (look: () => Promise<number[]>, what: string) => {
    const before = (await look()).at(-1) ?? 0;
    await until(async () => ((await look()).at(-1) ?? 0) > before + SOME, {
      what: `${what} goes on`,
      timeoutMs: 60_000,
    });
    assert.deepEqual(faultsIn(await look()), [], what);
  };
  const type = async (line: string) => {
    await page.locator('.xterm-helper-textarea').focus();
    await page.keyboard.type(`${line}\n`);
  };
  /** Waits until the terminal shows a line that only a shell can have made. */
  const answers = async (question = 'echo $((40+2))-is-it', answer = /^42-is-it/) => {
    await page.locator('.terminal-pane .status.ok').first().waitFor({ timeout: 60_000 });
    const isThere = async () =>
      z
        .array(z.string())
        .parse(await page.evaluate(SHOWN))
        .some((row) => answer.test(row));
    await type(`clear; ${question}`);
    await until(isThere, { what: `the shell answers ${question}`, timeoutMs: 60_000 });
  };
  const isLive = (tab: Page) => tab.getByText('Live', { exact: true }).first().waitFor({ timeout: 60_000 });

  test('six tabs hold one socket of each kind', async () => {
    tabs.push(page);
    while (tabs.length < 6) {
      const tab = await page.context().newPage();
      await tab.goto(`${console.origin}/containers`);
      await isLive(tab);
      tabs.push(tab);
    }
    const shared = () => console.line.paths().filter((path) => SOCKETS.includes(path));
    assert.deepEqual(shared().toSorted(), SOCKETS);
    const own = console.line.paths().filter((path) => path.startsWith(`/compute/containers/${container.id}/`));
    assert.deepEqual(own.map((path) => path.split('/').at(-1)).toSorted(), ['logs', 'terminal']);
  });

  test('nothing is left out and nothing comes twice after the network was cut', async () => {
    const count = (word: string) =>
      `i=0; while :; do i=$((i+1)); echo "${word} $i"; usleep 50000 2>/dev/null || sleep 0.05; done`;
    await type('kept=yes');
    await type(`clear; sh -c '${count('shown')}'`);
    await container.sh(`(sh -c '${count('logged')}' >/proc/1/fd/1 2>&1 </dev/null &)`);
    await goesOn(logged, 'the log');
    await goesOn(shown, 'the terminal');
    console.line.cut();
    for (const tab of tabs) await tab.locator('.banner').waitFor();
    const [last = 0] = (await logged()).slice(-1);
    await pause(CUT_MS, 'fault');
    console.line.mend(gatewayPort());
    for (const tab of tabs) await isLive(tab);
    await goesOn(logged, 'the log');
    await goesOn(shown, 'the terminal');
    assert.ok((await logged()).includes(last + 1), 'the log goes on where it was');
    await page.locator('.log .gap', { hasText: 'nothing missed' }).waitFor();
    const shared = () => console.line.paths().filter((path) => SOCKETS.includes(path));
    await until(() => shared().toSorted().join() === SOCKETS.join(), { what: 'one socket of each kind again' });
    await page.keyboard.press('Control+c');
    await answers('echo "kept:$kept"', /^kept:yes/);
  });

  /** Logs in where all tabs ask for it, and waits until they go on. */
  const logInAgain = async (password: string) => {
    for (const tab of tabs) await tab.getByRole('dialog', { name: 'Your session has ended' }).waitFor();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Password').fill(password);
    await dialog.getByRole('button', { name: 'Log in', exact: true }).click();
    for (const tab of tabs) {
      await tab.getByRole('dialog').waitFor({ state: 'detached' });
      await isLive(tab);
    }
    await goesOn(logged, 'the log');
  };

  test('a session that is ended elsewhere asks for a login in all tabs, and one is enough for all', async () => {
    const { auth } = console.platform.ready.urls;
    const { token } = container;
    const ended = await request('DELETE', `${auth}/api/settings/sessions`, { token });
    assert.ok(ended.status < 300, JSON.stringify(ended.json));
    await logInAgain(PASSWORD);
    await answers('echo "kept:$kept"', /^kept:$/);
    await type('kept=yes');
  });

  test('a password that is changed elsewhere asks for it in all tabs, and one login is enough for all', async () => {
    const { auth } = console.platform.ready.urls;
    const changed = await request('PUT', `${auth}/api/settings/password`, {
      token: container.token,
      body: { current_password: PASSWORD, new_password: 'another password of ann' },
    });
    assert.ok(changed.status < 300, JSON.stringify(changed.json));
    await logInAgain('another password of ann');
    // The shell ended with the session, and there is a new one.
    await answers('echo "kept:$kept"', /^kept:$/);
  });

  test('an upgrade loads an open page again once, when it needs a file that is gone', async () => {
    for (const tab of tabs.splice(1)) await tab.close();
    let loads = 0;
    page.on('load', () => loads++);
    await console.restart(await nextVersion(cleanup));
    await isLive(page);
    await goesOn(logged, 'the log');
    await answers();
    assert.equal(loads, 0, 'nothing was missing so far');
    await page.getByRole('link', { name: 'API tokens' }).click();
    await console.heading('API tokens').waitFor();
    assert.equal(loads, 1);
    const isNext = "/-next-/.test(document.querySelector('script[src]').src)";
    assert.ok(await page.evaluate(isNext), 'it is the next version');
    await page.goBack();
    await console.heading('worker').waitFor();
    await answers();
    assert.equal(loads, 1);
  });

  test('a container that is deleted elsewhere is said to be gone', async () => {
    const other = await page.context().newPage();
    await other.goto(`${console.origin}/containers`);
    await other.getByRole('article', { name: 'worker' }).waitFor();
    const { compute } = console.platform.ready.urls;
    await request('DELETE', `${compute}/compute/containers/${container.id}`, { token: container.token });
    await console.heading('This container is not there').waitFor();
    await other.getByText('An empty stage').waitFor();
    await other.close();
    assert.equal(await page.getByRole('dialog').count(), 0);
  });

  test('the browser complained about nothing', () => {
    assert.deepEqual(console.complaints, []);
  });
});
