/** Settings of a container's workload in the console: the real platform and a real Chromium. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { lineOf, wordsOf } from '../../web/screens/container/workload/words.ts';
import { request } from '../support/cluster/platform.ts';
import { until } from '../support/until.ts';
import { type OpenedConsole, openConsole, withoutConsole } from '../support/web/opened-console.ts';
import { makeContainer, type OwnContainer } from '../support/web/own-container.ts';

describe('the settings of a workload in the console', {
  skip: withoutConsole,
  timeout: 900_000,
}, () => {
  const ends: (() => unknown)[] = [];
  const cleanup = { after: (end: () => unknown) => void ends.unshift(end) };
  let console: OpenedConsole;
  let page: OpenedConsole['page'];
  let container: OwnContainer;

  before(async () => {
    console = await openConsole(cleanup);
    ({ page } = console);
    container = await makeContainer(cleanup, console, 'first');
    await console.open(`/containers/${container.id}/settings`, 'Log in to troupe.localhost');
    await console.logIn();
    await console.heading('first').waitFor();
  });
  after(async () => {
    for (const end of ends) await end();
  });

  const settings = async () => (await request('GET', `${container.url}/settings`, { token: container.token })).json;
  const runs = () =>
    until(async () => (await request('GET', container.url, { token: container.token })).json.status === 'running', {
      what: 'the container runs again',
      timeoutMs: 120_000,
    });
  const row = (name: string) => page.getByRole('listitem').filter({ hasText: name });
  const set = async (name: string, value: string) => {
    await page.getByLabel('Name of the variable').fill(name);
    await page.getByLabel('Value', { exact: true }).fill(value);
    await console.text('The container restarts with this change.').waitFor();
    await console.button('Set').click();
  };

  test('a variable is set, is in the container, is changed, and keeps its lines', async () => {
    await console.text('None yet. A variable is in the environment').waitFor();
    await set('1GREETING', 'hello');
    await console.text(/not beginning with a digit/).waitFor();
    await set('GREETING', 'hello');
    await row('GREETING').getByText('hello').waitFor();
    await runs();
    assert.match(await container.sh('echo "<$GREETING>"'), /<hello>/);
    await console.button('Change GREETING').click();
    assert.equal(await page.getByLabel('Value', { exact: true }).inputValue(), 'hello');
    await page.keyboard.press('End');
    await page.keyboard.press('Enter');
    await page.keyboard.type('world');
    await console.button('Set').click();
    await row('GREETING').getByText('world').waitFor();
    assert.deepEqual((await settings()).env, { GREETING: 'hello\nworld' });
    await runs();
  });

  test('a secret is set and never shown, a variable becomes one, and one is removed', async () => {
    await page.getByLabel('Secret', { exact: false }).check();
    await set('API_KEY', 'nobody-reads-this');
    await row('API_KEY').getByText('secret: its value is not shown').waitFor();
    await runs();
    assert.match(await container.sh('echo "<$API_KEY>"'), /<nobody-reads-this>/);
    await page.reload();
    await row('API_KEY').waitFor();
    assert.doesNotMatch(await page.content(), /nobody-reads-this/);
    await console.button('Change API_KEY').click();
    assert.equal(await page.getByLabel('Value', { exact: true }).inputValue(), '');
    // Neither as a secret nor as a variable is it emptied by accident.
    for (const _ of ['secret', 'variable']) {
      await page.locator('.field .wrong').getByText('Type the value: that of a secret is not shown.').waitFor();
      assert.equal(await console.button('Set').getAttribute('aria-disabled'), 'true');
      await page.getByLabel('Secret', { exact: false }).click();
    }
    await page.getByLabel('Value', { exact: true }).fill('x');
    await page.locator('.field .wrong').waitFor({ state: 'detached' });
    assert.equal(await console.button('Set').getAttribute('aria-disabled'), null);
    await console.button('Change GREETING').click();
    await page.getByLabel('Secret', { exact: false }).check();
    await console.button('Set').click();
    await row('GREETING').getByText('secret: its value is not shown').waitFor();
    assert.deepEqual((await settings()).secrets, ['API_KEY', 'GREETING']);
    assert.deepEqual((await settings()).env, {});
    assert.deepEqual(await console.findings(), []);
    await console.button('Remove API_KEY').click();
    await page.getByRole('dialog').getByText('The container restarts with this change.').waitFor();
    assert.deepEqual(await console.findings(), []);
    await page.getByRole('dialog').getByRole('button', { name: 'Remove', exact: true }).click();
    await row('API_KEY').waitFor({ state: 'detached' });
    assert.deepEqual((await settings()).secrets, ['GREETING']);
    await runs();
  });

  test('how it stops and what follows its end are changed, and only what is changed is sent', async () => {
    await page.getByLabel('Seconds to stop in').fill('999');
    await console.button('Save').nth(3).click();
    await page.locator('.field .wrong').waitFor();
    await page.getByLabel('Seconds to stop in').fill('3');
    await page.getByLabel('When it ends by itself').selectOption('on-failure');
    const sent = page.waitForRequest((asked) => asked.method() === 'PATCH');
    await console.button('Save').nth(3).click();
    assert.deepEqual((await sent).postDataJSON(), { stop_grace: 3, restart: 'on-failure' });
    await until(async () => (await settings()).restart === 'on-failure', { what: 'it is saved' });
  });

  test('the program and its folder are changed, with words as in a shell, and what is refused is said', async () => {
    const command = page.getByLabel('Command', { exact: true });
    const folder = page.getByLabel('Working folder');
    await command.fill("sh -c 'echo it");
    await console.text('A quote is not closed.').waitFor();
    assert.equal(await console.button('Save').nth(3).getAttribute('aria-disabled'), 'true');
    await command.fill("sh -c 'echo it is $PWD; exec sleep 999'");
    const sent = page.waitForRequest((asked) => asked.method() === 'PATCH');
    await console.button('Save').nth(3).click();
    assert.deepEqual((await sent).postDataJSON(), { command: ['sh', '-c', 'echo it is $PWD; exec sleep 999'] });
    await page.locator('.field .wrong, .note.bad').waitFor();
    assert.deepEqual(await console.look('container-variables'), []);
    await command.fill('');
    await folder.fill('/srv');
    await console.button('Save').nth(3).click();
    await until(async () => (await settings()).working_dir === '/srv', { what: 'it is saved' });
    await runs();
    await page.reload();
    await folder.waitFor();
    assert.equal(await folder.inputValue(), '/srv');
    await folder.fill('');
    await console.button('Save').nth(3).click();
    await until(async () => (await settings()).working_dir === null, { what: 'it is saved' });
  });

  test('how its health is looked at is changed, and the state says it until it is well', async () => {
    const health = page.getByRole('region', { name: 'Health', exact: true });
    const save = health.getByRole('button', { name: 'Save', exact: true });
    await health.getByLabel('How it is looked at').selectOption('a page is answered');
    await health.getByLabel('Path').fill('no slash');
    await save.click();
    await health.locator('.field .wrong').waitFor();
    await health.getByLabel('How it is looked at').selectOption('a command inside succeeds');
    await health.getByLabel('Command that looks').fill('test -e /root/well');
    await health.getByLabel('Seconds to get healthy in').fill('600');
    const sent = page.waitForRequest((asked) => asked.method() === 'PATCH');
    await save.click();
    assert.deepEqual((await sent).postDataJSON(), {
      health: { command: ['test', '-e', '/root/well'], grace: 600 },
    });
    await until(async () => (await settings()).health !== null, { what: 'it is saved' });
    // It restarts for the change before this one.
    await runs();
    await console.button('Stop').click();
    await console.button('Start').click();
    const state = page.locator('header .status');
    await state.getByText('Running, not healthy yet').waitFor({ timeout: 900_000 });
    assert.deepEqual(await console.look('dialog-remove-variable'), []);
    await container.sh('touch /root/well');
    await state.getByText('Running for').waitFor();
    await health.getByLabel('How it is looked at').selectOption('not at all');
    await save.click();
    await until(async () => (await settings()).health === null, { what: 'nothing is looked at' });
  });

  test('what it ran is listed, and it goes back to that', async () => {
    const body = { env: { STAGE: 'two' } };
    assert.equal((await request('PATCH', container.url, { token: container.token, body })).status, 200);
    await runs();
    await page.getByRole('link', { name: 'History' }).click();
    const all = page.getByRole('listitem').filter({ hasText: /^Revision \d+/ });
    await all.first().getByText('now', { exact: true }).waitFor();
    const many = Number(/\d+/.exec((await all.first().textContent()) ?? '')?.[0]);
    assert.deepEqual(await console.findings(), []);
    await all.nth(1).getByRole('button', { name: 'Go back to it' }).click();
    await page.getByRole('dialog', { name: `Go back to revision ${many - 1} of first?` }).waitFor();
    assert.deepEqual(await console.look('dialog-go-back'), []);
    await page.getByRole('dialog').getByRole('button', { name: 'Go back to it' }).click();
    await all.filter({ hasText: `Revision ${many + 1} now` }).waitFor({ timeout: 900_000 });
    assert.deepEqual((await settings()).env, {});
  });

  test('why the last change failed is told beside what it ran', async () => {
    const body = { env: { STAGE: 'three' }, health: { tcp: { port: 9 }, grace: 5 } };
    assert.equal((await request('PATCH', container.url, { token: container.token, body })).status, 200);
    const failed = page.locator('.foot', { hasText: 'The last change that failed' });
    await failed.locator('summary').click({ timeout: 900_000 });
    await failed
      .getByText(/nothing answers on port 9/)
      .first()
      .waitFor();
    await failed.getByText('The last answers of its check:').waitFor();
    await runs();
    await page
      .getByRole('listitem')
      .filter({ hasText: /^Revision \d+ now/ })
      .waitFor();
    assert.deepEqual(await console.findings(), []);
    await page.evaluate("for (const code of document.querySelectorAll('.foot code')) code.textContent = 'said'");
    assert.deepEqual(await console.look('container-history-failed'), []);
  });

  test('the browser complained about nothing', () => {
    assert.deepEqual(console.complaints, []);
  });
});

test('a line has the words that a shell gives it, and words have a line that gives them again', () => {
  assert.deepEqual(wordsOf(`sh -c 'a "b"'  "c 'd' \\"e\\"" f\\ g h'i'"j" ''`), [
    'sh',
    '-c',
    'a "b"',
    `c 'd' "e"`,
    'f g',
    'hij',
    '',
  ]);
  assert.deepEqual(wordsOf('  '), []);
  for (const open of ["a 'b", 'a "b', 'a \\']) assert.equal(wordsOf(open), undefined, open);
  for (const words of [['a'], ['sh', '-c', 'it\'s\ntwo lines \\ "x" $y'], ['', ' ', "'"], ['ü', '*', '#']])
    assert.deepEqual(wordsOf(lineOf(words)), words);
  assert.equal(lineOf(null), '');
});
