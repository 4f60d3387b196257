/** Pictures of screens that are kept beside the tests, as grey grids in text, and compared. */
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { CDPSession, Page } from 'playwright-core';
import { pause } from '../pause.ts';
import { projectRoot } from '../project.ts';
import { type GreyGrid, greyGrid } from './png.ts';

const KEPT = join(projectRoot, 'test/web/pictures');
/** Set to 1: the pictures of now are the ones to keep. */
const ACCEPT = 'TROUPE_ACCEPT_PICTURES';
/** A cell is a line of text high, 20 pixels: five of a picture that the browser scales down. */
const SCALE = 0.25;
const SIDE = 5;
/** One character for each fourth grey, black first. */
const GREYS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
/** So many of these may lie between two cells that count as the same: edges, other digits, another second. */
const SAME = 2;
/** The share of cells that may be others: an id that is longer, a count of notifications. */
const MOST_OTHERS = 0.025;
const HIDDEN = `
  * { caret-color: transparent !important }
  .xterm, .log .scroll, .plots, .spark, canvas, .feed, .toasts, time { visibility: hidden !important }
  .topbar .brand { display: flex !important }`;
/** How often a picture is taken before it is said to be another: parts come by streams. */
const MOST_TRIES = 8;
const BETWEEN_MS = 250;

const HIDE = `(() => {
  globalThis.hidden = new CSSStyleSheet();
  hidden.replaceSync(${JSON.stringify(HIDDEN)});
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, hidden];
})()`;
const SHOW = `(() => {
  document.adoptedStyleSheets = document.adoptedStyleSheets.filter((one) => one !== hidden);
})()`;

/** Whether the pictures of this run are the ones to keep. */
export const isAccepting = process.env[ACCEPT] === '1';

/** Compares screens with what is kept of them. */
export interface Pictures {
  /** Takes the picture of `screen` in the present `look`, such as `dark 390`; says what is other than in the kept one. */
  check(screen: string, look: string): Promise<string[]>;
  /** Writes what was accepted. */
  end(): Promise<void>;
}

/** Of the screens that `page` shows. Those that are others stand in `folder`, by default a new one that stays. */
export function picturesOf(page: Page, folder?: string): Pictures {
  const devtools = page.context().newCDPSession(page);
  const kept = new Map<string, Map<string, string>>();
  let others = folder;
  const ofScreen = async (screen: string) => {
    const known = kept.get(screen) ?? parse(isAccepting ? '' : await readIfThere(fileOf(screen)));
    kept.set(screen, known);
    return known;
  };
  return {
    check: async (screen, look) => {
      const looks = await ofScreen(screen);
      let wanted = looks.get(look);
      await page.evaluate(HIDE);
      try {
        for (let left = MOST_TRIES; ; left--) {
          const now = textOf(await gridOf(await devtools, page.viewportSize() ?? { width: 0, height: 0 }));
          const share = wanted === undefined ? 1 : shareOfOthers(wanted, now);
          if (share <= MOST_OTHERS) return [];
          if (isAccepting) {
            // It is kept once it stands still.
            wanted = now;
            looks.set(look, now);
          } else if (left === 0 || wanted === undefined) {
            others ??= await mkdtemp(join(tmpdir(), 'troupe-pictures-'));
            const file = join(others, `${screen}-${look.replace(' ', '-')}.png`);
            await page.screenshot({ path: file });
            const what =
              wanted === undefined ? 'no picture is kept' : `${Math.round(share * 100)} % is not as it was kept`;
            return [`${what}: look at ${file}, and set ${ACCEPT}=1 to keep it`];
          }
          await pause(BETWEEN_MS, 'retry');
        }
      } finally {
        await page.evaluate(SHOW);
      }
    },
    end: async () => {
      if (!isAccepting) return;
      await mkdir(KEPT, { recursive: true });
      for (const [screen, looks] of kept) await writeFile(fileOf(screen), format(looks));
    },
  };
}

async function gridOf(devtools: CDPSession, size: { readonly width: number; readonly height: number }) {
  const clip = { x: 0, y: 0, ...size, scale: SCALE };
  const { data } = await devtools.send('Page.captureScreenshot', { format: 'png', clip });
  return greyGrid(Buffer.from(data, 'base64'), SIDE);
}

function fileOf(screen: string): string {
  return join(KEPT, `${screen}.txt`);
}

async function readIfThere(file: string): Promise<string> {
  return existsSync(file) ? await readFile(file, 'utf8') : '';
}

function textOf(grid: GreyGrid): string {
  return grid.map((row) => row.map((grey) => GREYS[Math.min(63, Math.floor(grey / 4))]).join('')).join('\n');
}

/** All if one is larger. */
function shareOfOthers(one: string, other: string): number {
  if (one.length !== other.length) return 1;
  const isOther = (at: number) => Math.abs(GREYS.indexOf(one[at] ?? '') - GREYS.indexOf(other[at] ?? '')) > SAME;
  const cells = [...one].map((_, at) => at).filter((at) => one[at] !== '\n');
  return cells.filter(isOther).length / cells.length;
}

/** Each look is a line with its name, and the rows. */
function format(looks: ReadonlyMap<string, string>): string {
  return [...looks].map(([look, text]) => `${look}\n${text}\n`).join('\n');
}

function parse(text: string): Map<string, string> {
  const looks = text.split('\n\n').filter((part) => part.trim() !== '');
  return new Map(
    looks.map((part) => {
      const [look = '', ...rows] = part.trim().split('\n');
      return [look, rows.join('\n')];
    }),
  );
}
