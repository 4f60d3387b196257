/** Where the console says what was just done: over nothing that can be pressed. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { request } from '../support/cluster/platform.ts';
import { suiteCleanup } from '../support/suite.ts';
import { type OpenedConsole, openConsole, withoutConsole } from '../support/web/opened-console.ts';
import { makeContainer, type OwnContainer } from '../support/web/own-container.ts';

/**
 * In the page: what can be pressed, or written into, and has the message over it, by its name. The link to the content
 * lies over all, and is there only while it has the focus.
 */
const COVERED = `(() => {
  const said = [...document.querySelectorAll('.toasts output')].map((each) => each.getBoundingClientRect());
  const controls = [...document.querySelectorAll('a:not(.skip), button, input, select, textarea, summary, [role=tab]')];
  const isUnder = (control) => {
    const box = control.getBoundingClientRect();
    const isOver = (over) =>
      over.left < box.right && box.left < over.right && over.top < box.bottom && box.top < over.bottom;
    return box.width > 0 && said.some(isOver);
  };
  return controls.filter(isUnder).map((control) => control.getAttribute('aria-label') ?? control.textContent);
})()`;

describe('a message of the console', { skip: withoutConsole, timeout: 900_000 }, () => {
  const cleanup = suiteCleanup();
  let opened: OpenedConsole;
  let box: OwnContainer;

  before(async () => {
    opened = await openConsole(cleanup);
    box = await makeContainer(cleanup, opened, 'box');
    await opened.open('/containers/new', 'Log in to troupe.localhost');
    await opened.logIn();
    await opened.heading('New container').waitFor();
  });

  for (const [width, height] of [
    [1280, 800],
    [1280, 640],
    [390, 844],
    [320, 640],
  ] as const)
    test(`covers no control in a window of ${width} by ${height}`, async () => {
      const { page } = opened;
      await page.setViewportSize({ width, height });
      await opened.open('/containers/new', 'New container');
      const name = `other-${width}-${height}`;
      await page.getByLabel('Name', { exact: true }).fill(name);
      await opened.button('Create container').click();
      const said = page.locator('.toasts output');
      await said.first().waitFor();
      await opened.heading(name).waitFor();
      const id = new URL(page.url()).pathname.split('/').at(-1) ?? '';
      cleanup.after(() => request('DELETE', box.url.replace(box.id, id), { token: box.token }));
      const found = await page.evaluate(COVERED);
      assert.ok((await said.count()) > 0, 'it was gone before it was looked at');
      assert.deepEqual(found, []);
      const place = () => opened.heading(name).boundingBox();
      const during = await place();
      await said.first().waitFor({ state: 'detached' });
      assert.deepEqual(await place(), during, 'the page stays where it is');
      await request('DELETE', box.url.replace(box.id, id), { token: box.token });
    });
});
