/** The readable address of a container, given at its creation, changed and taken away in the console. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { z } from 'zod';
import { request } from '../support/cluster/platform.ts';
import { suiteCleanup } from '../support/suite.ts';
import { until } from '../support/until.ts';
import { type OpenedConsole, openConsole, withoutConsole } from '../support/web/opened-console.ts';
import { makeContainer, type OwnContainer } from '../support/web/own-container.ts';

const view = z.object({ id: z.string(), hostname: z.string(), address_name: z.string().optional() });

describe('the readable address in the console', { skip: withoutConsole, timeout: 900_000 }, () => {
  const cleanup = suiteCleanup();
  let opened: OpenedConsole;
  let box: OwnContainer;
  const seen = async (url = box.url) => view.parse((await request('GET', url, { token: box.token })).json);
  const panel = () => opened.page.getByRole('region', { name: 'Readable address', exact: true });
  const fill = async (name: string): Promise<void> => {
    await opened.page.getByLabel('Name in the address').fill(name);
    await panel().getByRole('button', { name: 'Save', exact: true }).click();
  };

  before(async () => {
    opened = await openConsole(cleanup);
    box = await makeContainer(cleanup, opened, 'box');
    await opened.open(`/containers/${box.id}/network`, 'Log in to troupe.localhost');
    await opened.logIn();
    await opened.heading('box').waitFor();
  });

  test('is saved, shown in the place of the id, and taken away', async () => {
    await fill('shop');
    await until(async () => (await seen()).address_name === 'shop', { what: 'it is saved' });
    const { hostname } = await seen();
    await opened.text(hostname.replace(box.id, 'shop')).first().waitFor();
    assert.deepEqual(await opened.findings(), []);
    await fill('www');
    await panel()
      .locator('.field .wrong')
      .getByText(/keeps for itself: choose another/i)
      .waitFor();
    await fill('');
    await until(async () => (await seen()).address_name === undefined, { what: 'it is taken away' });
    await panel()
      .getByText(/Reserved for you: shop \(until \d+ \w+ 20\d\d\)\./)
      .waitFor();
  });

  test('is chosen for a new container', async () => {
    await opened.open('/containers/new', 'New container');
    await opened.page.getByLabel('Name', { exact: true }).fill('other');
    await opened.page.locator('#main summary', { hasText: 'More' }).click();
    await opened.page.getByLabel('Name in the address').fill('other-shop');
    await opened.button('Create container').click();
    await opened.heading('other').waitFor();
    const id = new URL(opened.page.url()).pathname.split('/').at(-1) ?? '';
    const url = box.url.replace(box.id, id);
    cleanup.after(() => request('DELETE', url, { token: box.token }));
    assert.equal((await seen(url)).address_name, 'other-shop');
  });

  test('the browser complained about nothing', () => {
    assert.deepEqual(opened.complaints, []);
  });
});
