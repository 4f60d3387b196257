/** The administrator's screens: the real platform and a real Chromium. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { z } from 'zod';
import { request } from '../support/cluster/platform.ts';
import { publicKey } from '../support/ssh/public-key.ts';
import { suiteCleanup } from '../support/suite.ts';
import { until } from '../support/until.ts';
import { type OpenedConsole, openConsole, withoutConsole } from '../support/web/opened-console.ts';
import { PASSWORD } from '../support/web/served-console.ts';

describe('the console of the administrator', {
  skip: withoutConsole,
  timeout: 900_000,
}, () => {
  const cleanup = suiteCleanup();
  let console: OpenedConsole;
  let page: OpenedConsole['page'];

  before(async () => {
    console = await openConsole(cleanup);
    ({ page } = console);
    await page.emulateMedia({ reducedMotion: 'reduce' });
    await makeContainer();
  });

  /** `worker`, of ann. */
  async function makeContainer(): Promise<void> {
    const { auth, compute } = console.platform.ready.urls;
    const body = { username: 'ann', password: PASSWORD };
    const login = await request('POST', `${auth}/api/login`, { body });
    const { token } = z.object({ token: z.string() }).parse(login.json);
    const key = await request('POST', `${compute}/compute/ssh-keys`, {
      token,
      body: { name: 'laptop', public_key: publicKey() },
    });
    const { id } = z.object({ id: z.int() }).parse(key.json);
    const made = await request('POST', `${compute}/compute/containers`, {
      token,
      body: { name: 'worker', instance_type: 'nano', memory_mb: 512, storage_gb: 10, ssh_key_ids: [id] },
    });
    assert.equal(made.status, 200, JSON.stringify(made.json));
  }
  /** What is found on the present page, and how it is another than the picture that is kept of it. */
  const row = (name: string) => page.getByRole('row').filter({ has: page.getByRole('rowheader', { name }) });
  /** Opens the menu of a row, and chooses from it. */
  const choose = async (menu: string, item: string) => {
    await console.button(menu).click();
    await page.getByRole('menuitem', { name: item, exact: true }).click();
  };

  test('nobody else sees them: neither in the navigation nor at their addresses', async () => {
    await console.open('/platform/users', 'Log in to troupe.localhost');
    await console.logIn('ann');
    await page.getByText('This page is for the administrator').waitFor();
    assert.equal(await page.getByRole('link', { name: 'Machines' }).count(), 0);
    assert.deepEqual(await console.findings(), []);
    await page.context().clearCookies();
  });

  test('the containers of all are listed, found by their owners, sorted, stopped and deleted', async () => {
    await console.open('/platform/containers', 'Log in to troupe.localhost');
    await console.logIn('admin');
    await row('worker').getByText('ann', { exact: true }).waitFor();
    await row('worker').getByText('Running').waitFor({ timeout: 900_000 });
    assert.deepEqual(await console.look('platform-containers'), []);
    const find = page.getByLabel('Find in all containers');
    await find.fill('owner:nobody');
    await page.getByText('Nothing matches').waitFor();
    assert.deepEqual(await console.look('platform-containers-none'), []);
    assert.match(page.url(), /[?]q=owner%3Anobody$/, 'it can be sent as it is');
    await find.fill('owner:ann status:running');
    await row('worker').waitFor();
    await console.button('Owner').click();
    await page.getByRole('columnheader', { name: 'Owner' }).and(page.locator('[aria-sort=ascending]')).waitFor();
    await find.fill('');
    await choose('More for worker of ann', 'Stop');
    assert.deepEqual(await console.look('dialog-stop-for-another'), []);
    await page.getByRole('dialog').getByRole('button', { name: 'Stop', exact: true }).click();
    await row('worker').getByText('Stopped').waitFor({ timeout: 60_000 });
    await choose('More for worker of ann', 'Delete');
    const dialog = page.getByRole('dialog');
    const last = dialog.getByRole('button', { name: 'Delete for ever' });
    assert.equal(await last.getAttribute('aria-disabled'), 'true', 'its name is not typed yet');
    assert.deepEqual(await console.look('dialog-delete-for-another'), []);
    await dialog.getByLabel('Type its name: worker').fill('worker');
    await last.click();
    await page.getByText('Nobody has a container').waitFor();
  });

  test('a user is added with a password that is shown once, disabled, enabled and removed', async () => {
    await console.open('/platform/users', 'Users');
    await row('ann').getByText('Active').waitFor();
    assert.deepEqual(await console.look('platform-users'), []);
    await console.button('Add user').click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Username').fill('No Such Name');
    await dialog.getByRole('button', { name: 'Add user' }).click();
    await dialog.getByRole('alert').waitFor();
    assert.deepEqual(await console.look('dialog-add-user'), []);
    await dialog.getByLabel('Username').fill('jonas');
    await dialog.getByRole('button', { name: 'Add user' }).click();
    await page.getByRole('heading', { name: 'The password of jonas' }).waitFor();
    const password = (await dialog.locator('pre').textContent()) ?? '';
    await page.keyboard.press('Escape');
    assert.deepEqual(await console.look('dialog-password-once'), []);
    await console.button('I have kept it').click();
    const { auth } = console.platform.ready.urls;
    const enter = () => request('POST', `${auth}/api/login`, { body: { username: 'jonas', password } });
    assert.equal((await enter()).status, 200);
    await choose('More for jonas', 'Sessions');
    await dialog.getByText('127.0.0.1').waitFor();
    assert.deepEqual(await console.look('dialog-sessions-of-a-user'), []);
    await dialog.getByRole('button', { name: 'End all sessions' }).click();
    await dialog.getByText('Logged in nowhere.').waitFor();
    await dialog.getByRole('button', { name: 'Close' }).click();
    for (const [item, picture] of [
      ['New password', 'dialog-new-password'],
      ['Forget security keys', 'dialog-forget-keys'],
    ] as const) {
      await choose('More for jonas', item);
      assert.deepEqual(await console.look(picture), []);
      await dialog.getByRole('button', { name: 'Cancel' }).click();
    }
    await choose('More for jonas', 'Room for images');
    await dialog.getByLabel('As much as those of all').uncheck();
    await dialog.getByRole('button', { name: 'Save' }).click();
    await dialog.getByText('This must be a whole number of MiB.').waitFor();
    await dialog.getByLabel('MiB').fill('10240');
    assert.deepEqual(await console.look('dialog-image-room'), []);
    await dialog.getByRole('button', { name: 'Save' }).click();
    await row('jonas').getByText('images: at most 10,240 MiB').waitFor();
    await choose('More for jonas', 'Disable');
    assert.deepEqual(await console.look('dialog-disable-user'), []);
    await dialog.getByRole('button', { name: 'Disable' }).click();
    await row('jonas').getByText('Disabled').waitFor();
    assert.equal((await enter()).status, 403);
    await choose('More for jonas', 'Enable');
    await row('jonas').getByText('Active').waitFor();
    await choose('More for jonas', 'Remove');
    assert.deepEqual(await console.look('dialog-remove-user'), []);
    await dialog.getByLabel('Type its name: jonas').fill('jonas');
    await dialog.getByRole('button', { name: 'Remove' }).click();
    await until(
      async () => {
        await console.open('/platform/users', 'Users');
        await row('ann').waitFor();
        return (await row('jonas').count()) === 0;
      },
      { what: 'the user is removed' },
    );
  });

  test('machines tell their figures, and the one process is not drained by mistake', async () => {
    await console.open('/platform/machines', 'Machines');
    await page.getByRole('article').getByText('Ready').waitFor();
    await page.getByText('shards are held').first().waitFor();
    assert.deepEqual(await console.look('platform-machines'), []);
    await page.getByRole('button', { name: /^Drain / }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('button', { name: 'Drain', exact: true }).click();
    await dialog.getByRole('alert').waitFor();
    assert.deepEqual(await console.look('dialog-drain'), []);
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    await page.getByRole('table').getByText('Serving').waitFor();
  });

  test('the audit trail is filtered, and the filter is in the address', async () => {
    await console.open('/platform/audit?user=ann', 'Audit trail');
    await row('container.create').waitFor();
    assert.equal(await row('user.add').count(), 0);
    assert.deepEqual(await console.look('platform-audit'), []);
    await page.getByLabel('User', { exact: true }).fill('');
    await page.getByLabel('Action', { exact: true }).fill('user');
    await console.button('Show').click();
    await row('user.remove').first().waitFor();
    assert.match(page.url(), /[?]action=user$/);
    await page.getByLabel('Action', { exact: true }).fill('Not An Action');
    await console.button('Show').click();
    await page
      .getByRole('alert')
      .getByText(/Must be a noun/)
      .waitFor();
  });

  test('a route is added and deleted; the platform’s own stay', async () => {
    await console.open('/platform/routes', 'Routes');
    await row('auth.troupe.localhost').first().waitFor();
    assert.deepEqual(await console.look('platform-routes'), []);
    await console.button('Add route').click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Host', { exact: true }).fill('docs.troupe.localhost');
    await dialog.getByLabel('Leads to').fill('not a target');
    await dialog.getByRole('button', { name: 'Add route' }).click();
    await dialog.getByText('Must be <host>:<port>.').waitFor();
    assert.deepEqual(await console.look('dialog-add-route'), []);
    await dialog.getByLabel('Leads to').fill('127.0.0.1:9000');
    await dialog.getByRole('button', { name: 'Add route' }).click();
    await row('docs.troupe.localhost').getByText('yours').waitFor();
    const own = console.button('Delete the route of auth.troupe.localhost');
    assert.equal(await own.getAttribute('aria-disabled'), 'true');
    await console.button('Delete the route of docs.troupe.localhost').click();
    assert.deepEqual(await console.look('dialog-delete-route'), []);
    await dialog.getByRole('button', { name: 'Delete route' }).click();
    await row('docs.troupe.localhost').waitFor({ state: 'detached' });
  });

  test('the map is drawn, and the table beside it says the same', async () => {
    await console.open('/platform/map', 'Map');
    await page.getByRole('img', { name: 'Map of dependencies' }).waitFor();
    assert.deepEqual(await console.look('platform-map'), []);
    const rows = page.getByRole('table', { name: 'The same as a table' }).locator('tbody tr');
    assert.equal(await rows.count(), await page.locator('.map .line').count());
    assert.ok((await rows.filter({ hasText: 'PostgreSQL' }).count()) >= 4);
  });

  test('no policy was violated, and no script failed', () => {
    assert.deepEqual(console.complaints, []);
  });
});
