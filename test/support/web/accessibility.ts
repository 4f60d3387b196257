/** What axe-core says of a page as it is, in the looks that people have it in. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { z } from 'zod';
import type { BrowserPage } from '../clients/browser.ts';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const RULES = {
  type: 'tag',
  values: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'],
} as const;
/** What other colours change. */
const COLOURS = { type: 'rule', values: ['color-contrast', 'link-in-text-block'] } as const;

/** The first look has all rules, the other those of colours. */
const LOOKS = [
  { colorScheme: 'light', rules: RULES },
  { colorScheme: 'dark', rules: COLOURS },
] as const;
/** A desktop and a phone. */
const WIDTHS = [1280, 390] as const;
/** What WCAG 1.4.10 asks for: the narrowest page that scrolls one way only. */
const NARROWEST = 320;
const HEIGHT = 860;

const texts = z.array(z.string());
const LOOK = `async (runOnly) => {
  const { violations } = await axe.run(document, { runOnly, resultTypes: ['violations'] });
  return violations.map(({ id, nodes }) => id + ' ' + nodes.map(({ html }) => html.slice(0, 200)).join(' | '));
}`;
/** What reaches beyond the page, the innermost of it. */
const SIDEWAYS = `() => {
  if (document.documentElement.scrollWidth <= innerWidth) return [];
  const wide = [...document.querySelectorAll('body *')].filter((one) => one.getBoundingClientRect().right > innerWidth);
  const inner = wide.filter((one) => !wide.some((other) => other !== one && one.contains(other)));
  return ['scrolls sideways', ...inner.map(({ outerHTML }) => outerHTML.slice(0, 200))];
}`;
/**
 * With forced colours there are no backgrounds, and axe-core does not see the colours that there are: what is chosen must
 * have a line around it, or below.
 */
const UNMARKED = `() => [...document.querySelectorAll('[aria-current], [aria-pressed=true], [aria-selected=true]')]
  .filter((one) => one.checkVisibility() && one.getAttribute('aria-current') !== 'false')
  .filter((one) => {
    const { outlineStyle, borderBottomStyle, borderBottomWidth } = getComputedStyle(one);
    return outlineStyle === 'none' && (borderBottomStyle === 'none' || parseFloat(borderBottomWidth) < 2);
  })
  .map(({ outerHTML }) => outerHTML.slice(0, 200))`;

/** Looks at the page in one look and width, such as `dark 390`, and says what it finds. */
export type LookAt = (look: string) => Promise<string[]>;

/**
 * Findings in each look and width, each with both, also of `more`; and that the page scrolls sideways. It is left light and
 * wide.
 */
export async function findingsOf({ page, run }: BrowserPage, more?: LookAt): Promise<string[]> {
  // By the debugger: the policy of the page does not count for it.
  await page.evaluate(axe);
  const all: string[] = [];
  for (const width of WIDTHS) {
    await page.setViewportSize({ width, height: HEIGHT });
    for (const { colorScheme, rules } of LOOKS) {
      await page.emulateMedia({ colorScheme, forcedColors: 'none', reducedMotion: 'reduce' });
      const look = `${colorScheme} ${width}`;
      const found = [...texts.parse(await run(LOOK, rules)), ...((await more?.(look)) ?? [])];
      all.push(...found.map((one) => `${look}: ${one}`));
    }
    await page.emulateMedia({ forcedColors: 'active' });
    all.push(...texts.parse(await run(UNMARKED)).map((found) => `${width}, forced colours: not marked: ${found}`));
  }
  for (const width of [...WIDTHS, NARROWEST]) {
    await page.setViewportSize({ width, height: HEIGHT });
    all.push(...texts.parse(await run(SIDEWAYS)).map((found) => `${width}: ${found}`));
  }
  await page.setViewportSize({ width: WIDTHS[0], height: HEIGHT });
  await page.emulateMedia({ colorScheme: 'light', forcedColors: 'none', reducedMotion: 'reduce' });
  return all;
}
