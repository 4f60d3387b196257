/** Being told elsewhere, set up in the console: a real platform, a receiver of webhooks and a mail server. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { z } from 'zod';
import { request } from '../support/cluster/platform.ts';
import { startMailServer } from '../support/notify/mail-server.ts';
import { isSigned, startReceiver } from '../support/notify/receiver.ts';
import { suiteCleanup } from '../support/suite.ts';
import { until } from '../support/until.ts';
import { type OpenedConsole, openConsole, withoutConsole } from '../support/web/opened-console.ts';
import { PASSWORD } from '../support/web/served-console.ts';

/** Notices as they are made. */
const SEEN = `
  globalThis.seen = [];
  globalThis.Notification = class extends Notification {
    constructor(title, options) {
      super(title, options);
      globalThis.seen.push(title);
    }
  };
  document.hasFocus = () => false;
`;

describe('delivery in the console', {
  skip: withoutConsole,
  timeout: 900_000,
}, () => {
  const cleanup = suiteCleanup();
  let console: OpenedConsole;
  let page: OpenedConsole['page'];
  let receiver: Awaited<ReturnType<typeof startReceiver>>;
  let mail: Awaited<ReturnType<typeof startMailServer>>;
  let answer = 204;
  let secret = '';

  before(async () => {
    receiver = await startReceiver(cleanup, () => answer);
    mail = await startMailServer(cleanup);
    console = await openConsole(cleanup, {
      WEBHOOK_ALLOW: '127.0.0.0/8',
      SMTP_URL: mail.url,
      SMTP_FROM: 'troupe@cloud.test',
    });
    ({ page } = console);
    await console.open('/activity', 'Log in to troupe.localhost');
    await console.logIn();
    await console.heading('Activity').waitFor();
    await page.getByRole('link', { name: 'Delivery' }).click();
    await console.heading('Delivery').waitFor();
  });

  const choose = async (item: string) => {
    await console.button(`More for ${receiver.url}`).click();
    await page.getByRole('menuitem', { name: item, exact: true }).click();
  };
  const exactly = (words: string) => page.getByText(words, { exact: true });
  const dialog = () => page.getByRole('dialog');

  test('a webhook is added, and its secret is shown once', async () => {
    await console.text('No webhook yet').waitFor();
    assert.deepEqual(await console.findings(), []);
    await console.button('Add webhook').click();
    await dialog().getByLabel('Address').fill('not an address');
    await dialog().getByRole('button', { name: 'Add webhook' }).click();
    await dialog().getByText('Must be an address with https://').waitFor();
    await dialog().getByLabel('Address').fill(receiver.url);
    await dialog()
      .getByRole('radio', { name: /Only some/ })
      .press('Space');
    // The button that cannot be used says it too, to whoever asks it.
    await dialog().getByRole('paragraph').filter({ hasText: 'Choose at least one.' }).waitFor();
    assert.deepEqual(await console.look('dialog-add-webhook'), []);
    await dialog().getByLabel('Containers').check();
    await dialog().getByRole('button', { name: 'Add webhook' }).click();
    secret =
      (await dialog()
        .getByText(/^whsec_/)
        .textContent()) ?? '';
    assert.deepEqual(await console.look('dialog-webhook-secret'), []);
    await page.keyboard.press('Escape');
    assert.ok(await dialog().isVisible(), 'it stays until somebody says that it is kept');
    const download = page.waitForEvent('download');
    await console.button('Save as a file').click();
    assert.equal((await download).suggestedFilename(), 'webhook-127.0.0.1.txt');
    await console.button('I have kept it').click();
    await exactly(receiver.url).waitFor();
    await exactly('about containers').waitFor();
    assert.equal(await page.getByText(secret).count(), 0);
  });

  test('a test shows what the program answered, and a failure how it goes on', async () => {
    await console.button('Send a test').click();
    await console.text(/^204 in/).waitFor();
    assert.ok(receiver.hooks.every((hook) => isSigned(hook, secret)));
    answer = 503;
    await console.button('Send a test').click();
    await console.text(/^503 in/).waitFor();
    await console.text('It answered 503').waitFor();
    await console.text('Tries again').waitFor();
    assert.deepEqual(await console.look('activity-webhook'), []);
  });

  test('pausing says what it drops; a paused one is sent nothing, and goes on when asked', async () => {
    await choose('Pause');
    await dialog().getByText('1 waits to be sent').waitFor();
    assert.deepEqual(await console.look('dialog-pause-webhook'), []);
    await dialog().getByRole('button', { name: 'Pause' }).click();
    await exactly('Paused').waitFor();
    assert.equal(await console.button('Send a test').getAttribute('aria-disabled'), 'true');
    answer = 204;
    await choose('Resume');
    await exactly('Works').waitFor();
    await choose('Pause');
    await exactly('Paused').waitFor();
    await choose('Resume');
    await exactly('Works').waitFor();
  });

  test('it is changed, gets a new secret, and is deleted', async () => {
    await choose('Change');
    await dialog().getByRole('radio', { name: /All/ }).press('Space');
    assert.deepEqual(await console.look('dialog-change-webhook'), []);
    await dialog().getByRole('button', { name: 'Save' }).click();
    await page.getByText('all notifications').waitFor();
    await choose('Make a new secret');
    assert.deepEqual(await console.look('dialog-new-secret'), []);
    await dialog().getByRole('button', { name: 'Make a new secret' }).click();
    const fresh =
      (await dialog()
        .getByText(/^whsec_/)
        .textContent()) ?? '';
    await console.button('I have kept it').click();
    const before = receiver.hooks.length;
    await console.button('Send a test').click();
    await until(() => receiver.hooks.length > before, { what: 'the test came' });
    const last = receiver.hooks.at(-1);
    assert.ok(last !== undefined && isSigned(last, fresh) && isSigned(last, secret));
    await choose('Delete');
    assert.deepEqual(await console.look('dialog-delete-webhook'), []);
    await dialog().getByRole('button', { name: 'Delete' }).click();
    await console.text('No webhook yet').waitFor();
  });

  test('mail is on once the code from the mail is entered', async () => {
    await page.getByLabel('Mail address').fill('ann@example.com');
    await console.button('Send a code').click();
    await console.text('Waits for the code').waitFor();
    await until(() => mail.mails.length === 1, { what: 'the mail came' });
    const code = /\b\d{6}\b/.exec(mail.mails[0]?.text ?? '')?.[0] ?? '';
    await page.getByLabel('Code from the mail').fill(code === '000000' ? '000001' : '000000');
    await console.button('Confirm').click();
    await page.getByRole('alert').waitFor();
    assert.deepEqual(await console.findings(), []);
    await page.getByLabel('Code from the mail').fill(code);
    await console.button('Confirm').click();
    await exactly('On').waitFor();
    await console.button('Change').click();
    assert.deepEqual(await console.look('dialog-change-mail'), []);
    await dialog().getByRole('button', { name: 'Cancel' }).click();
    await console.button('Turn off').click();
    await page.getByLabel('Mail address').waitFor();
  });

  test('notices of the system are asked for by a button, and one tab shows each', async () => {
    const context = page.context();
    // What is shown is written down, and nobody looks: a browser without a screen says that somebody always does.
    await context.addInitScript(SEEN);
    const other = await context.newPage();
    for (const tab of [page, other]) {
      await tab.goto(`${console.origin}/activity/delivery`);
      await tab.getByRole('heading', { level: 1, name: 'Delivery' }).waitFor();
    }
    const seen = async () => {
      const all = await Promise.all([page, other].map((tab) => tab.evaluate('globalThis.seen')));
      return z.array(z.string()).parse(all.flat());
    };
    assert.equal(await page.evaluate('Notification.permission'), 'default', 'nobody was asked on loading');
    await context.grantPermissions(['notifications'], { origin: console.origin });
    await console.button('Turn on').click();
    await console.button('Turn off').waitFor();
    assert.deepEqual(await seen(), ['You are told here from now on']);
    await other.getByRole('button', { name: 'Turn off' }).waitFor();

    const { auth } = console.platform.ready.urls;
    const login = await request('POST', `${auth}/api/login`, { body: { username: 'ann', password: PASSWORD } });
    const { token } = z.object({ token: z.string() }).parse(login.json);
    let told = 0;
    const tell = async () => {
      told++;
      await request('POST', `${auth}/api/service-accounts`, { token, body: { name: `ci ${told}`, scopes: {} } });
      const shown = async () => (await seen()).filter((title) => title === 'Service account created').length;
      await until(async () => (await shown()) >= told, { what: 'it is shown' });
      assert.equal(await shown(), told, 'once');
    };
    const inOther = async () => z.array(z.string()).parse(await other.evaluate('globalThis.seen')).length;
    await tell();
    const before = await inOther();
    await other.evaluate('dispatchEvent(new Event("focus"))');
    await tell();
    await page.evaluate('dispatchEvent(new Event("focus"))');
    await tell();
    assert.equal(await inOther(), before + 1, 'by the tab that was used last');
    await console.button('Turn off').click();
    await other.getByRole('button', { name: 'Turn on' }).waitFor();
  });

  test('the browser complained about nothing', () => {
    assert.deepEqual(console.complaints, []);
  });
});
