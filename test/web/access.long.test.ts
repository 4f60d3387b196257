/** Who else may do something, as the console shows it: SSH keys that open the account, and service accounts. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { z } from 'zod';
import { request } from '../support/cluster/platform.ts';
import { publicKey } from '../support/ssh/public-key.ts';
import { suiteCleanup } from '../support/suite.ts';
import { type OpenedConsole, openConsole, withoutConsole } from '../support/web/opened-console.ts';
import { PASSWORD } from '../support/web/served-console.ts';

describe('keys and programs that act for somebody', {
  skip: withoutConsole,
  timeout: 900_000,
}, () => {
  const cleanup = suiteCleanup();
  let console: OpenedConsole;
  let page: OpenedConsole['page'];

  before(async () => {
    console = await openConsole(cleanup);
    ({ page } = console);
    await console.open('/keys', 'Log in to troupe.localhost');
    await console.logIn();
    await console.heading('SSH keys').waitFor();
  });

  const exactly = (words: string) => page.getByText(words, { exact: true });
  const dialog = () => page.getByRole('dialog');
  const inDialog = (name: string) => dialog().getByRole('button', { name, exact: true });
  const choose = async (menu: string, item: string) => {
    await console.button(menu).click();
    await page.getByRole('menuitem', { name: item, exact: true }).click();
  };

  test('a key is let in, and shut out again', async () => {
    await console.button('Add key').click();
    await dialog().getByLabel('Public key').fill(publicKey());
    await dialog().getByLabel('Name').fill('laptop');
    await inDialog('Add key').click();
    await choose('More for laptop', 'Let it log in');
    await dialog().getByText('Whoever has this key can then do by SSH what you can do').waitFor();
    assert.deepEqual(await console.look('dialog-key-log-in'), []);
    await inDialog('Let it log in').click();
    await exactly('opens your account').waitFor();
    await choose('More for laptop', 'Let it log in no more');
    assert.deepEqual(await console.look('dialog-key-shut-out'), []);
    await inDialog('Let it in no more').click();
    await exactly('opens your account').waitFor({ state: 'detached' });
    await choose('More for laptop', 'Delete');
    assert.deepEqual(await console.look('dialog-delete-key'), []);
    await inDialog('Cancel').click();
  });

  test('after an old login, the password is asked for where somebody is', async () => {
    // As the platform answers ten minutes after a login.
    const refusal = { status: 403, json: { error: 'log in again', code: 'forbidden' } };
    await page.route('**/compute/ssh-keys/*/login', (route) => route.fulfill(refusal), { times: 1 });
    await choose('More for laptop', 'Let it log in');
    await inDialog('Let it log in').click();
    await inDialog('Log in again').click();
    await console.text('Your session has ended').waitFor();
    assert.deepEqual(await console.look('dialog-session-ended'), []);
    await page.getByLabel('Password').fill(PASSWORD);
    await console.button('Log in').click();
    await console.text('Your session has ended').waitFor({ state: 'detached' });
    await inDialog('Let it log in').click();
    await exactly('opens your account').waitFor();
  });

  test('a change of the password shuts the key out, as the page says before', async () => {
    await console.open('/settings', 'Settings');
    await console.text('SSH keys that you let log in do so no more').waitFor();
    await page.getByLabel('Current password').fill(PASSWORD);
    await page.getByLabel('New password').fill('another password of ann');
    await console.button('Change password').click();
    await console.text('The password is changed').waitFor();
    await console.open('/keys', 'SSH keys');
    await exactly('laptop').waitFor();
    assert.equal(await exactly('opens your account').count(), 0);
  });

  test('a service account has tokens, whose rights change with it', async () => {
    await console.open('/tokens', 'API tokens');
    await console.text('No service account yet').waitFor();
    assert.deepEqual(await console.findings(), []);
    await console.button('New service account').click();
    await dialog().getByLabel('Name').fill('deployment');
    await dialog().getByRole('group', { name: 'Containers' }).getByLabel('read').check();
    await dialog().getByText('May read all containers.').waitFor();
    assert.deepEqual(await console.look('dialog-service-account'), []);
    await inDialog('New service account').click();
    await exactly('deployment').waitFor();

    await page.getByRole('listitem').filter({ hasText: 'deployment' }).getByText('New token').click();
    await dialog().getByLabel('Name').fill('ci');
    await inDialog('New token').click();
    await console.text('Keep the token now').waitFor();
    assert.deepEqual(await console.look('dialog-token-once'), []);
    const token = (await dialog().locator('pre').textContent()) ?? '';
    await console.button('I have kept it').click();
    const { compute } = console.platform.ready.urls;
    const keys = async () => (await request('GET', `${compute}/compute/ssh-keys`, { token })).status;
    const containers = await request('GET', `${compute}/compute/containers`, { token });
    assert.equal(containers.status, 200, JSON.stringify(containers.json));
    assert.equal(await keys(), 403);

    await choose('More for deployment', 'Change its rights');
    assert.ok(await dialog().getByRole('group', { name: 'Containers' }).getByLabel('read').isChecked());
    await dialog().getByRole('group', { name: 'SSH keys' }).getByLabel('read').check();
    await dialog().getByText('May read all containers; read SSH keys.').waitFor();
    assert.deepEqual(await console.look('dialog-rights'), []);
    await inDialog('Save').click();
    await console.text('The rights of deployment are changed').waitFor();
    assert.equal(await keys(), 200);
    assert.deepEqual(await console.look('tokens-some'), []);
    await console.button('Revoke ci').click();
    assert.deepEqual(await console.look('dialog-revoke-token'), []);
    await inDialog('Cancel').click();

    await choose('More for deployment', 'Delete');
    await dialog().getByText('Its token is refused at once.').waitFor();
    assert.deepEqual(await console.look('dialog-delete-account'), []);
    await inDialog('Delete').click();
    await console.text('No service account yet').waitFor();
    assert.equal(await keys(), 401);
  });

  test('rights that were given elsewhere stay when others change', async () => {
    const { auth } = console.platform.ready.urls;
    const login = await request('POST', `${auth}/api/login`, {
      body: { username: 'ann', password: 'another password of ann' },
    });
    const { token, user_id } = z.object({ token: z.string(), user_id: z.string() }).parse(login.json);
    const whole = `compute.${user_id}`;
    await request('POST', `${auth}/api/service-accounts`, {
      token,
      body: { name: 'scripts', scopes: { [whole]: ['read'] } },
    });
    await console.open('/tokens', 'API tokens');
    await choose('More for scripts', 'Change its rights');
    await dialog().getByText('one right given elsewhere').waitFor();
    await dialog().getByRole('group', { name: 'Hostnames' }).getByLabel('create').check();
    await inDialog('Save').click();
    await console.text('The rights of scripts are changed').waitFor();
    const listed = await page.evaluate('fetch("/api/service-accounts").then((reply) => reply.json())');
    const [account] = z.array(z.object({ scopes: z.unknown() })).parse(listed);
    assert.deepEqual(account?.scopes, { [whole]: ['read'], [`networking.${user_id}.domain-mappings`]: ['create'] });
  });

  test('the browser complained about nothing', () => {
    assert.deepEqual(console.complaints, []);
  });
});
