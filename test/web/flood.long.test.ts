/**
 * A container that writes more than anybody reads: the page keeps a bounded part of it, whole and in order. The long form,
 * with times and memory, is `npm run soak -- console`.
 */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { z } from 'zod';
import { suiteCleanup } from '../support/suite.ts';
import { until } from '../support/until.ts';
import { type Flood, floodOf, keptLines, memoryOf } from '../support/web/flood.ts';
import { type OpenedConsole, openConsole, withoutConsole } from '../support/web/opened-console.ts';
import { makeContainer } from '../support/web/own-container.ts';

/** Of web/screens/container/log/lines.ts. */
const MOST_KEPT = 10_000;
const BURST = 12_000;
/** Lines are dropped by so many. */
const BLOCK = 100;
/** The line, its time, its text in one colour, and the characters of both; one more for all that is around the log. */
const NODES_OF_LINE = 7;
/**
 * The 10,000 kept lines take about 12 MB. A sixth of the second burst that is not given up would break this. Code that was
 * compiled meanwhile took 0.7 MB.
 */
const MOST_MORE = 2_000_000;
/** The number of the line at the upper end of what is in sight. */
const AT_TOP = `(() => {
  const box = document.querySelector('.log .scroll');
  const { top } = box.getBoundingClientRect();
  const inSight = (selector, from) =>
    [...from.querySelectorAll(selector)].find((one) => one.getBoundingClientRect().bottom > top + 1);
  return inSight('.line', inSight('.block', box)).dataset.n;
})()`;

/** Where the line is that the search is at, below the upper end of what is in sight. */
const HIT = `(() => {
  const [box, line] = ['.log .scroll', '.log .line.at'].map((one) => document.querySelector(one).getBoundingClientRect());
  return { top: line.top - box.top, bottom: line.bottom - box.top, height: box.height };
})()`;
const hitSchema = z.object({ top: z.number(), bottom: z.number(), height: z.number() });

/** What is scrolled besides: sideways, or in the log. */
const OTHERS_SCROLLED = `(() => {
  const box = document.querySelector('.log .scroll');
  const isMoved = (one) => one.scrollLeft > 0 || (one !== box && one.closest('.log') !== null && one.scrollTop > 0);
  return [...document.querySelectorAll('body *')].filter(isMoved).map((one) => one.className);
})()`;

describe('a log that floods the console', {
  skip: withoutConsole,
  timeout: 900_000,
}, () => {
  const cleanup = suiteCleanup();
  let console: OpenedConsole;
  let flood: Flood;
  let page: OpenedConsole['page'];

  before(async () => {
    console = await openConsole(cleanup);
    ({ page } = console);
    const container = await makeContainer(cleanup, console, 'flooding');
    flood = floodOf(cleanup, container);
    await console.open(`/containers/${container.id}`, 'Log in to troupe.localhost');
    await console.logIn();
    await page.locator('.log footer .status.ok').waitFor();
  });

  /** Writes a burst, and waits until its last line is shown. */
  const burstTo = async (last: number) => {
    await flood.burst(BURST);
    await until(async () => (await keptLines(page)).last === last, {
      what: `line ${last} is shown`,
      timeoutMs: 60_000,
    });
    return keptLines(page);
  };

  test('is kept to its last lines, none of which is missing, and takes no more memory with more of it', async () => {
    const devtools = await page.context().newCDPSession(page);
    const first = await burstTo(BURST);
    const before = await memoryOf(devtools);
    const second = await burstTo(2 * BURST);
    for (const { kept, gaps, repeats } of [first, second]) {
      assert.ok(kept <= MOST_KEPT && kept > MOST_KEPT - BLOCK, `${kept} lines are kept`);
      assert.deepEqual([...gaps, ...repeats], []);
    }
    const after = await memoryOf(devtools);
    const more = after.heap - before.heap;
    assert.ok(more < MOST_MORE, `${more} bytes more after as many lines again`);
    // A block may be begun or full.
    assert.ok(after.nodes - before.nodes < NODES_OF_LINE * BLOCK, `${before.nodes} nodes, then ${after.nodes}`);
    assert.ok(after.nodes < NODES_OF_LINE * MOST_KEPT, `${after.nodes} nodes`);
  });

  test('is searched to the line, and nothing but the log is scrolled', async () => {
    const find = page.locator('.log .find input');
    await find.fill(`flood ${2 * BURST - 5000} `);
    await page.locator('.log .find', { hasText: '1 of 1' }).waitFor();
    const at = page.locator('.log .line.at');
    await at.getByText(`flood ${2 * BURST - 5000}`).waitFor();
    assert.deepEqual(await page.evaluate(OTHERS_SCROLLED), []);
    await find.press('Escape');
    await page.locator('.log .fresh, .log .line.at').waitFor({ state: 'detached' });
    await page.evaluate("document.querySelector('.log .scroll').scrollTop = 1e9");
  });

  test('shows what is found in blocks that were never drawn, and keeps it in sight while they are', async () => {
    const find = page.locator('.log .find input');
    // Lines wrap, so a block turns out to be taller than it was thought to be. Near the beginning of one, and near its end.
    for (const back of [9000, 8013, 7026, 6039, 4052, 3065, 2078, 1091]) {
      const words = `flood ${2 * BURST - back} `;
      await find.fill(words);
      await page.locator('.log .line.at', { hasText: words }).waitFor({ state: 'attached' });
      let before: unknown;
      const stands = async () => {
        const now = JSON.stringify(await page.evaluate(HIT));
        const isSame = now === before;
        before = now;
        return isSame;
      };
      await until(stands, { what: 'it stands still', everyMs: 150 });
      const { top, bottom, height } = hitSchema.parse(await page.evaluate(HIT));
      assert.ok(top >= 0 && bottom <= height, `${words}is from ${top} to ${bottom} of ${height}`);
    }
    await find.press('Escape');
    await page.locator('.log .line.at').waitFor({ state: 'detached' });
    await page.evaluate("document.querySelector('.log .scroll').scrollTop = 1e9");
  });

  test('leaves whoever has scrolled up where they are', async () => {
    await page.evaluate("document.querySelector('.log .scroll').scrollTop -= 2000");
    const atTop = () => page.evaluate(AT_TOP);
    let before: unknown;
    const stands = async () => {
      const now = await atTop();
      const isSame = now === before;
      before = now;
      return isSame;
    };
    // Heights are known once the blocks are drawn.
    await until(stands, { what: 'it stands still', everyMs: 100 });
    await flood.burst(150);
    await page.getByRole('button', { name: /^150 new lines/ }).waitFor();
    assert.equal(await atTop(), before);
    await page.getByRole('button', { name: /^150 new lines/ }).click();
    await page.getByRole('button', { name: /new lines/ }).waitFor({ state: 'detached' });
    assert.equal((await keptLines(page)).last, 2 * BURST + 150);
    assert.deepEqual(console.complaints, []);
  });
});
