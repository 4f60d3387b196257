/** A real browser with a security key of its own making (DevTools protocol, domain WebAuthn). */
import type { CDPSession, Page } from 'playwright-core';
import { z } from 'zod';
import type { Cleanup } from '../temp.ts';
import { launchChromium } from './chromium.ts';

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
  const browser = await launchChromium(t, args);
  // A context of its own, in which a test may open more pages.
  const context = await browser.newContext();
  // Machines that run tests are busy.
  context.setDefaultTimeout(60_000);
  const page = await context.newPage();
  await page.goto(url);
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
