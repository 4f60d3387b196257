/** The console of a real platform in a real Chromium, for whoever logs in there first: the administrator, or `ann`. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Locator, Page } from 'playwright-core';
import { z } from 'zod';
import { openBrowser, visit } from '../clients/browser.ts';
import { type RunningPlatform, startPlatform, troupe } from '../cluster/platform.ts';
import { testDatabase } from '../database/database.ts';
import { tinyImage } from '../engine/docker-client.ts';
import { type Cleanup, tempDir } from '../temp.ts';

/** Passwords of the two. */
export const PASSWORDS = { admin: 'the admin of this test', ann: 'the password of ann' } as const;

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const RULES = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];

/** An open console, and what tests do in it. */
export interface AdministeredConsole {
  readonly page: Page;
  readonly platform: RunningPlatform;
  /** What the browser refused by the policy, and errors of scripts. */
  readonly complaints: readonly string[];
  /** Goes to an address of the console, and waits for its heading. */
  open(path: string, heading: string): Promise<void>;
  /** Enters name and password. */
  logIn(who: keyof typeof PASSWORDS): Promise<void>;
  button(name: string): Locator;
  /** Accessibility findings of the page as it is, in the light and the dark, wide and narrow; nothing scrolls sideways. */
  findings(): Promise<string[]>;
}

/** Starts a platform of its own. It ends with `cleanup`. */
export async function openAdministeredConsole(cleanup: Cleanup): Promise<AdministeredConsole> {
  const data = await tempDir(cleanup);
  const database = await testDatabase();
  cleanup.after(() => database.close());
  const env = { DATABASE_URL: database.url, DEFAULT_IMAGE: await tinyImage(), ADMIN_PASSWORD: PASSWORDS.admin };
  const platform = await startPlatform({ data, env });
  cleanup.after(async () => void (await platform.stop()));
  const added = await troupe(['users', 'add', 'ann', '--data', data], { env, input: `${PASSWORDS.ann}\n` });
  assert.equal(added.code, 0, added.stderr);
  assert.ok(platform.ready.urls.console !== null);
  const { origin } = new URL(platform.ready.urls.console);
  const { page, run } = await openBrowser(cleanup, 'about:blank');
  const complaints: string[] = [];
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('console', (message) => {
    if (/Content Security|Trusted|Refused to/i.test(message.text())) complaints.push(message.text());
  });
  const button = (name: string) => page.getByRole('button', { name, exact: true });
  return {
    page,
    platform,
    complaints,
    button,
    open: async (path, heading) => {
      await visit(page, `${origin}${path}`);
      await page.getByRole('heading', { level: 1, name: heading, exact: true }).waitFor();
    },
    logIn: async (who) => {
      await page.getByLabel('Username').fill(who);
      await page.getByLabel('Password').fill(PASSWORDS[who]);
      await button('Log in').click();
    },
    findings: async () => {
      const all: string[] = [];
      for (const colorScheme of ['light', 'dark'] as const)
        for (const width of [1440, 390, 320]) {
          await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
          await page.setViewportSize({ width, height: 860 });
          all.push(...(await look(page, run)).map((one) => `${colorScheme} ${width}: ${one}`));
        }
      await page.setViewportSize({ width: 1280, height: 860 });
      return all;
    },
  };
}

const LOOK = `async (values) => {
  const { violations } = await axe.run(document, { runOnly: { type: 'tag', values } });
  const found = violations.map(({ id, nodes }) => id + ' ' + nodes.map(({ html }) => html.slice(0, 200)).join(' | '));
  return document.documentElement.scrollWidth > innerWidth ? [...found, 'it scrolls sideways'] : found;
}`;

async function look(page: Page, run: (source: string, argument?: unknown) => Promise<unknown>): Promise<string[]> {
  // By the debugger, which the policy of the page does not concern.
  const devtools = await page.context().newCDPSession(page);
  await devtools.send('Runtime.evaluate', { expression: axe });
  await devtools.detach();
  return z.array(z.string()).parse(await run(LOOK, RULES));
}
