/** What the platform offers: names, ports and limits. Asked at the login, and when the page is looked at again. */
import { effect, type ReadonlySignal, signal } from '@preact/signals';
import type { CallReply, Outlook } from '../../client/index.ts';
import { client } from '../core/platform.ts';
import { session } from '../core/session.ts';

/** As the platform tells it. */
type PlatformOffer = CallReply<'showPlatformFacts'>;

const known = signal<PlatformOffer | undefined>(undefined);

/** Undefined until it is known. */
export const offer: ReadonlySignal<PlatformOffer | undefined> = known;

/** From where containers are called here. */
export const outlook = (): Outlook => ({ page: location, gateway: known.value?.ports });

function ask(): void {
  client.call('showPlatformFacts').then(
    (facts) => {
      known.value = facts;
    },
    () => {
      // Screens do without: limits are said by the platform when they are reached.
    },
  );
}

/** Called once. */
export function startFacts(): void {
  effect(() => {
    if (session.value.state === 'active') ask();
  });
  // The operator may have raised a limit in another window.
  document.addEventListener('visibilitychange', () => {
    if (document.visibilityState === 'visible' && session.peek().state === 'active') ask();
  });
}
