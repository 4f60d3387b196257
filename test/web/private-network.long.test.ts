/** The private network of a container, set by its owner in the console. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { z } from 'zod';
import { request } from '../support/cluster/platform.ts';
import { suiteCleanup } from '../support/suite.ts';
import { until } from '../support/until.ts';
import { type OpenedConsole, openConsole, withoutConsole } from '../support/web/opened-console.ts';
import { makeContainer, type OwnContainer } from '../support/web/own-container.ts';

const view = z.object({ network: z.string().optional(), alias: z.string().optional(), started_at: z.string() });

describe('the private network in the console', {
  skip: withoutConsole,
  timeout: 900_000,
}, () => {
  const cleanup = suiteCleanup();
  let opened: OpenedConsole;
  let db: OwnContainer;
  let app: OwnContainer;
  const seen = async (one: OwnContainer) => view.parse((await request('GET', one.url, { token: one.token })).json);
  const panel = () => opened.page.getByRole('region', { name: 'Private network', exact: true });
  const fill = async (network: string, alias: string): Promise<void> => {
    await opened.page.getByLabel('Network', { exact: true }).fill(network);
    await opened.page.getByLabel('Name in the network').fill(alias);
    await panel().getByRole('button', { name: 'Save', exact: true }).click();
  };

  before(async () => {
    opened = await openConsole(cleanup);
    db = await makeContainer(cleanup, opened, 'db');
    app = await makeContainer(cleanup, opened, 'app');
    await opened.open(`/containers/${db.id}/network`, 'Log in to troupe.localhost');
    await opened.logIn();
    await opened.heading('db').waitFor();
  });

  test('is joined and left without a restart, and others reach the container by its name', async () => {
    const before = await seen(db);
    await fill('shop', 'db');
    await until(async () => (await seen(db)).alias === 'db', { what: 'it is saved' });
    const body = { network: 'shop' };
    assert.equal((await request('PATCH', app.url, { token: app.token, body })).status, 200);
    const greeting = () => app.sh('nc -w 2 db 22 </dev/null || true');
    await until(async () => /^SSH-2/.test(await greeting()), { what: 'it is reached by its name' });
    assert.deepEqual(await opened.findings(), []);
    await fill('', '');
    await until(async () => (await seen(db)).network === undefined, { what: 'it has left' });
    assert.equal((await seen(db)).started_at, before.started_at);
  });

  test('says at the field what is wrong, and who has the name', async () => {
    // The form begins anew with what is so by now.
    await opened.page.reload();
    await opened.heading('db').waitFor();
    await fill('Shop', '');
    await opened.page
      .locator('.field .wrong')
      .getByText(/must be 1 to 63/i)
      .waitFor();
    const body = { network: 'shop', alias: 'db' };
    assert.equal((await request('PATCH', app.url, { token: app.token, body })).status, 200);
    await fill('shop', 'db');
    await opened.text(`In the network shop, "db" is the container app (${app.id})`).waitFor();
  });

  test('the browser complained about nothing', () => {
    assert.deepEqual(opened.complaints, []);
  });
});
