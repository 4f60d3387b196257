/** What the platform offers: names, ports and limits. Asked once a login. */
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

/** Called once. */
export function startFacts(): void {
  effect(() => {
    if (session.value.state !== 'active') return;
    client.call('showPlatformFacts').then(
      (facts) => {
        known.value = facts;
      },
      () => {
        // Screens do without: limits are said by the platform when they are reached.
      },
    );
  });
}
