/** The size and the image of a container, changed in the console. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { z } from 'zod';
import { request } from '../support/cluster/platform.ts';
import { suiteCleanup } from '../support/suite.ts';
import { until } from '../support/until.ts';
import { type OpenedConsole, openConsole, withoutConsole } from '../support/web/opened-console.ts';
import { makeContainer, type OwnContainer } from '../support/web/own-container.ts';

const view = z.object({
  memory_mb: z.number(),
  instance_type: z.string(),
  started_at: z.string(),
  expires_at: z.string().optional(),
  egress: z.union([z.string(), z.array(z.string())]).optional(),
  overlap: z.boolean().optional(),
});

describe('the size and the image in the console', {
  skip: withoutConsole,
  timeout: 900_000,
}, () => {
  const cleanup = suiteCleanup();
  let opened: OpenedConsole;
  let container: OwnContainer;
  const seen = async () => view.parse((await request('GET', container.url, { token: container.token })).json);
  const save = (panel: string) =>
    opened.page.getByRole('region', { name: panel, exact: true }).getByRole('button', { name: 'Save', exact: true });

  before(async () => {
    opened = await openConsole(cleanup);
    container = await makeContainer(cleanup, opened, 'box');
    await opened.open(`/containers/${container.id}/settings`, 'Log in to troupe.localhost');
    await opened.logIn();
    await opened.heading('box').waitFor();
  });

  test('another size is saved, sends only what is another, and restarts nothing', async () => {
    const before = await seen();
    await opened.page.getByLabel('Memory (MB)').fill('640');
    const sent = opened.page.waitForRequest((asked) => asked.method() === 'PATCH');
    await save('Size').click();
    assert.deepEqual((await sent).postDataJSON(), { memory_mb: 640 });
    await until(async () => (await seen()).memory_mb === 640, { what: 'it is saved' });
    assert.equal((await seen()).started_at, before.started_at);
    await until(async () => (await save('Size').getAttribute('aria-disabled')) === 'true', { what: 'it is shown' });
  });

  test('a time to expire is saved, and taken away', async () => {
    const field = opened.page.getByLabel('Expires at');
    await field.fill('2031-01-31T12:00');
    await save('Expiry').click();
    const expected = await opened.page.evaluate(() => new Date('2031-01-31T12:00').toISOString());
    await until(async () => (await seen()).expires_at === expected, { what: 'it is saved' });
    await until(async () => (await save('Expiry').getAttribute('aria-disabled')) === 'true', { what: 'it is shown' });
    assert.equal(await field.inputValue(), '2031-01-31T12:00');
    await field.fill('2001-01-31T12:00');
    await save('Expiry').click();
    await opened.page.getByText('must be in the future').waitFor();
    await field.fill('');
    await save('Expiry').click();
    await until(async () => (await seen()).expires_at === undefined, { what: 'it expires never' });
  });

  test('another image begins beside it once that is ticked, and not any more once it is unticked', async () => {
    const { started_at } = await seen();
    const box = opened.page.getByLabel('Another image begins beside it');
    for (const isWanted of [true, false]) {
      await box.click();
      await until(async () => ((await seen()).overlap ?? false) === isWanted, { what: 'it is saved' });
      await until(async () => (await box.isChecked()) === isWanted, { what: 'it is shown' });
    }
    assert.equal((await seen()).started_at, started_at);
  });

  test('what it may reach is chosen, and a list is typed', async () => {
    const { started_at } = await seen();
    const choice = opened.page.getByLabel('May reach', { exact: true });
    await choice.selectOption('none');
    await save('What it may reach').click();
    await until(async () => (await seen()).egress === 'none', { what: 'it is saved' });
    await choice.selectOption('list');
    const networks = opened.page.getByRole('region', { name: 'What it may reach' }).getByLabel('Networks');
    await networks.fill('203.0.113.7/24');
    await save('What it may reach').click();
    await opened.page.getByText('Must be a network of IPv4, written with its first address').waitFor();
    await networks.fill('203.0.113.0/24\n198.51.100.7');
    await save('What it may reach').click();
    await until(async () => String((await seen()).egress) === '198.51.100.7/32,203.0.113.0/24', {
      what: 'it is saved',
    });
    await until(async () => (await save('What it may reach').getAttribute('aria-disabled')) === 'true', {
      what: 'it is shown',
    });
    assert.equal(await networks.inputValue(), '198.51.100.7/32\n203.0.113.0/24');
    await choice.selectOption('any');
    await save('What it may reach').click();
    await until(async () => (await seen()).egress === undefined, { what: 'it reaches all again' });
    assert.equal((await seen()).started_at, started_at);
  });

  test('what is typed while a change is being saved stays', async () => {
    const field = opened.page.getByLabel('Memory (MB)');
    await field.fill('768');
    let release = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    await opened.page.route('**/compute/containers/*', async (route) => {
      if (route.request().method() === 'PATCH') await held;
      await route.continue();
    });
    const sent = opened.page.waitForRequest((asked) => asked.method() === 'PATCH');
    await save('Size').click();
    const answered = (await sent).response();
    await field.fill('896');
    release();
    await answered;
    await opened.page.unroute('**/compute/containers/*');
    await until(async () => (await seen()).memory_mb === 768, { what: 'the first is saved' });
    const button = save('Size');
    await until(async () => (await button.getAttribute('aria-disabled')) === null, { what: 'the second can be' });
    assert.equal(await field.inputValue(), '896');
    await button.click();
    await until(async () => (await seen()).memory_mb === 896, { what: 'so is the second' });
  });

  test('what is typed stays when somebody else saves a change, and a field nobody typed into follows it', async () => {
    const [memory, storage] = [opened.page.getByLabel('Memory (MB)'), opened.page.getByLabel('Storage (GB)')];
    await storage.fill('7');
    const { status } = await request('PATCH', container.url, { token: container.token, body: { memory_mb: 700 } });
    assert.equal(status, 200);
    await until(async () => (await memory.inputValue()) === '700', { what: 'the change is shown' });
    assert.equal(await storage.inputValue(), '7');
    const sent = opened.page.waitForRequest((asked) => asked.method() === 'PATCH');
    await save('Size').click();
    assert.deepEqual((await sent).postDataJSON(), { storage_gb: 7 });
    await until(async () => (await save('Size').getAttribute('aria-disabled')) === 'true', { what: 'it is saved' });
  });

  test('what is out of bounds is said at its field, and so is an image that may not be used', async () => {
    const wrong = opened.page.locator('.field .wrong');
    await opened.page.getByLabel('Memory (MB)').fill('99');
    await save('Size').click();
    await wrong.getByText(/at least 128/i).waitFor();
    await opened.page.getByRole('combobox', { name: 'Image', exact: true }).selectOption('Another image');
    await opened.page.getByLabel('Name of the image').fill('nowhere.test/a/b:1');
    await opened.text('all others come from the new image').waitFor();
    await save('Image').click();
    await wrong.getByText(/has no image registry/i).waitFor();
    assert.deepEqual(await opened.findings(), []);
  });

  test('the browser complained about nothing', () => {
    assert.deepEqual(opened.complaints, []);
  });
});
