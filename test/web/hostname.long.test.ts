/** How a container is reached from outside, in the console: the page of an open port, and a hostname of one's own. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { logIn, request } from '../support/cluster/platform.ts';
import { skipWithoutDocker } from '../support/engine/docker-client.ts';
import { type DnsServer, dnsServer } from '../support/network/dns-server.ts';
import { skipWithout } from '../support/require.ts';
import { publicKey } from '../support/ssh/public-key.ts';
import { suiteCleanup } from '../support/suite.ts';
import { until } from '../support/until.ts';
import { buildOfConsole } from '../support/web/console-build.ts';
import { type OpenedConsole, openConsole } from '../support/web/opened-console.ts';
import { makeContainer, type OwnContainer } from '../support/web/own-container.ts';
import { PASSWORDS } from '../support/web/served-console.ts';

const NAME = 'www.example.org';
const SQUATTED = 'taken.example.org';

/** Shows other text in the place of some that is another in each run, for pictures. `from`: a regular expression. */
async function retype(page: Page, from: string, to: string): Promise<void> {
  await page.evaluate(`(() => {
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = texts.nextNode(); node !== null; node = texts.nextNode()) {
      const text = node.data.replace(new RegExp(${JSON.stringify(from)}, 'g'), ${JSON.stringify(to)});
      if (text !== node.data) node.data = text;
    }
  })()`);
}

