/** The page of a container whose log is flooded, while somebody types into it: times, memory, and what is left out. */
import { loadavg } from 'node:os';
import type { CDPSession, Page } from 'playwright-core';
import { perlImage } from '../engine/docker-client.ts';
import { residentMb } from '../process-state.ts';
import { processorMs } from '../processor.ts';
import type { Cleanup } from '../temp.ts';
import { until } from '../until.ts';
import { floodOf, type KeptLines, keptLines, memoryOf, type PageMemory } from './flood.ts';
import { type KeyTimes, keyTimesOf, type TakenTimes, watchKeys } from './key-times.ts';
import { type OpenedConsole, openConsole } from './opened-console.ts';
import { makeContainer } from './own-container.ts';

/** Of a minute. */
export interface FloodMinute extends PageMemory {
  readonly at: number;
  /** Number of the last line that is shown, and of all that are. */
  readonly last: number;
  readonly kept: number;
  /** Memory of the page's process, MiB. */
  readonly resident: number;
  /** Processor time of the page's process and of the platform, of one processor. */
  readonly renderer: number;
  readonly platform: number;
  /** Of the machine. */
  readonly load: number;
}

/** Of the whole time. */
export interface FloodReport {
  readonly minutes: readonly FloodMinute[];
  /** Places where lines are missing, and what the browser complained about. */
  readonly faults: readonly string[];
  /** Places where lines come again. */
  readonly repeats: readonly string[];
  readonly filter: KeyTimes;
  readonly terminal: KeyTimes;
}

const PER_SECOND = 200;
const MINUTE_MS = 60_000;
/** Between two keys of somebody who types fast. */
const BETWEEN_MS = 90;
/** In every line, in every tenth, in about one in a hundred, in none. */
const WORDS = ['mozilla', 'warn', 'items/42', 'nowhere'];

/** Runs for so many minutes, and tells each as it ends. */
export async function floodTrial(
  t: Cleanup,
  minutes: number,
  onMinute: (minute: FloodMinute) => void,
): Promise<FloodReport> {
  const console = await openConsole(t, { DEFAULT_IMAGE: await perlImage() }, 'https');
  const { page } = console;
  const container = await makeContainer(t, console, 'flooding');
  await console.open(`/containers/${container.id}`, 'Log in to troupe.localhost');
  await console.logIn();
  await page.locator('.terminal-pane .status.ok').first().waitFor();
  await page.locator('.log footer .status.ok').waitFor();
  await floodOf(t, container).flow(PER_SECOND);
  await until(async () => (await keptLines(page)).kept > 0, { what: 'the log begins' });
  const typist = await typistAt(page);
  const whole = new WholeLog();
  const look = await lookAt(console);
  const told: FloodMinute[] = [];
  const begun = performance.now();
  while (told.length < minutes) {
    const ends = begun + (told.length + 1) * MINUTE_MS;
    while (performance.now() < ends) {
      await typist.round();
      // Far more often than lines are dropped.
      whole.note(await keptLines(page));
    }
    const kept = await keptLines(page);
    whole.note(kept);
    const minute = {
      at: told.length + 1,
      last: kept.last,
      kept: kept.kept,
      load: loadavg()[0] ?? 0,
      ...(await look()),
    };
    told.push(minute);
    onMinute(minute);
  }
  return {
    minutes: told,
    faults: [...whole.gaps, ...console.complaints],
    repeats: [...whole.repeats],
    ...typist.times(),
  };
}

/** Lines that were kept at several times, laid over each other. */
class WholeLog {
  readonly gaps = new Set<string>();
  readonly repeats = new Set<string>();
  #last = 0;

  note({ first, last, gaps, repeats }: KeptLines): void {
    for (const gap of gaps) this.gaps.add(gap);
    for (const repeat of repeats) this.repeats.add(repeat);
    if (first > this.#last + 1) this.gaps.add(`${first} after ${this.#last}`);
    this.#last = Math.max(this.#last, last);
  }
}

/** Somebody who looks for words in the log and types into the shell. */
async function typistAt(page: Page) {
  const keys = await watchKeys(page);
  const filter: TakenTimes[] = [];
  const terminal: TakenTimes[] = [];
  // By selectors: a search by labels takes the page's time for itself.
  const find = page.locator('.log .find input');
  const fresh = page.locator('.log .fresh');
  let n = 0;
  return {
    times: () => ({ filter: keyTimesOf(filter), terminal: keyTimesOf(terminal) }),
    async round() {
      const word = WORDS[n++ % WORDS.length] ?? '';
      await find.focus();
      await page.keyboard.type(word, { delay: BETWEEN_MS });
      for (const key of ['Enter', 'Enter', 'Shift+Enter', 'Backspace'])
        await page.keyboard.press(key, { delay: BETWEEN_MS });
      await page.keyboard.press('Escape');
      filter.push(await keys.take());
      if ((await fresh.count()) > 0) await fresh.click();
      await page.locator('.xterm-helper-textarea').focus();
      await page.keyboard.type(`echo round ${n}\n`, { delay: BETWEEN_MS });
      terminal.push(await keys.take());
    },
  };
}

/** Looks at the page's memory and at the processes, once a minute. */
async function lookAt({ page, platform }: OpenedConsole) {
  const devtools: CDPSession = await page.context().newCDPSession(page);
  const browser = await page.context().browser()?.newBrowserCDPSession();
  if (browser === undefined) throw new Error('The page has no browser.');
  const pid = platform.child.pid ?? 0;
  // Of several the one that has worked most: the others wait for pages to come.
  const rendererNow = async () => {
    const { processInfo } = await browser.send('SystemInfo.getProcessInfo');
    const all = processInfo.filter(({ type }) => type === 'renderer').map(({ id }) => ({ id, ms: processorMs(id) }));
    const [first] = all.toSorted((a, b) => b.ms - a.ms);
    if (first === undefined) throw new Error('The browser has no page.');
    return first;
  };
  const now = async () => ({ renderer: await rendererNow(), platform: processorMs(pid), at: performance.now() });
  let before = await now();
  return async () => {
    const after = await now();
    const passed = after.at - before.at;
    const share = (ms: number) => Number((ms / passed).toFixed(2));
    const processors = {
      renderer: share(after.renderer.ms - before.renderer.ms),
      platform: share(after.platform - before.platform),
    };
    const memory = await memoryOf(devtools);
    before = await now();
    return { ...processors, ...memory, resident: Math.round(residentMb(after.renderer.id)) };
  };
}
