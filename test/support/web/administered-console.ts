/** The console for whoever logs in there: the administrator, or `ann`; with what axe-core says of the present page. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Page } from 'playwright-core';
import { z } from 'zod';
import { type BrowserPage, visit } from '../clients/browser.ts';
import type { Cleanup } from '../temp.ts';
import { type OpenedConsole, openConsole } from './opened-console.ts';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const RULES = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];

/** An open console, and what tests do in it. */
export interface AdministeredConsole extends OpenedConsole {
  readonly page: Page;
  /** Goes to an address of the console, and waits for its heading. */
  open(path: string, heading: string): Promise<void>;
  /** Findings about the page as it is, in the light and the dark, wide and narrow; also that it scrolls sideways. */
  findings(): Promise<string[]>;
}

/** Starts a platform of its own, with `more` in its environment. It ends with `cleanup`. */
export async function openAdministeredConsole(
  cleanup: Cleanup,
  more: Record<string, string> = {},
): Promise<AdministeredConsole> {
  const opened = await openConsole(cleanup, more);
  const { browser, origin } = opened;
  const { page } = browser;
  return {
    ...opened,
    page,
    open: async (path, heading) => {
      await visit(page, `${origin}${path}`);
      await opened.heading(heading).waitFor();
    },
    findings: async () => {
      const all: string[] = [];
      for (const colorScheme of ['light', 'dark'] as const)
        for (const width of [1440, 390, 320]) {
          await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
          await page.setViewportSize({ width, height: 860 });
          all.push(...(await look(browser)).map((one) => `${colorScheme} ${width}: ${one}`));
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

async function look({ page, run }: BrowserPage): Promise<string[]> {
  // By the debugger: the policy of the page does not count for it.
  const devtools = await page.context().newCDPSession(page);
  await devtools.send('Runtime.evaluate', { expression: axe });
  await devtools.detach();
  return z.array(z.string()).parse(await run(LOOK, RULES));
}
