/** The console of a real platform in a real Chromium, with one user. */
import assert from 'node:assert/strict';
import type { Locator } from 'playwright-core';
import { type BrowserPage, openBrowser } from '../clients/browser.ts';
import { type RunningPlatform, startPlatform, troupe } from '../cluster/platform.ts';
import { testDatabase } from '../database/database.ts';
import { tinyImage } from '../engine/docker-client.ts';
import { type Cleanup, tempDir } from '../temp.ts';

/** The password of the user `ann`. */
export const PASSWORD = 'the password of ann';

/** Those of all who may log in. */
const PASSWORDS = { ann: PASSWORD, admin: 'the admin of this test' } as const;

/** An open console, with what tests find and do in it. */
export interface OpenedConsole {
  readonly browser: BrowserPage;
  readonly platform: RunningPlatform;
  /** `http://troupe.localhost:<port>`. */
  readonly origin: string;
  /** What the browser complained about: refusals of the policy, and errors of scripts. */
  readonly complaints: string[];
  text(words: string | RegExp): Locator;
  button(name: string): Locator;
  /** The heading of the page. */
  heading(name: string): Locator;
  /** Enters name and password: of ann, or of the administrator. */
  logIn(who?: keyof typeof PASSWORDS): Promise<void>;
}

/** Starts a platform of its own, with `more` in its environment. It ends with `cleanup`. */
export async function openConsole(cleanup: Cleanup, more: Record<string, string> = {}): Promise<OpenedConsole> {
  const data = await tempDir(cleanup);
  const database = await testDatabase();
  cleanup.after(() => database.close());
  const env = {
    DATABASE_URL: database.url,
    DEFAULT_IMAGE: await tinyImage(),
    ADMIN_PASSWORD: PASSWORDS.admin,
    ...more,
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
    platform,
    origin: new URL(platform.ready.urls.console).origin,
    complaints,
    text: (words) => page.getByText(words).first(),
    button,
    heading: (name) => page.getByRole('heading', { level: 1, name, exact: true }),
    logIn: async (who = 'ann') => {
      await page.getByLabel('Username').fill(who);
      await page.getByLabel('Password').fill(PASSWORDS[who]);
      await button('Log in').click();
    },
  };
}
