/** The palette, and the approval of a command line's login: the real platform and a real Chromium. */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { z } from 'zod';
import { matchName } from '../../web/palette/match.ts';
import { found, sorted, sortOf } from '../../web/parts/table-rules.ts';
import { mapOf, placed } from '../../web/screens/platform/map-rules.ts';
import { amountOf } from '../../web/screens/platform/quantity.ts';
import { request } from '../support/cluster/platform.ts';
import { suiteCleanup } from '../support/suite.ts';
import { type OpenedConsole, openConsole, withoutConsole } from '../support/web/opened-console.ts';

describe('the palette and the approval of logins', {
  skip: withoutConsole,
  timeout: 900_000,
}, () => {
  const cleanup = suiteCleanup();
  let console: OpenedConsole;
  let page: OpenedConsole['page'];

  before(async () => {
    console = await openConsole(cleanup);
    ({ page } = console);
  });

  const palette = () => page.getByRole('dialog', { name: 'Go to or do something' });
  const heading = (name: string) => page.getByRole('heading', { level: 1, name, exact: true });
  /** Opens the palette and types. */
  const ask = async (text: string) => {
    await page.keyboard.press('Control+k');
    await palette().waitFor();
    await page.keyboard.type(text);
  };

  test('a login is approved by a button, after the login that it was opened for, and never by a visit', async () => {
    const { auth } = console.platform.ready.urls;
    const begun = await request('POST', `${auth}/api/device`, { body: { name: 'the laptop of ann' } });
    const { device_code, user_code } = z.object({ device_code: z.string(), user_code: z.string() }).parse(begun.json);
    const status = async () => {
      const { json } = await request('POST', `${auth}/api/device/token`, { body: { device_code } });
      return z.object({ status: z.string() }).parse(json).status;
    };
    await console.open(`/device#${user_code}`, 'Log in to troupe.localhost');
    await console.logIn('ann');
    await page.getByLabel('Code').waitFor();
    assert.equal(await page.getByLabel('Code').inputValue(), user_code);
    assert.deepEqual(await console.findings(), []);
    assert.match(await status(), /pending|slow_down/);
    await page.getByLabel('Code').press('Enter');
    await page.getByText('the laptop of ann').waitFor();
    await page.getByText('127.0.0.1').waitFor();
    assert.deepEqual(await console.findings(), []);
    assert.match(await status(), /pending|slow_down/);
    await console.button('Approve').click();
    await page.getByText(/Approved/).waitFor();
    assert.equal(await status(), 'approved');
  });

  test('it opens by its key, finds by letters, and goes where its line leads', async () => {
    await console.open('/containers', 'Containers');
    await ask('');
    assert.deepEqual(await console.look('palette'), []);
    await page.keyboard.type('tokn');
    assert.equal(await palette().getByRole('option', { selected: true }).textContent(), 'API tokensGT');
    await page.keyboard.press('Enter');
    await heading('API tokens').waitFor();
    await ask('no such thing at all');
    await palette().getByText('Nothing is called').waitFor();
    await page.keyboard.press('Escape');
    await palette().waitFor({ state: 'detached' });
    await heading('API tokens').waitFor();
  });

  test('administration is not in it for others', async () => {
    await ask('audit trail');
    await palette().getByText('Nothing is called').waitFor();
    await page.keyboard.press('Escape');
  });

  test('single letters go to places, not while one types, and can be switched off', async () => {
    await page.keyboard.press('g');
    await page.keyboard.press('k');
    await heading('SSH keys').waitFor();
    await page.keyboard.press('c');
    await heading('New container').waitFor();
    await page.getByLabel('Name', { exact: true }).fill('');
    await page.keyboard.type('gc');
    assert.equal(await page.getByLabel('Name', { exact: true }).inputValue(), 'gc');
    await ask('single');
    await page.keyboard.press('Enter');
    await page.getByText('Single-letter keys are off').waitFor();
    await console.open('/keys', 'SSH keys');
    await page.keyboard.press('c');
    await ask('single');
    await page.keyboard.press('Enter');
    await page.getByText('Single-letter keys are on').waitFor();
    await heading('SSH keys').waitFor();
  });

  test('it does things: the theme, and the logout', async () => {
    await ask('dark theme');
    await page.keyboard.press('Enter');
    await page.locator('html[data-theme=dark]').waitFor();
    await ask('log out');
    await page.keyboard.press('Enter');
    await heading('Log in to troupe.localhost').waitFor();
  });

  test('no policy was violated, and no script failed', () => {
    assert.deepEqual(console.complaints, []);
  });
});

