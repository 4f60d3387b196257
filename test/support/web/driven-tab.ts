/** What a person does in a tab that is driven: finds things by what they are called, presses them, types. */
import { z } from 'zod';
import { until } from '../until.ts';
import type { DrivenBrowser } from './webdriver.ts';

/** What one looks for, and where its name comes from: what a screen reader says. */
const KINDS = {
  button: 'button, [role=menuitem]',
  link: 'a[href]',
  heading: 'h1',
  field: 'input, textarea, select',
  dialog: 'dialog[open]',
} as const;
type Kind = keyof typeof KINDS;

/** A key that types nothing, as WebDriver names it. */
export const KEYS = { enter: '\uE007', escape: '\uE00C', control: '\uE009' } as const;

/** A tab, wherever it leads. All that waits does so until what it waits for is in sight. */
export interface DrivenTab {
  goTo(url: string): Promise<void>;
  /** Calls a function of the page, given as source text, with one JSON value. */
  run(source: string, argument?: unknown): Promise<unknown>;
  see(kind: Kind, name: string): Promise<void>;
  /** Waits until some element that matches `selector` and is in sight has these words in it. */
  read(selector: string, words: RegExp): Promise<void>;
  press(kind: Kind, name: string): Promise<void>;
  /** Presses what matches `selector`. */
  pressAt(selector: string): Promise<void>;
  /** Puts `text` in place of what is in a field. */
  fill(name: string, text: string): Promise<void>;
  /** Types where the focus is; keys of `held` are down meanwhile. */
  type(text: string, held?: string): Promise<void>;
  picture(): Promise<Buffer>;
}

const WAITS = { timeoutMs: 60_000, everyMs: 50 };

/** Where the first is that is in sight and is called so, in the dialog if one is open: it is what can be used. */
const PLACE_OF = `({ selector, name }) => {
  const dialogs = [...document.querySelectorAll('dialog[open]')];
  const nameOf = (one) => {
    const by = one.getAttribute('aria-labelledby');
    const label = by === null ? one.labels?.[0] : document.getElementById(by);
    return (one.getAttribute('aria-label') ?? (label?.querySelector('span') ?? label ?? one).textContent).trim();
  };
  const isCalled = (one) => name === null || nameOf(one) === name || (one.type === 'checkbox' && nameOf(one).startsWith(name));
  const found = [...(dialogs.at(-1)?.parentNode ?? document).querySelectorAll(selector)].find((one) => {
    const { width, height } = one.getBoundingClientRect();
    return width > 0 && height > 0 && one.checkVisibility({ visibilityProperty: true }) && isCalled(one);
  });
  if (found === undefined) return null;
  found.scrollIntoView({ block: 'nearest', behavior: 'instant' });
  const { left, top, width, height } = found.getBoundingClientRect();
  return { x: Math.round(left + width / 2), y: Math.round(top + height / 2) };
}`;
const placeSchema = z.object({ x: z.number(), y: z.number() });

const HAS = `({ selector, source }) => [...document.querySelectorAll(selector)]
  .some((one) => new RegExp(source).test(one.textContent) && one.checkVisibility())`;

/** The tab of `browser`. */
export function drivenTab({ send }: DrivenBrowser): DrivenTab {
  const run = async (source: string, argument: unknown = null) => {
    const script = `const done = arguments[1]; Promise.resolve((${source})(arguments[0])).then(done)`;
    return send('ExecuteAsyncScript', { script, args: [argument] });
  };
  const placeOf = (selector: string, name: string | null) =>
    until(() => run(PLACE_OF, { selector, name }), { ...WAITS, what: `there is ${selector} ${name}` });
  const pressAt = async (selector: string, name: string | null = null) => {
    // What is loaded meanwhile moves the rest.
    let before: unknown;
    const stands = async () => {
      const now = await placeOf(selector, name);
      const isSame = JSON.stringify(now) === JSON.stringify(before);
      before = now;
      return isSame;
    };
    await until(stands, { ...WAITS, what: `${selector} ${name} stands still` });
    const { x, y } = placeSchema.parse(before);
    const steps = [
      { type: 'pointerMove', x, y, duration: 0, origin: 'viewport' },
      { type: 'pointerDown', button: 0 },
      { type: 'pointerUp', button: 0 },
    ];
    const mouse = { type: 'pointer', id: 'mouse', parameters: { pointerType: 'mouse' }, actions: steps };
    await send('PerformActions', { actions: [mouse] });
  };
  const type = async (text: string, held = '') => {
    const strokes = [...text].flatMap((value) => [
      { type: 'keyDown', value },
      { type: 'keyUp', value },
    ]);
    const actions = [
      ...[...held].map((value) => ({ type: 'keyDown', value })),
      ...strokes,
      ...[...held].map((value) => ({ type: 'keyUp', value })),
    ];
    await send('PerformActions', { actions: [{ type: 'key', id: 'keyboard', actions }] });
  };
  return {
    run,
    type,
    goTo: async (url) => void (await send('Navigate', { url })),
    see: async (kind, name) => void (await placeOf(KINDS[kind], name)),
    read: async (selector, { source }) => {
      await until(() => run(HAS, { selector, source }), { ...WAITS, what: `${selector} has ${source}` });
    },
    press: (kind, name) => pressAt(KINDS[kind], name),
    pressAt: (selector) => pressAt(selector),
    fill: async (name, text) => {
      await pressAt(KINDS.field, name);
      await run('() => document.activeElement.select?.()');
      await type(text);
    },
    picture: async () => Buffer.from(z.string().parse(await send('TakeScreenshot', { full: false })), 'base64'),
  };
}
