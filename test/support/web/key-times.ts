/** What typed keys wait for in a page: until their handlers begin, and until the page has been drawn after them. */
import type { Page } from 'playwright-core';
import { z } from 'zod';

/** Waits of many keys, ms. */
export interface Waits {
  readonly p50: number;
  readonly p99: number;
  readonly most: number;
}

/** Of the keys of one place. */
export interface KeyTimes {
  readonly keys: number;
  /** From the press to the first handler. */
  readonly delay: Waits;
  /** From the press to the next drawing: Event Timing, in steps of 8 ms; shorter ones than 16 count as 8. */
  readonly shown: Waits;
}

/** Event Timing tells of events from 16 ms on. */
const UNTOLD_MS = 8;
const WATCH = `(() => {
  const seen = (globalThis.keyTimes = { delays: [], shown: new Map() });
  addEventListener('keydown', (event) => seen.delays.push(performance.now() - event.timeStamp), { capture: true });
  new PerformanceObserver((list) => {
    for (const { interactionId, name, duration } of list.getEntries())
      if (interactionId > 0 && /^key|^input/.test(name))
        seen.shown.set(interactionId, Math.max(seen.shown.get(interactionId) ?? 0, duration));
  }).observe({ type: 'event', durationThreshold: 16, buffered: false });
})()`;
const TAKE = `(async () => {
  // The last key is drawn, too.
  for (const _ of [1, 2, 3]) await new Promise(requestAnimationFrame);
  const { delays, shown } = globalThis.keyTimes;
  const taken = { delays: delays.splice(0), shown: [...shown.values()] };
  shown.clear();
  return taken;
})()`;
const taken = z.object({ delays: z.array(z.number()), shown: z.array(z.number()) });

/** What was seen since the last look, ms. */
export type TakenTimes = z.output<typeof taken>;

/** Waits of keys that are typed from now on. Loading the page again ends it. */
export async function watchKeys(page: Page): Promise<{ take(): Promise<TakenTimes> }> {
  await page.evaluate(WATCH);
  return { take: async () => taken.parse(await page.evaluate(TAKE)) };
}

/** In one figure each. */
export function keyTimesOf(all: readonly TakenTimes[]): KeyTimes {
  const delays = all.flatMap((one) => one.delays);
  const told = all.flatMap((one) => one.shown);
  const untold = Array.from<number>({ length: Math.max(0, delays.length - told.length) }).fill(UNTOLD_MS);
  return { keys: delays.length, delay: waitsOf(delays), shown: waitsOf([...told, ...untold]) };
}

/** Zeros for none. */
export function waitsOf(values: readonly number[]): Waits {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (share: number) => Number((sorted[Math.ceil(sorted.length * share) - 1] ?? 0).toFixed(1));
  return { p50: at(0.5), p99: at(0.99), most: at(1) };
}
