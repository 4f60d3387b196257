/** The time, for what says how old it is. */
import { type Signal, signal } from '@preact/signals';

const SECOND = 1000;
const ticking = signal(Date.now());

/** Unix ms, a second exact while the page is seen. Read it where it is shown: the place follows. */
export const now: Pick<Signal<number>, 'value'> = ticking;

/** Called once; it goes on for as long as the page lives. */
export function startClock(): void {
  const tick = () => {
    if (!document.hidden) ticking.value = Date.now();
  };
  setInterval(tick, SECOND);
  document.addEventListener('visibilitychange', tick);
}
