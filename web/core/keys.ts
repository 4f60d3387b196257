/** Keys that work on all screens: single letters only outside of fields and terminals, and only while they are on. */
import { signal } from '@preact/signals';
import { remember, remembered } from './memory.ts';
import { ACCESS, MAIN, type NavPlace, SETTINGS } from './places.ts';
import { go } from './router.ts';
import { session } from './session.ts';

/** Whether the palette is open. */
export const isPaletteOpen = signal(false);

/** Whether single letters do something (WCAG 2.1.4: whoever talks to the browser, or trembles, switches them off). */
export const hasLetterKeys = signal(remembered('letter-keys') !== 'off');

/** How long `G` waits for the letter after it, ms. */
const CHORD_MS = 1500;

/** Places by the letter after `G`. */
const LETTERS: Readonly<Record<string, NavPlace | undefined>> = {
  c: MAIN[0],
  h: MAIN[1],
  a: MAIN[2],
  k: ACCESS[0],
  t: ACCESS[1],
  s: SETTINGS,
};

/** `G C` of a place that has one. */
export function keyOf(href: string): string | undefined {
  const letter = Object.entries(LETTERS).find(([, place]) => place?.href === href)?.[0];
  return letter === undefined ? undefined : `G ${letter.toUpperCase()}`;
}

export function setLetterKeys(isOn: boolean): void {
  hasLetterKeys.value = isOn;
  remember('letter-keys', isOn ? undefined : 'off');
}

/** Called once; it goes on for as long as the page lives. */
export function startKeys(): void {
  let chordUntil = 0;
  document.addEventListener('keydown', (event) => {
    if (event.defaultPrevented || session.value.state !== 'active') return;
    const isInTerminal = event.target instanceof Element && event.target.closest('.xterm') !== null;
    if (isInTerminal || document.querySelector('dialog[open]') !== null) return;
    const key = event.key.toLowerCase();
    if (key === 'k' && (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey) {
      event.preventDefault();
      isPaletteOpen.value = true;
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || !hasLetterKeys.value || isTyping(event.target)) return;
    const isChord = Date.now() < chordUntil;
    chordUntil = !isChord && key === 'g' ? Date.now() + CHORD_MS : 0;
    const to = isChord ? LETTERS[key]?.href : key === 'c' ? '/containers/new' : undefined;
    if (to !== undefined) go(to);
    else if (key === '?') isPaletteOpen.value = true;
    else if (key !== '/' || !findOnPage()) return;
    event.preventDefault();
  });
}

/** Whether there is a field that finds on this page: it has the focus now. */
export function findOnPage(): boolean {
  const field = document.querySelector<HTMLInputElement>('main input[type="search"]');
  field?.focus();
  return field !== null;
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.closest('input, textarea, select, [contenteditable]') !== null;
}
