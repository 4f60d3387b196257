/** What is pasted into a terminal arrives whole, several lines only when asked, and what is marked can be copied. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { suiteCleanup } from '../support/suite.ts';
import { until } from '../support/until.ts';
import { type OpenedConsole, openConsole, withoutConsole } from '../support/web/opened-console.ts';
import { makeContainer, type OwnContainer } from '../support/web/own-container.ts';

/** 10,000 characters and more, of one to four bytes, in lines that a terminal takes. */
const TEXT = Array.from({ length: 130 }, (_, at) => `${at} ${'abc xyz äöü → 漢字 🎭 '.repeat(4)}${at * 7919}\n`).join(
  '',
);

const COPY = 'async (text) => { await navigator.clipboard.writeText(text); return 0; }';
const COPIED = 'async () => navigator.clipboard.readText()';

describe('a terminal that is pasted into', {
  skip: withoutConsole,
  timeout: 900_000,
}, () => {
  const cleanup = suiteCleanup();
  let console: OpenedConsole;
  let page: Page;
  let box: OwnContainer;

  const rows = () => page.locator('.xterm-rows');

  before(async () => {
    console = await openConsole(cleanup);
    ({ page } = console);
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    box = await makeContainer(cleanup, console, 'first');
    await console.open(`/containers/${box.id}`, 'Log in to troupe.localhost');
    await console.logIn();
    await page.locator('.terminal-pane .status.ok').first().waitFor();
    // What is typed before the shell reads is shown twice.
    await rows()
      .locator('> div', { hasText: /[#$]\s*$/ })
      .first()
      .waitFor();
  });

  const paste = async (text: string) => {
    await console.browser.run(COPY, text);
    await page.locator('.xterm-helper-textarea').focus();
    await page.keyboard.press('Control+Shift+V');
  };

  test('one line is typed at once, and waits for Enter', async () => {
    await paste('echo $((40+2))-is-it');
    await rows().getByText('40+2').waitFor();
    assert.equal(await page.getByRole('dialog').count(), 0);
    await page.keyboard.press('Enter');
    await rows().getByText('42-is-it').waitFor();
  });

  test('several lines ask first, and come to nothing unless they may', async () => {
    await paste('touch /tmp/never\ntouch /tmp/ever\n');
    await page.getByRole('dialog', { name: 'Paste 2 lines?' }).waitFor();
    assert.deepEqual(await console.look('dialog-paste'), []);
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
    await page.keyboard.type('echo $((40+3))-is-it\n');
    await rows().getByText('43-is-it').waitFor();
    assert.equal((await box.sh('ls /tmp')).includes('ever'), false);
  });

  test('ten thousand characters arrive as they are', async () => {
    assert.ok(TEXT.length > 10_000);
    await page.keyboard.type('clear; cat > /tmp/pasted; echo $((40+4))-is-it\n');
    await until(async () => (await box.sh('ls /tmp')).includes('pasted'), { what: 'cat waits' });
    await paste(TEXT);
    await page.getByRole('dialog').getByRole('button', { name: 'Paste', exact: true }).click();
    await until(async () => (await box.sh('cat /tmp/pasted')).length >= TEXT.length, { what: 'all of it' });
    await page.keyboard.press('Control+d');
    await rows().getByText('44-is-it').waitFor();
    assert.equal(await box.sh('cat /tmp/pasted'), TEXT);
  });

  test('what is marked is copied by the keyboard', async () => {
    await page.keyboard.type('clear; echo to-be-copied\n');
    const line = rows().locator('> div', { hasText: /^to-be-copied/ });
    await line.waitFor();
    const { x = 0, y = 0, height = 0 } = (await line.boundingBox()) ?? {};
    await page.mouse.dblclick(x + 20, y + height / 2);
    await page.keyboard.press('Control+Shift+C');
    await until(async () => (await console.browser.run(COPIED)) === 'to-be-copied', { what: 'it is copied' });
  });

  test('the browser complained about nothing', () => {
    assert.deepEqual(console.complaints, []);
  });
});
