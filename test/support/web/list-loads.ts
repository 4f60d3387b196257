/** How long the list of containers takes from the navigation until it can be used, by somebody who is logged in. */
import { loadavg } from 'node:os';
import { pause } from '../pause.ts';
import type { Cleanup } from '../temp.ts';
import { type Waits, waitsOf } from './key-times.ts';
import { openConsole } from './opened-console.ts';
import { makeContainer } from './own-container.ts';

/** What a load took, ms. */
export interface ListLoads {
  /** With nothing of the site in the browser but its cookie. */
  readonly cold: Waits;
  /** With the files of the first load. */
  readonly warm: Waits;
  readonly bytes: { readonly cold: number; readonly warm: number };
  /** Of the machine. */
  readonly load: number;
}

/**
 * Since the navigation began: the time at which the container and what is to be done with it are drawn. The frame after next
 * has them on the screen.
 */
const USABLE = `new Promise((resolve) => {
  const look = () => {
    const card = document.querySelector('article[aria-label="usable"], tr[aria-label="usable"]');
    if (card?.querySelector('button, a') == null) return requestAnimationFrame(look);
    requestAnimationFrame(() => setTimeout(() => resolve(performance.now()), 0));
  };
  look();
})`;
const BYTES = `performance.getEntries().reduce((sum, { transferSize = 0 }) => sum + transferSize, 0)`;

/** Between a window's opening and the navigation: its own pages load meanwhile, and what the tab showed before ends, ms. */
const SETTLED_MS = 2000;

/** Loads the list so many times each way, through TLS on loopback. */
export async function listLoads(t: Cleanup, times: number): Promise<ListLoads> {
  const console = await openConsole(t, {}, 'https');
  const { page } = console;
  await makeContainer(t, console, 'usable');
  await console.open('/containers', 'Log in to troupe.localhost');
  await console.logIn();
  await page.getByRole('article', { name: 'usable' }).waitFor();
  const state = await page.context().storageState();
  const cold: number[] = [];
  const warm: number[] = [];
  const bytes = { cold: 0, warm: 0 };
  for (let n = 0; n < times; n++) {
    // Without files, connections and names that were looked up.
    const context = await page.context().browser()?.newContext({ storageState: state });
    const tab = await context?.newPage();
    if (context === undefined || tab === undefined) throw new Error('The page has no browser.');
    for (const [how, taken] of [
      ['cold', cold],
      ['warm', warm],
    ] as const) {
      await tab.goto('about:blank');
      await pause(SETTLED_MS, 'pace');
      await tab.goto(`${console.origin}/containers`, { waitUntil: 'commit' });
      taken.push(Number(await tab.evaluate(USABLE)));
      bytes[how] = Number(await tab.evaluate(BYTES));
    }
    await context.close();
  }
  return { cold: waitsOf(cold), warm: waitsOf(warm), bytes, load: loadavg()[0] ?? 0 };
}