test('names fit by their words, by parts of them, and by letters that stand near each other', () => {
  const fits = (name: string, text: string) => matchName(name, text)?.score;
  assert.deepEqual([...(matchName('Stop worker', 'wor')?.at ?? [])], [5, 6, 7]);
  assert.ok((fits('Stop worker', 'wor') ?? 0) > (fits('Change your password', 'wor') ?? 0));
  assert.ok((fits('API tokens', 'tkn') ?? 0) > 0);
  assert.equal(fits('Stop worker', 'stop api'), undefined);
  assert.equal(fits('a thing whose letters are far from each other', 'ahr'), undefined);
});

test('rows are found by a word in any column, or in the one that is named, and sorted by value', () => {
  const rows = [
    { name: 'worker 10', owner: 'mira', cpu: 9 },
    { name: 'worker 9', owner: 'jonas', cpu: 10 },
    { name: 'mira', owner: 'jonas', cpu: 1 },
  ];
  const columns = [
    { id: 'name', of: (row: (typeof rows)[number]) => row.name },
    { id: 'owner', of: (row: (typeof rows)[number]) => row.owner },
    { id: 'cpu', of: (row: (typeof rows)[number]) => row.cpu },
  ];
  const names = (of: readonly (typeof rows)[number][]) => of.map(({ name }) => name);
  assert.deepEqual(names(found(rows, columns, 'MIRA')), ['worker 10', 'mira']);
  assert.deepEqual(names(found(rows, columns, 'owner:mira')), ['worker 10']);
  assert.deepEqual(names(found(rows, columns, 'owner:jonas worker')), ['worker 9']);
  assert.deepEqual(names(sorted(rows, columns, sortOf('name'))), ['mira', 'worker 9', 'worker 10']);
  assert.deepEqual(names(sorted(rows, columns, sortOf('-cpu'))), ['worker 9', 'worker 10', 'mira']);
  assert.deepEqual(names(sorted(rows, columns, sortOf(''))), names(rows));
});

test('quantities of machines are amounts', () => {
  assert.deepEqual(['1250m', '2', '24690000Ki', '1Gi', 'nonsense'].map(amountOf), [
    1.25,
    2,
    24_690_000 * 1024,
    1024 ** 3,
    0,
  ]);
});

test('the map draws routes in the gateway and containers as one, and counts a service’s requests once', () => {
  const node = (id: string, status = 'ok') => ({ id, kind: id.slice(0, id.indexOf(':')), status });
  const http = (from: string, to: string, total: number) => ({
    from,
    to,
    kind: 'http',
    traffic: { unit: 'requests', total },
  });
  const { parts, lines } = mapOf({
    timestamp: '2026-11-25T19:00:00.000Z',
    nodes: [
      ...['service:gateway', 'service:auth', 'route:1', 'route:2', 'mapping:1', 'actor:auth'].map((id) => node(id)),
      ...[node('storage:postgresql', 'down'), node('container:a', 'failed'), node('container:b', 'running')],
    ],
    edges: [
      { from: 'service:gateway', to: 'route:1', kind: 'matches' },
      http('route:1', 'service:auth', 9),
      http('route:2', 'service:auth', 9),
      http('mapping:1', 'container:a', 4),
      http('mapping:1', 'container:b', 5),
      { from: 'service:auth', to: 'actor:auth', kind: 'supervises' },
    ],
  });
  assert.deepEqual(
    parts.map(({ id, rank, health }) => [id, rank, health]),
    [
      ['clients', 0, 'ok'],
      ['service:gateway', 1, 'ok'],
      ['service:auth', 2, 'ok'],
      ['storage:postgresql', 3, 'bad'],
      ['containers', 4, 'ok'],
    ],
  );
  assert.deepEqual(
    lines.map(({ from, to, total }) => [from, to, total]),
    [
      ['clients', 'service:gateway', undefined],
      ['service:gateway', 'service:auth', 9],
      ['service:gateway', 'containers', 9],
    ],
  );
  assert.equal(new Set(placed(parts).boxes.map(({ x }) => x)).size, 5);
});
