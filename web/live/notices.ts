/**
 * Notices of the system: on once somebody asked for them in this browser. One tab shows each: the one that was used
 * last, unless somebody looks at it.
 */
import { effect, signal } from '@preact/signals';
import type { UserNotification } from '../../client/index.ts';
import { remember, remembered } from '../core/memory.ts';
import { isOwnPath } from '../core/own-path.ts';
import { go } from '../core/router.ts';

/** `missing`: this browser cannot. `denied`: somebody told the browser that it must not. */
type NoticesState = 'missing' | 'denied' | 'off' | 'on';

const KEPT = 'notices';
/** Whoever holds it shows them. */
const LOCK = 'troupe-notices';
const ICON = '/icon.svg';

export const notices = signal<NoticesState>(stateNow());

/** Whether this tab shows them, or at least wants to. */
let isShower = false;
let isInLine = false;
let waiting: AbortController | undefined;

/** Called once. Nobody is asked for anything. */
export function startNotices(): void {
  effect(() => {
    if (notices.value !== 'on' || isInLine) return;
    isInLine = true;
    waitForTurn();
    addEventListener('focus', takeTurn);
  });
  addEventListener('storage', () => {
    notices.value = stateNow();
  });
}

/** Has the browser ask, if it has not, and shows a first notice with this text. */
export async function turnOnNotices(first: string): Promise<void> {
  if ((await Notification.requestPermission()) === 'granted') remember(KEPT, 'on');
  notices.value = stateNow();
  if (notices.value === 'on') show(first, {});
}

export function turnOffNotices(): void {
  remember(KEPT, undefined);
  notices.value = stateNow();
}

/** Shows one that came, if it is this tab's turn. */
export function showNotice({ id, title, message, link, read }: UserNotification): void {
  if (!isShower || notices.value !== 'on' || read || document.hasFocus()) return;
  const notice = show(title, { body: message, tag: `troupe-${id}` });
  if (notice === undefined) return;
  notice.onclick = () => {
    focus();
    notice.close();
    go(isOwnPath(link, location.href) ? link : '/activity');
  };
}

function show(title: string, options: NotificationOptions): Notification | undefined {
  try {
    return new Notification(title, { icon: ICON, ...options });
  } catch {
    // Browsers on phones show none for a page.
    turnOffNotices();
    notices.value = 'missing';
    return undefined;
  }
}

function stateNow(): NoticesState {
  if (!('Notification' in globalThis) || !('locks' in navigator)) return 'missing';
  if (Notification.permission === 'denied') return 'denied';
  return Notification.permission === 'granted' && remembered(KEPT) === 'on' ? 'on' : 'off';
}

function waitForTurn(): void {
  const ended = new AbortController();
  waiting = ended;
  hold({ signal: ended.signal }, () => ended.signal.aborted);
}

/** This tab is used now. */
function takeTurn(): void {
  if (isShower) return;
  waiting?.abort();
  hold({ steal: true }, () => false);
}

/** Until the page is gone, or another tab takes it; then this one waits for its turn again. */
function hold(how: LockOptions, isGivenUp: () => boolean): void {
  const held = () => {
    isShower = true;
    return new Promise<never>(() => {});
  };
  navigator.locks.request(LOCK, how, held).catch(() => {
    if (isGivenUp()) return;
    isShower = false;
    waitForTurn();
  });
}
