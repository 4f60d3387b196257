/** The console of a real platform in a real Chromium, with one user. */
import assert from 'node:assert/strict';
import type { Locator } from 'playwright-core';
import { type BrowserPage, openBrowser } from '../clients/browser.ts';
import { startPlatform, troupe } from '../cluster/platform.ts';
import { testDatabase } from '../database/database.ts';
import { tinyImage } from '../engine/docker-client.ts';
import { type Cleanup, tempDir } from '../temp.ts';

/** The password of the user `ann`. */
export const PASSWORD = 'the password of ann';

/** An open console, with what tests find and do in it. */
export interface OpenedConsole {
  readonly browser: BrowserPage;
  /** `http://troupe.localhost:<port>`. */
  readonly origin: string;
  /** What the browser complained about: refusals of the policy, and errors of scripts. */
  readonly complaints: string[];
  text(words: string | RegExp): Locator;
  button(name: string): Locator;
  /** The heading of the page. */
  heading(name: string): Locator;
  /** Enters name and password. */
  logIn(): Promise<void>;
}

/** Starts a platform of its own. It ends with `cleanup`. */
export async function openConsole(cleanup: Cleanup): Promise<OpenedConsole> {
  const data = await tempDir(cleanup);
  const database = await testDatabase();
  cleanup.after(() => database.close());
  const env = {
    DATABASE_URL: database.url,
    DEFAULT_IMAGE: await tinyImage(),
    ADMIN_PASSWORD: 'the admin of this test',
  };
  const platform = await startPlatform({ data, env });
  cleanup.after(async () => {
    await platform.stop();
  });
  const added = await troupe(['users', 'add', 'ann', '--data', data], { env, input: `${PASSWORD}\n` });
  assert.equal(added.code, 0, added.stderr);
  assert.ok(platform.ready.urls.console !== null);
  const browser = await openBrowser(cleanup, 'about:blank');
  const { page } = browser;
  await page.setViewportSize({ width: 1280, height: 860 });
  const complaints: string[] = [];
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('console', (message) => {
    if (/Content Security|Trusted|Refused to/i.test(message.text())) complaints.push(message.text());
  });
  const button = (name: string) => page.getByRole('button', { name, exact: true });
  return {
    browser,
    origin: new URL(platform.ready.urls.console).origin,
    complaints,
    text: (words) => page.getByText(words).first(),
    button,
    heading: (name) => page.getByRole('heading', { level: 1, name, exact: true }),
    logIn: async () => {
      await page.getByLabel('Username').fill('ann');
      await page.getByLabel('Password').fill(PASSWORD);
      await button('Log in').click();
    },
  };
}
