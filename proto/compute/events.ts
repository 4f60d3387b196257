/** News of the compute service that other parts act on at once: who may no longer log in, and where traffic goes. */
import type { Ending } from '../ports/ending.ts';
import type { ContainerStatus } from './fields.ts';

/**
 * What changed. `key`: a user's SSH key is gone, with all it opened. `ssh`: a container's SSH was enabled or disabled.
 * `ingress`: a container's rules. `user`: a user was disabled. `status`: it is being started, runs, or failed.
 * `stopped`: it is to stop. `gone`: it is being deleted. `all`: news may have been missed, so look for yourself.
 */
export type ComputeNews =
  | { readonly kind: 'key'; readonly userId: string; readonly fingerprint: string }
  | { readonly kind: 'user'; readonly userId: string }
  | { readonly kind: 'ssh' | 'ingress' | 'stopped' | 'gone'; readonly containerId: string }
  | { readonly kind: 'status'; readonly containerId: string; readonly status: ContainerStatus }
  | { readonly kind: 'all' };

/** Where to hear it. */
export interface ComputeNewsSource {
  /** Calls `handler` within a second of every change, on every node. */
  onNews(handler: (news: ComputeNews) => void): Ending;
}
