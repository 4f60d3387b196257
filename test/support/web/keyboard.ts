/** The keyboard of a person who has no mouse: where the focus is, what it is called, and the way of Tab over a page. */
import assert from 'node:assert/strict';
import type { Page } from 'playwright-core';
import { z } from 'zod';

/** What has the focus. */
export interface Stop {
  /** As the browser tells it to a screen reader. */
  readonly name: string;
  readonly role: string;
  /** What else is said of it. */
  readonly description: string;
}

/** Keys of an open page. */
export interface Keyboard {
  focused(): Promise<Stop>;
  /** Goes on with Tab, or with Shift+Tab, to what has this name, or begins with it. */
  reach(name: string | RegExp, key?: 'Tab' | 'Shift+Tab'): Promise<void>;
  /** Reaches a field and types. */
  fill(name: string, text: string): Promise<void>;
  /** Reaches it and presses Enter. */
  choose(name: string | RegExp, key?: 'Tab' | 'Shift+Tab'): Promise<void>;
  press(key: string): Promise<void>;
  type(text: string): Promise<void>;
  /** What is wrong on a whole circle with Tab over the page, or over the dialog that is open. Empty: nothing. */
  faults(): Promise<string[]>;
}

/** More stops than any page has. */
const MOST_STOPS = 150;

/** What belongs to the circle of the present page, and has not been seen. */
const BEGIN = `(() => {
  globalThis.seenStops = new Set();
  globalThis.lastStop = undefined;
  globalThis.looksOf = (one) => {
    const looks = [];
    for (let at = one, up = 0; at !== null && up < 4; at = at.parentElement, up++) {
      const { outlineStyle, outlineWidth, outlineColor, boxShadow, borderColor, backgroundColor, clipPath } =
        getComputedStyle(at);
      const outline = outlineStyle === 'none' ? '' : [outlineStyle, outlineWidth, outlineColor].join(' ');
      const after = getComputedStyle(at, '::after');
      const around = after.content === 'none' ? '' : after.outlineStyle;
      looks.push([outline, around, boxShadow, borderColor, backgroundColor, clipPath].join('; '));
    }
    return looks.join(' | ');
  };
})()`;
/** Looks at what has the focus now, and at what had it before. */
const LOOK = `(() => {
  const one = document.activeElement;
  const before = globalThis.lastStop;
  // Day, hour and the others of a time are stops of their own in one field.
  if (before?.one === one && one.type === 'datetime-local') return { isAgain: false };
  const unseen = before !== undefined && before.one.isConnected && looksOf(before.one) === before.looks
    ? before.one.outerHTML.slice(0, 160) : undefined;
  if (one === document.body || one === null) {
    globalThis.lastStop = undefined;
    return { isAgain: false, unseen };
  }
  const isAgain = seenStops.has(one);
  seenStops.add(one);
  globalThis.lastStop = { one, looks: looksOf(one) };
  const { left, top, width, height } = one.getBoundingClientRect();
  const there = document.elementFromPoint(left + width / 2, top + height / 2);
  const isHidden = there === null || !(one.contains(there) || there.contains(one) || there.closest('label')?.contains(one));
  return { isAgain, unseen, html: one.outerHTML.slice(0, 160), isHidden };
})()`;
/** What Tab should have reached and did not. */
const MISSED = `(() => {
  const root = document.querySelector('dialog[open]') ?? document.body;
  const all = [...root.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex]')];
  const isStop = (one) => one.tabIndex >= 0 && !one.disabled && one.checkVisibility({ visibilityProperty: true });
  const others = (one) => all.filter(({ type, name }) => type === 'radio' && name === one.name);
  return all
    .filter((one) => isStop(one) && !seenStops.has(one))
    .filter((one) => one.type !== 'radio' || !others(one).some((other) => seenStops.has(other)))
    .map(({ outerHTML }) => outerHTML.slice(0, 160));
})()`;

const lookSchema = z.object({
  isAgain: z.boolean(),
  unseen: z.string().optional(),
  html: z.string().optional(),
  isHidden: z.boolean().optional(),
});
const treeSchema = z.object({
  nodes: z.array(
    z.object({
      name: z.object({ value: z.string() }).optional(),
      role: z.object({ value: z.string() }).optional(),
      description: z.object({ value: z.string() }).optional(),
    }),
  ),
});

/** The keyboard of `page`. */
export async function keyboardOf(page: Page): Promise<Keyboard> {
  const { keyboard } = page;
  const devtools = await page.context().newCDPSession(page);
  const focused = async (): Promise<Stop> => {
    const { result } = await devtools.send('Runtime.evaluate', { expression: 'document.activeElement' });
    const { objectId } = result;
    assert.ok(objectId !== undefined, 'the page has no focus');
    const tree = await devtools.send('Accessibility.getPartialAXTree', { objectId, fetchRelatives: false });
    const [node] = treeSchema.parse(tree).nodes;
    return {
      name: (node?.name?.value ?? '').trim(),
      role: node?.role?.value ?? '',
      description: (node?.description?.value ?? '').trim(),
    };
  };
  const reach: Keyboard['reach'] = async (name, key = 'Tab') => {
    const passed: string[] = [];
    while (passed.length < MOST_STOPS) {
      await keyboard.press(key);
      const now = (await focused()).name;
      if (typeof name === 'string' ? now.startsWith(name) : name.test(now)) return;
      passed.push(now);
    }
    assert.fail(`${name} is not among ${passed.join(', ')}`);
  };
  /** What is wrong with where the focus is, and with what it has left; undefined at the end of the circle. */
  const faultsHere = async (): Promise<string[] | undefined> => {
    const { isAgain, unseen, html, isHidden } = lookSchema.parse(await page.evaluate(LOOK));
    const before = unseen === undefined ? [] : [`looks the same without the focus: ${unseen}`];
    if (isAgain) return before.length === 0 ? undefined : before;
    if (html === undefined) return before;
    const { name } = await focused();
    return [
      ...before,
      ...(name === '' ? [`has no name: ${html}`] : []),
      ...(isHidden === true ? [`is not in sight: ${html}`] : []),
    ];
  };
  return {
    focused,
    reach,
    fill: async (name, text) => {
      await reach(name);
      await keyboard.type(text);
    },
    choose: async (name, key) => {
      await reach(name, key);
      await keyboard.press('Enter');
    },
    press: (key) => keyboard.press(key),
    type: (text) => keyboard.type(text),
    faults: async () => {
      await page.evaluate(BEGIN);
      const all: string[] = [];
      for (let stops = 0; stops < MOST_STOPS; stops++) {
        await keyboard.press('Tab');
        const here = await faultsHere();
        if (here === undefined) {
          const missed = z.array(z.string()).parse(await page.evaluate(MISSED));
          return [...all, ...missed.map((html) => `is not reached: ${html}`)];
        }
        all.push(...here);
      }
      return [...all, `the circle does not end after ${MOST_STOPS} stops`];
    },
  };
}
