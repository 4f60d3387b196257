/** What the hub of a browser tells its tabs. All of it can be posted. */
import type { Container, UserNotification } from '../../client/index.ts';

/** How the connection to the platform is. `retryAt`: Unix ms of the next attempt. */
export type LinkState =
  | { readonly state: 'connecting' }
  | { readonly state: 'live' }
  | { readonly state: 'waiting'; readonly retryAt: number }
  | { readonly state: 'ended' };

/** What was measured of a container at a time. CPU in thousandths of a core, the rest in bytes. */
export interface UsagePoint {
  /** Unix ms. */
  readonly at: number;
  readonly cpu: number;
  readonly cpuMost: number;
  readonly memory: number;
  readonly memoryMost: number;
  readonly disk: number;
  readonly diskMost: number;
}

/** From the hub to a tab. */
export type LiveMessage =
  | { readonly kind: 'containers'; readonly containers: readonly Container[] }
  | { readonly kind: 'link'; readonly link: LinkState }
  | { readonly kind: 'usage'; readonly points: Readonly<Record<string, UsagePoint>> }
  | { readonly kind: 'notification'; readonly notification: UserNotification }
  /** The session is over: no stream is open any more. */
  | { readonly kind: 'refused' };

/** From a tab to the worker. */
export type HubRequest =
  | { readonly kind: 'follow'; readonly userId: string }
  | { readonly kind: 'wake' }
  | { readonly kind: 'leave' };
