/** The console of a real platform in a real Chromium, for the administrator and for the user `ann`. */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:tls';
import type { Locator, Page } from 'playwright-core';
import { type BrowserPage, openBrowser } from '../clients/browser.ts';
import { skipWithout } from '../require.ts';
import type { Cleanup } from '../temp.ts';
import { findingsOf, type LookAt } from './accessibility.ts';
import { picturesOf } from './pictures.ts';
import { PASSWORDS, type Scheme, type ServedConsole, serveConsole, withoutServedConsole } from './served-console.ts';

/** Why there can be no console in a browser here; false: there can. */
export const withoutConsole = withoutServedConsole || skipWithout('chromium');

/** An open console, with what tests find and do in it. */
export interface OpenedConsole extends ServedConsole {
  readonly browser: BrowserPage;
  /** The browser's first page. */
  readonly page: Page;
  /** What the browser complained about in any tab of the console: refusals of the policy, and errors of scripts. */
  readonly complaints: string[];
  text(words: string | RegExp): Locator;
  button(name: string): Locator;
  /** The heading of the page. */
  heading(name: string): Locator;
  /** Enters name and password: of ann, or of the administrator. */
  logIn(who?: keyof typeof PASSWORDS): Promise<void>;
  /** Goes to an address of the console, and waits for its heading. */
  open(path: string, heading: string): Promise<void>;
  /** What axe-core, and `more`, find on the page as it is, and whether that scrolls sideways, in all looks and widths. */
  findings(more?: LookAt): Promise<string[]>;
  /** The same, and whether the page is as in the kept pictures of `screen`. */
  look(screen: string): Promise<string[]>;
}

/**
 * Starts a platform of its own, with `more` in its environment; containers have the tiny image. Ends with `cleanup`. The
 * browser comes by HTTP, or by HTTPS with a certificate that it trusts.
 */
export async function openConsole(
  cleanup: Cleanup,
  more: Record<string, string> = {},
  scheme: Scheme = 'http',
): Promise<OpenedConsole> {
  const served = await serveConsole(cleanup, more, scheme);
  const { origin } = served;
  const browser = await openBrowser(
    cleanup,
    'about:blank',
    scheme === 'http' ? [] : [await trusting(served.line.port)],
  );
  const { page } = browser;
  await page.setViewportSize({ width: 1280, height: 860 });
  const complaints: string[] = [];
  const complain = (tab: Page | null, what: string) => {
    // What pages of others are refused is theirs.
    if (tab?.url().startsWith(origin) === true) complaints.push(`${new URL(tab.url()).pathname}: ${what}`);
  };
  page.context().on('weberror', (failed) => complain(failed.page(), failed.error().message));
  page.context().on('console', (message) => {
    if (/Content Security|Trusted|Refused to/i.test(message.text())) complain(message.page(), message.text());
  });
  const pictures = picturesOf(page);
  cleanup.after(() => pictures.end());
  const button = (name: string) => page.getByRole('button', { name, exact: true });
  const heading = (name: string) => page.getByRole('heading', { level: 1, name, exact: true });
  return {
    browser,
    page,
    get platform() {
      return served.platform;
    },
    line: served.line,
    restart: (program) => served.restart(program),
    origin,
    complaints,
    text: (words) => page.getByText(words).first(),
    button,
    heading,
    logIn: async (who = 'ann') => {
      await page.getByLabel('Username').fill(who);
      await page.getByLabel('Password').fill(PASSWORDS[who]);
      await button('Log in').click();
    },
    open: async (path, name) => {
      await page.goto(`${origin}${path}`);
      await heading(name)
        .waitFor()
        .catch(async (cause) => {
          const shown = await page.locator('body').textContent();
          throw new Error(`${path} shows no ${name}, but ${page.url()}: ${shown}`, { cause });
        });
    },
    findings: (more) => findingsOf(browser, more),
    look: async (screen) => {
      await page.emulateMedia({ reducedMotion: 'reduce' });
      return findingsOf(browser, (how) => pictures.check(screen, how));
    },
  };
}

/** The flag of a Chromium that trusts the key at this port. It keeps files of such a site, as of any that is trusted. */
async function trusting(port: number): Promise<string> {
  const socket = connect({ port, host: '127.0.0.1', servername: 'troupe.localhost', rejectUnauthorized: false });
  await once(socket, 'secureConnect');
  const key = socket.getPeerX509Certificate()?.publicKey.export({ type: 'spki', format: 'der' });
  socket.destroy();
  if (key === undefined) throw new Error('The gateway has no certificate.');
  return `--ignore-certificate-errors-spki-list=${createHash('sha256').update(key).digest('base64')}`;
}
