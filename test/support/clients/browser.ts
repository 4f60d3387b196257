/** A real browser with a security key of its own making (DevTools protocol, domain WebAuthn). */
import { type Browser, type CDPSession, chromium, type Page, type Request } from 'playwright-core';
import { z } from 'zod';
import { findProgram } from '../require.ts';
import type { Cleanup } from '../temp.ts';

/** What kind of key is plugged in. */
export interface VirtualKey {
  readonly protocol: 'ctap2' | 'u2f';
  readonly transport: 'usb' | 'internal';
  /** Whether it can check who is there. */
  readonly hasUserVerification: boolean;
}

/** A page of the browser, and its one security key. */
export interface BrowserPage {
  readonly page: Page;
  /** Calls a function of the page, given as source text, with one JSON value. Rejects with what it throws. */
  run(source: string, argument?: unknown): Promise<unknown>;
  /** Plugs a key in, which touches itself. Another one is taken out first. */
  plugIn(key: VirtualKey): Promise<void>;
  /** Whether the key's check of the user succeeds from now on. */
  setUserVerified(verified: boolean): Promise<void>;
}

/** Opens `url` in a Chromium that ends with `t`. `args`: more of its own flags. */
export async function openBrowser(t: Cleanup, url: string, args: readonly string[] = []): Promise<BrowserPage> {
  const browser: Browser = await chromium.launch({
    executablePath: findProgram('chromium') ?? 'chromium',
    // Without a sandbox of its own: it cannot make one for root, and it sees no page but ours.
    args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-background-networking', '--no-proxy-server', ...args],
  });
  t.after(() => browser.close());
  // A context of its own, in which a test may open more pages.
  const context = await browser.newContext();
  // Machines that run tests are busy.
  context.setDefaultTimeout(60_000);
  const page = await context.newPage();
  await visit(page, url);
  const devtools: CDPSession = await page.context().newCDPSession(page);
  await devtools.send('WebAuthn.enable');
  let authenticatorId: string | undefined;
  return {
    page,
    run: (source, argument = null) => page.evaluate(`(${source})(${JSON.stringify(argument)})`),
    plugIn: async (key) => {
      // Again after the page was at another site, whose process forgot it.
      await devtools.send('WebAuthn.enable');
      if (authenticatorId !== undefined)
        await devtools.send('WebAuthn.removeVirtualAuthenticator', { authenticatorId });
      const options = { ...key, hasResidentKey: false, automaticPresenceSimulation: true, isUserVerified: true };
      const added = await devtools.send('WebAuthn.addVirtualAuthenticator', { options });
      authenticatorId = z.object({ authenticatorId: z.string() }).parse(added).authenticatorId;
    },
    setUserVerified: async (isUserVerified) => {
      if (authenticatorId === undefined) throw new Error('no key is plugged in');
      await devtools.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified });
    },
  };
}

/**
 * Leads `page` to `url`: again where a container's network came or went meanwhile, as a browser with a window does by
 * itself, and also when that cost the page a style sheet or a script.
 */
export async function visit(page: Page, url: string): Promise<void> {
  for (let left = 10; ; left--) {
    const lost: string[] = [];
    const onFailed = (request: Request) => {
      const isPart = ['stylesheet', 'script'].includes(request.resourceType());
      if (isPart && request.failure()?.errorText === 'net::ERR_NETWORK_CHANGED') lost.push(request.url());
    };
    page.on('requestfailed', onFailed);
    try {
      await page.goto(url);
      if (lost.length === 0) return;
      if (left === 0) throw new Error(`${url} lacks ${lost.join(', ')}`);
    } catch (error) {
      if (left === 0 || !/ERR_NETWORK_CHANGED|chrome-error:/.test(String(error))) throw error;
    } finally {
      page.off('requestfailed', onFailed);
    }
  }
}