describe('a container that is to be reached', {
  skip: buildOfConsole.skip || skipWithoutDocker() || skipWithout('chromium', 'knotd'),
  timeout: 900_000,
}, () => {
  const cleanup = suiteCleanup();
  let console: OpenedConsole;
  let page: Page;
  /** What the TXT record is to say. */
  let token = '';
  let box: OwnContainer;
  let dns: DnsServer;

  before(async () => {
    dns = await dnsServer(cleanup, 'example.org');
    console = await openConsole(cleanup, { DNS_RESOLVERS: dns.address, INGRESS_HOST: 'ingress.example.org' }, 'https');
    ({ page } = console);
    box = await makeContainer(cleanup, console, 'shop');
    await box.sh('mkdir /tmp/w; echo "the page of the shop" > /tmp/w/index.html; httpd -p 8080 -h /tmp/w');
    await console.open(`/containers/${box.id}/network`, 'Log in to troupe.localhost');
    await console.logIn();
    await console.heading('shop').waitFor();
  });

  const row = () => page.locator('main').getByRole('listitem').filter({ hasText: NAME });
  /** The value beside a word of a record. */
  const recorded = (type: string, word: string) =>
    row().locator('dl').filter({ hasText: type }).locator(`dt:text-is("${word}") + dd code`).textContent();

  test('an open port is a link, whose page comes through the gateway', async () => {
    await page.getByLabel('From outside').fill('443');
    await page.getByLabel('In the container').fill('8080');
    await console.button('Open port').click();
    await console.text('443 leads to 8080').waitFor();
    const link = page.getByRole('region', { name: 'Ports' }).getByRole('link', { name: 'Open', exact: true });
    const site = (await link.getAttribute('href')) ?? '';
    assert.equal(new URL(site).hostname, `${box.id}.compute.troupe.localhost`);
    const opening = page.waitForEvent('popup');
    await link.click();
    const other = await opening;
    // The rule counts within 5 s.
    await until(async () => (await other.goto(site).catch(() => undefined))?.status() === 200, {
      what: 'the page',
      timeoutMs: 30_000,
    });
    assert.equal((await other.textContent('body'))?.trim(), 'the page of the shop');
    await other.close();
  });

  test('a port is opened with cache "explicit", which is shown and changed', async () => {
    const ports = page.getByRole('region', { name: 'Ports' });
    await ports.getByText('the gateway keeps what answers declare fresh').waitFor();
    await console.button('Change what is kept of port 443').click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('What the gateway keeps of the answers').selectOption('off');
    await dialog.getByText('Every answer comes from your program.').waitFor();
    assert.deepEqual(await console.look('dialog-cache'), []);
    await dialog.getByRole('button', { name: 'Change it' }).click();
    await ports.getByText('the gateway keeps no answers').waitFor();
  });

  test('a hostname that somebody squats on says which record takes it, and is taken with it', async () => {
    const { auth, compute, net } = console.platform.ready.urls;
    const admin = await logIn(auth, 'admin', PASSWORDS.admin);
    const ask = (path: string, body: object) => request('POST', `${compute}${path}`, { token: admin, body });
    const key = await ask('/compute/ssh-keys', { name: 'admin', public_key: publicKey() });
    const made = await ask('/compute/containers', { name: 'squat', ssh_key_ids: [key.json.id] });
    const body = { container_id: made.json.id, domain: SQUATTED, target_port: 80 };
    const squat = await request('POST', `${net}/api/domain-mappings`, { token: admin, body });
    assert.equal(squat.status, 201);
    await page.goto(`${console.origin}/hostnames`);
    await console.button('Map a hostname').first().click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Hostname').fill(SQUATTED);
    await dialog.getByRole('button', { name: 'Map it' }).click();
    await dialog.getByText('domain already in use').waitFor();
    const part = (word: string) => dialog.locator(`dt:text-is("${word}") + dd code`).textContent();
    assert.equal(await part('Name'), `_svc-verify.${SQUATTED}`);
    const value = (await part('Value')) ?? '';
    await dialog.getByRole('button', { name: 'Copy the value of the TXT record' }).waitFor();
    await retype(page, value, `svc-verify-${'0123456789'.repeat(9)}`.slice(0, value.length));
    assert.deepEqual(await console.look('dialog-claimed-hostname'), []);
    await dialog.getByRole('button', { name: 'Look now' }).click();
    await dialog.getByText('The record is not there yet').waitFor();
    await dns.set(`_svc-verify.taken TXT "${value}"`);
    await dialog.getByRole('button', { name: 'Look now' }).click();
    const row = page.locator('main').getByRole('listitem').filter({ hasText: SQUATTED });
    await row.getByText('Verified').waitFor();
    await row.getByRole('button', { name: `Give up ${SQUATTED}` }).click();
    await dialog.getByRole('button', { name: 'Give it up' }).click();
    await console.text('No hostname yet').waitFor();
    await request('DELETE', `${compute}/compute/containers/${made.json.id}`, { token: admin });
  });

  test('a hostname says which records to enter, and that they are not there yet', async () => {
    await page.goto(`${console.origin}/hostnames`);
    await console.button('Map a hostname').first().click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Hostname').fill(NAME);
    await dialog.getByLabel('Port in the container').fill('443');
    await dialog.getByRole('button', { name: 'Map it' }).click();
    await row().getByText('Waiting for DNS').waitFor();
    await row().getByText('the gateway keeps what answers declare fresh').waitFor();
    await row()
      .getByRole('button', { name: `Change what is kept of ${NAME}` })
      .click();
    await dialog.getByLabel('What the gateway keeps of the answers').selectOption('default');
    await dialog.getByRole('button', { name: 'Change it' }).click();
    await row().getByText('the gateway keeps answers for up to 30 s').waitFor();
    assert.equal(await recorded('TXT', 'Name'), `_svc-verify.${NAME}`);
    assert.equal(await recorded('TXT', 'Name in the zone example.org'), '_svc-verify.www');
    assert.match((await recorded('TXT', 'Value')) ?? '', /^\S{20,}$/);
    assert.equal(await recorded('CNAME', 'Value'), 'ingress.example.org');
    await row().getByRole('button', { name: 'Look now' }).click();
    await console.text('The record is not there yet').waitFor();
    await row()
      .getByText(/no TXT record/)
      .waitFor();
    await row()
      .getByText(/looked .* ago/)
      .waitFor();
    await row()
      .getByText(/looks again in/)
      .waitFor();
    // Where a line breaks depends on the token, and on the port of the name server.
    token = (await recorded('TXT', 'Value')) ?? '';
    await retype(page, token, `svc-verify-${'0123456789'.repeat(9)}`.slice(0, token.length));
    await retype(page, '127[.]0[.]0[.]1:[0-9]+', '127.0.0.1:5353');
    assert.deepEqual(await console.look('hostnames-waiting'), []);
  });

  test('once the records are there the page says so by itself', async () => {
    await dns.set('ingress A 127.0.0.1', 'www CNAME ingress', `_svc-verify.www TXT "${token}"`);
    await row().getByText('Verified').waitFor({ timeout: 900_000 });
    assert.equal(await row().getByText('Enter these two records').count(), 0);
    assert.deepEqual(await console.look('hostnames-verified'), []);
    await row()
      .getByRole('button', { name: `Give up ${NAME}` })
      .click();
    assert.deepEqual(await console.look('dialog-give-up-hostname'), []);
    await page.getByRole('dialog').getByRole('button', { name: 'Give it up' }).click();
    await console.text('No hostname yet').waitFor();
  });

  test('the browser complained about nothing', () => {
    assert.deepEqual(console.complaints, []);
  });
});
